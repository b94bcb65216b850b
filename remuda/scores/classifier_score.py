"""Compute the Inception score, which rewards clear images that cover many classes.

Salimans et al., "Improved techniques for training GANs", 2016: exp(E KL(p(y|x) || p(y))). With
another classifier, the score is named after the data, for example MNIST score.
"""

import torch
from torch import Tensor

from remuda.errors import UserError
from remuda.scores.checks import check_probabilities
from remuda.tensors import random

_ORDER = random.key(0, "scores/inception-score")  # determines the order of the shuffled images


def inception_score(
    probabilities: Tensor, num_splits: int = 10, *, key: int = _ORDER
) -> tuple[float, float]:
    """Return the mean and standard deviation of the scores of all splits.

    The worst mean is 1, the best is the number of classes. p(y) is the mean of p(y|x) over the
    split. The deviation divides by num_splits, not num_splits - 1, as in the paper's code.
    ``key`` shuffles the images first, because a split of images sorted by class would have only one
    class. Splits differ in size by at most 1.
    """
    if num_splits < 1:
        raise UserError(
            f"an Inception score needs at least 1 split, not {num_splits}: raise num_splits"
        )
    # Require two images per split, because the score of a single image is always 1.
    check_probabilities(probabilities, at_least=2 * num_splits)
    order = random.permutation(torch.tensor(key, device=probabilities.device), len(probabilities))
    scores = torch.stack([_score(split) for split in probabilities[order].tensor_split(num_splits)])
    return float(scores.mean()), float(scores.std(correction=0))


def _score(probabilities: Tensor) -> Tensor:
    p = probabilities.double()
    marginal = p.mean(0)
    # With xlogy, a class with probability 0 contributes 0.
    divergences = torch.xlogy(p, p) - torch.xlogy(p, marginal)
    return divergences.sum(1).mean().exp()

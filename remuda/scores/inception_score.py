"""The inception score: how sure a classifier is of each image, and how many classes the images spread over.

Salimans et al., "Improved techniques for training GANs", 2016: exp(E KL(p(y|x) || p(y))). With another classifier it is
the MNIST score and the like.
"""

import torch
from torch import Tensor

from remuda.errors import UserError
from remuda.scores.checks import check_probabilities
from remuda.tensors import random

_ORDER = random.key(0, "scores/inception-score")


def inception_score(
    probabilities: Tensor, num_splits: int = 10, *, key: int = _ORDER
) -> tuple[float, float]:
    """Mean and standard deviation of the splits' scores; 1 is the worst mean, the number of classes the best.

    p(y) is the mean of p(y|x) over the split. The deviation divides by num_splits, not num_splits - 1, as in the
    paper's code. Images are shuffled by key first: in the order of their classes, or of their labels in turn, a split
    would hold one class. Splits differ in size by at most 1.
    """
    if num_splits < 1:
        raise UserError(
            f"an inception score needs at least 1 split, not {num_splits}: raise num_splits"
        )
    check_probabilities(
        probabilities, at_least=2 * num_splits
    )  # the score of a single image is 1, whatever it shows
    order = random.permutation(torch.tensor(key, device=probabilities.device), len(probabilities))
    scores = torch.stack([_score(split) for split in probabilities[order].tensor_split(num_splits)])
    return float(scores.mean()), float(scores.std(correction=0))


def _score(probabilities: Tensor) -> Tensor:
    p = probabilities.double()
    marginal = p.mean(0)
    divergences = torch.xlogy(p, p) - torch.xlogy(
        p, marginal
    )  # xlogy: a class that never occurs adds 0
    return divergences.sum(1).mean().exp()

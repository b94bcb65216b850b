"""Precision, recall, density and coverage: is what is generated real, and is what is real generated?

Kynkäänniemi et al., "Improved precision and recall metric for assessing generative models", 2019: the manifold of a
set of images is the union of the balls about each of them that just reach its k-th nearest neighbour in the set.
Naeem et al., "Reliable fidelity and diversity metrics for generative models", 2020: density and coverage, which one
outlier with a vast ball does not spoil.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from remuda.errors import UserError
from remuda.scores.checks import check_features, check_widths
from remuda.scores.distances import blocks, blocks_of_pairs, slack


class Result(NamedTuple):
    precision: float  # part of the generated images that lie in a ball of a real one
    recall: float  # part of the real images that lie in a ball of a generated one
    density: float  # number of real balls that a generated image lies in, on average, over k; about 1, may be more
    coverage: float  # part of the real images with a generated one in their ball


def manifold(real: Tensor, fake: Tensor, num_neighbours: int = 5) -> Result:
    """All four, with k = num_neighbours; Kynkäänniemi et al. take 3, Naeem et al. 5.

    Balls are closed, as the first paper writes them. All four depend on both counts: compare at equal ones.
    """
    if num_neighbours < 1:
        raise UserError(
            f"a ball reaches to at least 1 neighbour, not {num_neighbours}: raise num_neighbours"
        )
    check_features(real, "real images", at_least=num_neighbours + 1)
    check_features(fake, "generated images", at_least=num_neighbours + 1)
    check_widths(real.shape[1], fake.shape[1])
    fake = fake.to(real.device)
    ties = slack(real)
    real_radii = squared_radii(real, num_neighbours) + ties
    fake_radii = squared_radii(fake, num_neighbours) + ties
    num_balls = torch.zeros(
        len(fake), dtype=torch.int64, device=real.device
    )  # real ones about each generated image
    recalled = torch.zeros(len(real), dtype=torch.bool, device=real.device)
    covered = torch.zeros_like(recalled)
    for place, distances in blocks(fake, real):
        in_real_ball = distances <= real_radii
        num_balls[place] = in_real_ball.sum(1)
        covered |= in_real_ball.any(0)
        recalled |= (distances <= fake_radii[place, None]).any(0)
    return Result(
        precision=float((num_balls > 0).double().mean()),
        recall=float(recalled.double().mean()),
        density=float(num_balls.double().mean()) / num_neighbours,
        coverage=float(covered.double().mean()),
    )


def squared_radii(features: Tensor, num_neighbours: int) -> Tensor:
    """The squared distance of each row to its k-th nearest among the others, (n,) float64."""
    radii = [
        distances.topk(num_neighbours, largest=False).values.amax(1)
        for _, distances in blocks_of_pairs(features, own=torch.inf)
    ]
    return torch.cat(radii)

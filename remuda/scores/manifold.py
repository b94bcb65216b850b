"""Compute precision, recall, density and coverage, which measure realism and variety of samples.

Precision and recall are from Kynkäänniemi et al., "Improved precision and recall metric for
assessing generative models", 2019. The manifold of a set of images is the union of balls around all
images. Each ball just reaches the image's k-th nearest neighbour in the set.
Density and coverage are from Naeem et al., "Reliable fidelity and diversity metrics for generative
models", 2020. They are robust against a single outlier with a very large ball.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from remuda.errors import UserError
from remuda.scores.checks import check_features, check_widths
from remuda.scores.distances import blocks, blocks_of_pairs, slack


class Result(NamedTuple):
    """The four scores."""

    precision: float  # fraction of generated images that lie in the ball of a real image
    recall: float  # fraction of real images that lie in the ball of a generated image
    density: float  # mean number of real balls around a generated image, divided by k
    coverage: float  # fraction of real images with a generated image in their ball


class Balls(NamedTuple):
    """The images that lie in balls of the other side."""

    num_real: Tensor  # (generated images,): the number of real balls around each
    recalled: Tensor  # (real images,): whether each lies in the ball of a generated image
    covered: Tensor  # (real images,): whether each has a generated image in its ball
    num_neighbours: int

    def scores(self) -> Result:
        """Return the four scores."""
        return Result(
            precision=float((self.num_real > 0).double().mean()),
            recall=float(self.recalled.double().mean()),
            density=float(self.num_real.double().mean()) / self.num_neighbours,
            coverage=float(self.covered.double().mean()),
        )


def manifold_scores(real: Tensor, fake: Tensor, num_neighbours: int = 5) -> Result:
    """Return all four scores with k = num_neighbours; Kynkäänniemi et al. use 3, Naeem et al. 5.

    Balls are closed, as in the first paper. All four scores depend on the numbers of real and
    generated images, so compare them only at equal numbers. Density may exceed 1.
    """
    return find_balls(real, fake, num_neighbours).scores()


def find_balls(real: Tensor, fake: Tensor, num_neighbours: int = 5) -> Balls:
    """Find the images in balls around the images of the other side."""
    if num_neighbours < 1:
        raise UserError(f"num_neighbours must be at least 1, not {num_neighbours}")
    check_features(real, "real images", at_least=num_neighbours + 1)
    check_features(fake, "generated images", at_least=num_neighbours + 1)
    check_widths(real.shape[1], fake.shape[1])
    fake = fake.to(real.device)
    ties = slack(real)
    real_radii = squared_radii(real, num_neighbours) + ties
    fake_radii = squared_radii(fake, num_neighbours) + ties
    # Count the real balls that each generated image lies in.
    num_balls = torch.zeros(len(fake), dtype=torch.int64, device=real.device)
    recalled = torch.zeros(len(real), dtype=torch.bool, device=real.device)
    covered = torch.zeros_like(recalled)
    for place, distances in blocks(fake, real):
        in_real_ball = distances <= real_radii
        num_balls[place] = in_real_ball.sum(1)
        covered |= in_real_ball.any(0)
        recalled |= (distances <= fake_radii[place, None]).any(0)
    return Balls(num_balls, recalled, covered, num_neighbours)


def squared_radii(features: Tensor, num_neighbours: int) -> Tensor:
    """Return the squared distance of each row to its k-th nearest other row, (n,) float64."""
    radii = [
        distances.topk(num_neighbours, largest=False).values.amax(1)
        for _, distances in blocks_of_pairs(features, own=torch.inf)
    ]
    return torch.cat(radii)

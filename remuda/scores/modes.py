"""Count the modes of `ring` and `grid` that generated points cover.

The measures are those of Srivastava et al., "VEEGAN", 2017, and of Lin et al., "PacGAN", 2018.
Points and centres are scaled into (-1, 1), as the data set stores them and generators make them.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from remuda.data.synthetic import Modes
from remuda.errors import UserError
from remuda.scores.checks import check_features

# A sample within this many standard deviations of the nearest centre has high quality. This holds
# for 98.9 % of the data: 1 - exp(-3^2 / 2).
NUM_DEVIATIONS = 3.0

# A mode is covered if its number of high-quality samples is at least this fraction of its fair
# share, n / modes. The papers require only one sample. But uniform noise puts one or two of 2,500
# samples near each mode of the grid, and would cover 21 of 25 modes. On the grid, a tenth of the
# fair share is 10 samples, which noise almost never reaches.
COVERED = 0.1
MIN_SHARE = 10  # samples per mode; with fewer, a perfect generator may miss a mode by chance


class ModeResult(NamedTuple):
    """The scores of generated points."""

    num_modes: int
    num_covered: int
    high_quality: float  # fraction of the samples
    # distance between equal shares and the shares of samples nearest to each mode, 0 to 1
    total_variation: float
    reverse_kl: float  # KL(generated || equal) of the same shares, 0 to log(num_modes)


def mode_scores(points: Tensor, modes: Modes) -> ModeResult:
    """Return the scores of points (n, 2) or (n, 2, 1, 1)."""
    points = points.flatten(1) if points.ndim > 1 else points
    num_modes = len(modes.centres)
    check_features(points, "generated points", at_least=MIN_SHARE * num_modes)
    if points.shape[1] != 2:
        raise UserError(
            f"scores of modes need samples with 2 coordinates, not {points.shape[1]}: use them "
            "only with the data sets ring and grid"
        )
    centres = torch.tensor(modes.centres, dtype=torch.float64, device=points.device)
    offsets = points.double()[:, None] - centres  # (n, modes, 2)
    distances, nearest = offsets.square().sum(2).sqrt().min(1)
    good = distances <= NUM_DEVIATIONS * modes.std
    found = torch.bincount(nearest[good], minlength=num_modes)
    needed = math.ceil(COVERED * len(points) / num_modes)
    shares = torch.bincount(nearest, minlength=num_modes).double() / len(points)
    return ModeResult(
        num_modes=num_modes,
        num_covered=int((found >= needed).sum()),
        high_quality=float(good.double().mean()),
        total_variation=float((shares - 1 / num_modes).abs().sum()) / 2,
        reverse_kl=float(torch.xlogy(shares, shares * num_modes).sum()),
    )

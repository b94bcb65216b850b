"""Build Inception v3 as in the TensorFlow graph of 2015-12-05, which defines FID.

The network is that of Szegedy et al., "Rethinking the Inception Architecture for Computer Vision",
2016. The graph differs from the paper in two points: average pools exclude the border from the
mean, and the last block uses a maximum pool. Every BatchNorm is folded into the convolution before
it, so a layer is a convolution with a bias, followed by a ReLU. Each layer knows its name in the
two weight files: the public file (with BatchNorm) and the folded file.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remuda.scores.features.layers import Convolution

NUM_FEATURES = 2048
NUM_CLASSES = 1008
SIZE = 299  # pixels per side of the network's input
EPSILON = 1e-3  # added to the variance in every BatchNorm

Pair = int | tuple[int, int]


class Names(NamedTuple):
    """The names of a layer in the files."""

    public: str
    folded: str

    def within(self, public: str, folded: str) -> "Names":
        """Return the names of a part of this block."""
        return Names(f"{self.public}.{public}", f"{self.folded}.{folded}")


class Layer(nn.Module):
    """Apply a convolution with a bias, then a ReLU."""

    def __init__(
        self,
        names: Names,
        num_in: int,
        num_out: int,
        kernel: Pair,
        stride: int = 1,
        padding: Pair = 0,
    ):
        super().__init__()
        self.names = names
        self.conv = Convolution(num_in, num_out, kernel, stride, padding)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv(x), inplace=True)


class Parallel(nn.Module):
    """Apply several branches to the same input, and concatenate their output channels."""

    def __init__(self, *branches: nn.Module):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


def _mean_pool() -> nn.Module:
    return nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)


def _shrink() -> nn.Module:
    return nn.MaxPool2d(3, stride=2)


def _stem() -> list[nn.Module]:
    return [
        Layer(Names("Conv2d_1a_3x3", "conv"), 3, 32, 3, stride=2),
        Layer(Names("Conv2d_2a_3x3", "conv_1"), 32, 32, 3),
        Layer(Names("Conv2d_2b_3x3", "conv_2"), 32, 64, 3, padding=1),
        _shrink(),
        Layer(Names("Conv2d_3b_1x1", "conv_3"), 64, 80, 1),
        Layer(Names("Conv2d_4a_3x3", "conv_4"), 80, 192, 3),
        _shrink(),
    ]


def _block_35(names: Names, num_in: int, num_pool: int) -> nn.Module:
    """Build a block on 35 x 35 pixels: 1x1; 5x5; two 3x3; pool."""
    at = names.within
    return Parallel(
        Layer(at("branch1x1", "conv"), num_in, 64, 1),
        nn.Sequential(
            Layer(at("branch5x5_1", "tower.conv"), num_in, 48, 1),
            Layer(at("branch5x5_2", "tower.conv_1"), 48, 64, 5, padding=2),
        ),
        nn.Sequential(
            Layer(at("branch3x3dbl_1", "tower_1.conv"), num_in, 64, 1),
            Layer(at("branch3x3dbl_2", "tower_1.conv_1"), 64, 96, 3, padding=1),
            Layer(at("branch3x3dbl_3", "tower_1.conv_2"), 96, 96, 3, padding=1),
        ),
        nn.Sequential(_mean_pool(), Layer(at("branch_pool", "tower_2.conv"), num_in, num_pool, 1)),
    )


def _shrink_to_17(names: Names) -> nn.Module:
    at = names.within
    return Parallel(
        Layer(at("branch3x3", "conv"), 288, 384, 3, stride=2),
        nn.Sequential(
            Layer(at("branch3x3dbl_1", "tower.conv"), 288, 64, 1),
            Layer(at("branch3x3dbl_2", "tower.conv_1"), 64, 96, 3, padding=1),
            Layer(at("branch3x3dbl_3", "tower.conv_2"), 96, 96, 3, stride=2),
        ),
        _shrink(),
    )


def _wide(names: Names, num_in: int, num_out: int) -> Layer:
    """Build a convolution over seven pixels in a row."""
    return Layer(names, num_in, num_out, (1, 7), padding=(0, 3))


def _tall(names: Names, num_in: int, num_out: int) -> Layer:
    """Build a convolution over seven pixels in a column."""
    return Layer(names, num_in, num_out, (7, 1), padding=(3, 0))


def _block_17(names: Names, width: int) -> nn.Module:
    """Build a block on 17 x 17 pixels: 1x1; 7x7 as a row and a column; the same twice; pool."""
    at = names.within
    return Parallel(
        Layer(at("branch1x1", "conv"), 768, 192, 1),
        nn.Sequential(
            Layer(at("branch7x7_1", "tower.conv"), 768, width, 1),
            _wide(at("branch7x7_2", "tower.conv_1"), width, width),
            _tall(at("branch7x7_3", "tower.conv_2"), width, 192),
        ),
        nn.Sequential(
            Layer(at("branch7x7dbl_1", "tower_1.conv"), 768, width, 1),
            _tall(at("branch7x7dbl_2", "tower_1.conv_1"), width, width),
            _wide(at("branch7x7dbl_3", "tower_1.conv_2"), width, width),
            _tall(at("branch7x7dbl_4", "tower_1.conv_3"), width, width),
            _wide(at("branch7x7dbl_5", "tower_1.conv_4"), width, 192),
        ),
        nn.Sequential(_mean_pool(), Layer(at("branch_pool", "tower_2.conv"), 768, 192, 1)),
    )


def _shrink_to_8(names: Names) -> nn.Module:
    at = names.within
    return Parallel(
        nn.Sequential(
            Layer(at("branch3x3_1", "tower.conv"), 768, 192, 1),
            Layer(at("branch3x3_2", "tower.conv_1"), 192, 320, 3, stride=2),
        ),
        nn.Sequential(
            Layer(at("branch7x7x3_1", "tower_1.conv"), 768, 192, 1),
            _wide(at("branch7x7x3_2", "tower_1.conv_1"), 192, 192),
            _tall(at("branch7x7x3_3", "tower_1.conv_2"), 192, 192),
            Layer(at("branch7x7x3_4", "tower_1.conv_3"), 192, 192, 3, stride=2),
        ),
        _shrink(),
    )


def _block_8(names: Names, num_in: int, pool: nn.Module) -> nn.Module:
    """Build a block on 8 x 8 pixels: 1x1; row and column; 3x3, then row and column; pool."""
    at = names.within

    def row_and_column(public: str, folded: str) -> nn.Module:
        return Parallel(
            Layer(at(f"{public}a", folded), 384, 384, (1, 3), padding=(0, 1)),
            Layer(at(f"{public}b", f"{folded}_1"), 384, 384, (3, 1), padding=(1, 0)),
        )

    return Parallel(
        Layer(at("branch1x1", "conv"), num_in, 320, 1),
        nn.Sequential(
            Layer(at("branch3x3_1", "tower_conv"), num_in, 384, 1),
            row_and_column("branch3x3_2", "tower_mixed_conv"),
        ),
        nn.Sequential(
            Layer(at("branch3x3dbl_1", "tower_1_conv"), num_in, 448, 1),
            Layer(at("branch3x3dbl_2", "tower_1_conv_1"), 448, 384, 3, padding=1),
            row_and_column("branch3x3dbl_3", "tower_1_mixed_conv"),
        ),
        nn.Sequential(pool, Layer(at("branch_pool", "tower_2_conv"), num_in, 192, 1)),
    )


def build() -> nn.Sequential:
    """Build the network that maps images (n, 3, 299, 299) in [-1, 1] to features (n, 2048).

    The network has no weights yet; load them from a file.
    """
    with torch.device("meta"):  # draws no initial weights, so the random state does not change
        return nn.Sequential(
            *_stem(),
            _block_35(Names("Mixed_5b", "mixed"), 192, 32),
            _block_35(Names("Mixed_5c", "mixed_1"), 256, 64),
            _block_35(Names("Mixed_5d", "mixed_2"), 288, 64),
            _shrink_to_17(Names("Mixed_6a", "mixed_3")),
            _block_17(Names("Mixed_6b", "mixed_4"), 128),
            _block_17(Names("Mixed_6c", "mixed_5"), 160),
            _block_17(Names("Mixed_6d", "mixed_6"), 160),
            _block_17(Names("Mixed_6e", "mixed_7"), 192),
            _shrink_to_8(Names("Mixed_7a", "mixed_8")),
            _block_8(Names("Mixed_7b", "mixed_9"), 1280, _mean_pool()),
            _block_8(Names("Mixed_7c", "mixed_10"), 2048, nn.MaxPool2d(3, stride=1, padding=1)),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        ).eval()


def layers(network: nn.Module) -> list[Layer]:
    """Return all layers with weights."""
    return [module for module in network.modules() if isinstance(module, Layer)]


def fold(weights: Mapping[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
    """Return the weight and bias of the convolution that replaces name.conv and name.bn."""
    norm = {
        key: weights[f"{name}.bn.{key}"].double()
        for key in ("weight", "bias", "running_mean", "running_var")
    }
    scale = norm["weight"] / torch.sqrt(norm["running_var"] + EPSILON)
    weight = weights[f"{name}.conv.weight"].double() * scale[:, None, None, None]
    return weight.float(), (norm["bias"] - norm["running_mean"] * scale).float()

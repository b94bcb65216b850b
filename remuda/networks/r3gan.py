"""Build the networks of R3GAN: Huang et al. 2024, "The GAN is dead; long live the GAN!".

Both networks are stacks of residual blocks with grouped convolutions, as in ResNeXt. They have no
normalisation, no dense layers for whole images and no style inputs. Instead of normalisation, the
initial weights keep the size of the signal. The authors' code defines the layers and figures that
the paper omits. docs/networks.md lists the differences.
"""

import math
from dataclasses import dataclass

from torch import nn

from remuda.errors import UserError
from remuda.networks.base import Networks
from remuda.networks.r3gan_modules import Blocks, Discriminator, Generator, Stage
from remuda.networks.resampling import sizes

FULL_AREA = 32 * 32  # pixels, above which every doubling halves the channels


@dataclass(frozen=True, kw_only=True)
class R3GAN(Networks):
    """Build a generator and a discriminator of residual blocks that mirror each other."""

    latent: int = 64
    conditional: bool = False  # whether both networks receive an embedding of the label
    # channels up to 32x32 pixels; each doubling above halves them; the paper has 768 for CIFAR-10
    width: int = 256
    blocks: int = 2  # residual blocks per resolution, >= 1
    expansion: int = 2  # channels inside a block, as a multiple of its input channels, >= 1
    group_width: int = 16  # channels per group of the 3x3 convolutions, >= 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("width", "blocks", "expansion", "group_width"):
            if getattr(self, name) < 1:
                raise UserError(f"networks.{name} must be at least 1, not {getattr(self, name)}")

    def generator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        num_labels = num_classes if self.conditional else 0
        return Generator(self._stages(shape), self._blocks, self.latent, shape[0], num_labels)

    def discriminator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        num_labels = num_classes if self.conditional else 0
        return Discriminator(self._stages(shape), self._blocks, shape[0], num_labels)

    @property
    def _blocks(self) -> Blocks:
        return Blocks(self.blocks, self.expansion, self.group_width)

    def _stages(self, shape: tuple[int, ...]) -> list[Stage]:
        """Return the feature maps from the smallest resolution to that of the images."""
        resolutions = sizes(shape)
        num_large = sum(height * width > FULL_AREA for height, width in resolutions)
        unit = self.group_width // math.gcd(self.group_width, self.expansion) << num_large
        if self.width % unit:
            raise UserError(
                f"networks.width must be a multiple of {unit} for {shape[1]}x{shape[2]} images "
                f"with networks.group_width={self.group_width} and networks.expansion="
                f"{self.expansion}, not {self.width}"
            )
        num_full = len(resolutions) - num_large
        channels = [self.width >> max(0, i + 1 - num_full) for i in range(len(resolutions))]
        return [Stage(*size, count) for size, count in zip(resolutions, channels, strict=True)]

"""Parts of a user, as the text of a file outside the package."""

TEXT = '''
"""Parts of my own."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import softplus

from remuda.data.datasets import Dataset
from remuda.gan import Loss
from remuda.networks import Networks
from remuda.scores.kinds import Kind, Measure
from remuda.strategies import Standalone

if (witness := Path(__file__).parent / "witness").exists():
    with witness.open("a") as file:
        file.write("executed\\n")


class Generator(nn.Module):
    def __init__(self, latent, shape, hidden):
        super().__init__()
        self.shape = shape
        pixels = shape[0] * shape[1] * shape[2]
        self.body = nn.Sequential(
            nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, pixels), nn.Tanh()
        )

    def forward(self, noise, labels):
        return self.body(noise).unflatten(1, self.shape)


class Discriminator(nn.Module):
    def __init__(self, shape, hidden):
        super().__init__()
        pixels = shape[0] * shape[1] * shape[2]
        self.body = nn.Sequential(
            nn.Flatten(), nn.Linear(pixels, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, 1)
        )

    def forward(self, images, labels):
        return self.body(images)[:, 0]


@dataclass(frozen=True, kw_only=True)
class Tiny(Networks):
    """Two small perceptrons."""

    latent: int = 8
    hidden: int = 16  # neurons in the hidden layer, >= 1

    def generator(self, shape, num_classes):
        return Generator(self.latent, shape, self.hidden)

    def discriminator(self, shape, num_classes):
        return Discriminator(shape, self.hidden)


@dataclass(frozen=True, kw_only=True)
class Mine(Standalone):
    """One pair, with a setting of my own."""

    # Multiplies nothing.
    factor: float = 2.0


LOGISTIC = Loss(
    lambda real, fake, target: softplus(-real).mean() + softplus(fake).mean(),
    lambda fake: softplus(-fake).mean(),
    has_targets=False,
)


def stripes(config, split):
    """Striped images of two classes."""
    rows = torch.arange(8) % 2 * 255
    one = rows.repeat(8, 1).to(torch.uint8)
    images = torch.stack([one, one.T]).repeat(20, 1, 1)[:, None]
    return Dataset("stripes", images, torch.arange(40) % 2, ("upright", "flat"))


def _brightness(subject, reference, held_out):
    return {"brightness": Measure(float(subject.images.double().mean()))}


BRIGHTNESS = Kind(
    measure=_brightness,
    needs=frozenset({"images"}),
    compares=False,
    uses_features=False,
    parts=("brightness",),
    better="higher",
)
'''

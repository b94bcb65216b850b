"""A convolutional pair for small images; own_networks.toml trains it with md-gan."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from remuda import UserError
from remuda.networks import Networks, one_hot


@dataclass(frozen=True, kw_only=True)
class TinyConv(Networks):
    """Build a convolutional pair for images whose sides are multiples of 4."""

    latent: int = 32
    conditional: bool = True
    width: int = 24  # channels of the layers next to the image, >= 1
    dropout: float = 0.2  # probability of dropout in the discriminator, 0 to 0.9

    def __post_init__(self):
        super().__post_init__()
        if self.width < 1 or not 0 <= self.dropout <= 0.9:
            raise UserError("networks.width must be at least 1, and networks.dropout 0 to 0.9")

    def generator(self, shape, num_classes):
        if shape[1] % 4 or shape[2] % 4:
            raise UserError(f"TinyConv needs sides that are multiples of 4: {shape}; set data.size")
        return Generator(self, shape, num_classes if self.conditional else 0)

    def discriminator(self, shape, num_classes):
        return Discriminator(self, shape, num_classes if self.conditional else 0)


class Generator(nn.Module):
    """Enlarge a quarter of the image's size twice."""

    layer_groups: ClassVar = {"input": "input", "output": "head"}

    def __init__(self, net, shape, num_labels):
        super().__init__()
        channels, height, width = shape
        self.num_labels = num_labels
        self.start = 2 * net.width, height // 4, width // 4
        self.input = nn.Linear(net.latent + num_labels, torch.Size(self.start).numel())
        self.body = nn.Sequential(
            nn.BatchNorm2d(2 * net.width),
            nn.ReLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(2 * net.width, 2 * net.width, 3, padding=1),
            nn.BatchNorm2d(2 * net.width),
            nn.ReLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(2 * net.width, net.width, 3, padding=1),
            nn.BatchNorm2d(net.width),
            nn.ReLU(),
        )
        self.output = nn.Conv2d(net.width, channels, 3, padding=1)

    def forward(self, noise, labels):
        if self.num_labels:
            noise = torch.cat([noise, one_hot(labels, self.num_labels)], 1)
        return torch.tanh(self.output(self.body(self.input(noise).unflatten(1, self.start))))


class Discriminator(nn.Module):
    """Halve the image twice; each label is a plane of ones or zeros."""

    layer_groups: ClassVar = {"body.0": "input", "output": "head"}

    def __init__(self, net, shape, num_labels):
        super().__init__()
        channels, height, width = shape
        self.num_labels = num_labels
        self.body = nn.Sequential(
            nn.Conv2d(channels + num_labels, net.width, 3, padding=1),
            nn.LeakyReLU(0.2),
            nn.Dropout(net.dropout),
            nn.Conv2d(net.width, 2 * net.width, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Dropout(net.dropout),
            nn.Conv2d(2 * net.width, 2 * net.width, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
        )
        self.output = nn.Linear(2 * net.width * (height // 4) * (width // 4), 1)

    def forward(self, images, labels):
        if self.num_labels:
            planes = one_hot(labels, self.num_labels)[:, :, None, None]
            images = torch.cat([images, planes.expand(-1, -1, *images.shape[2:])], 1)
        return self.output(self.body(images))[:, 0]

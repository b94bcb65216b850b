"""Build and train a small convolutional classifier.

It follows LeCun et al., "Gradient-based learning applied to document recognition", 1998. It has
5 x 5 convolutions, each with a ReLU and a 2 x 2 pool, a hidden layer, and an output layer. The
features are the values of the hidden layer. The number of training steps is fixed, so the training
time does not depend on the number of images. Training on MNIST takes 46 seconds on one core.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remuda.data.datasets import Dataset
from remuda.data.images import to_unit
from remuda.scores.digests import text_digest
from remuda.scores.features.layers import Convolution, Linear, in_full_batches
from remuda.scores.precision import full_float32, one_thread
from remuda.system import progress
from remuda.tensors import random

_BATCH = 500  # images per forward pass without gradients


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Define how to build and train the classifier; each recipe gives a different classifier."""

    version: int = 1  # increase it if a change to this module changes the weights
    width: int = 16  # channels of the first convolution; each later one doubles them
    kernel: int = 5  # pixels per side, odd
    num_features: int = 128
    num_steps: int = 1600
    batch_size: int = 100
    learning_rate: float = 0.004  # peak learning rate of Adam
    # fraction of steps in which the rate rises linearly to its peak; it then falls linearly to 0
    warm_up: float = 0.2
    shift: int = 16  # every batch is shifted by up to size // shift pixels in each direction

    def digest(self, seed: int) -> str:
        """Return the digest of this recipe with a seed."""
        return text_digest(f"{self} seed={seed}")

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        done = (step + 1) / self.num_steps
        return self.learning_rate * min(done / self.warm_up, (1.0 - done) / (1.0 - self.warm_up))


class LeNet(nn.Module):
    """Map images in [-1, 1] to features and logits; a new network has no weights."""

    def __init__(self, shape: tuple[int, int, int], num_classes: int, recipe: Recipe):
        super().__init__()
        num_in, height, width = shape
        layers: list[nn.Module] = []
        num_out = recipe.width
        padding = recipe.kernel // 2
        # Add at least two convolutions, and more until at most 8 x 8 pixels are left.
        while len(layers) < 2 * 3 or max(height, width) > 8:
            conv = Convolution(num_in, num_out, recipe.kernel, padding=padding, device="meta")
            layers += [conv, nn.ReLU(), nn.MaxPool2d(2)]
            num_in, num_out, height, width = num_out, 2 * num_out, height // 2, width // 2
        hidden = Linear(num_in * height * width, recipe.num_features, device="meta")
        self.body = nn.Sequential(*layers, nn.Flatten(), hidden, nn.ReLU())
        self.head = Linear(recipe.num_features, num_classes, device="meta")

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(images)
        return features, self.head(features)


def initialize(network: LeNet, seed: int, device: torch.device) -> None:
    """Draw normal weights with the deviation sqrt(2 / inputs) of He et al., 2015; biases are 0."""
    drawn = {}
    for i, (name, value) in enumerate(network.named_parameters()):
        if value.dim() > 1:
            key = torch.tensor(random.key(seed, "classifier/weights", i))
            drawn[name] = random.normal(key, value.shape) * math.sqrt(2.0 / value[0].numel())
        else:
            drawn[name] = torch.zeros(value.shape)
    network.load_state_dict(drawn, assign=True)
    network.to(device).requires_grad_(True)


def fit(network: LeNet, train: Dataset, recipe: Recipe, seed: int, device: torch.device) -> None:
    """Train the network, starting from initial weights drawn with the seed."""
    initialize(network, seed, device)
    # Images on disk stay there; only the batches are copied to the device.
    images = train.images if train.file is not None else train.images.to(device)
    labels = train.labels.to(device)
    batches = _batches(len(labels), recipe, seed).to(device)
    shifts = _shifts(train, recipe, seed)
    optimizer = torch.optim.Adam(network.parameters())
    shown = progress.tracked("training the classifier", recipe.num_steps, "steps")
    with full_float32(device), one_thread(device), torch.enable_grad(), shown:
        for step in range(recipe.num_steps):
            optimizer.param_groups[0]["lr"] = recipe.rate(step)
            real = images[batches[step].to(images.device)].to(device)
            _, logits = network(_shifted(to_unit(real), *shifts[step]))
            loss = F.cross_entropy(logits, labels[batches[step]])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            progress.step()
    network.requires_grad_(False)


def _batches(count: int, recipe: Recipe, seed: int) -> Tensor:
    """Return image indices (steps, batch), taken from successive random orders of all images."""
    wanted = recipe.num_steps * recipe.batch_size
    orders = [
        random.permutation(torch.tensor(random.key(seed, "classifier/order", epoch)), count)
        for epoch in range(math.ceil(wanted / count))
    ]
    return torch.cat(orders)[:wanted].reshape(recipe.num_steps, recipe.batch_size)


def _shifts(train: Dataset, recipe: Recipe, seed: int) -> list[tuple[int, int]]:
    """Return how many pixels to shift images down and to the right in each step."""
    key = torch.tensor(random.key(seed, "classifier/shift"))
    _, height, width = train.shape
    limit = torch.tensor([height // recipe.shift, width // recipe.shift])
    draws = (random.uniform(key, (recipe.num_steps, 2)) * (2 * limit + 1)).long() - limit
    return [(down, right) for down, right in draws.tolist()]


def _shifted(images: Tensor, down: int, right: int) -> Tensor:
    """Shift images; fill new pixels with copies of the border pixels."""
    if down == right == 0:
        return images
    # The order is left, right, top, bottom.
    padding = max(right, 0), max(-right, 0), max(down, 0), max(-down, 0)
    height, width = images.shape[-2:]
    top, left = max(-down, 0), max(-right, 0)
    return F.pad(images, padding, mode="replicate")[..., top : top + height, left : left + width]


@torch.no_grad()
def extract(network: LeNet, images: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return features and logits of any number of uint8 images."""

    def both(batch: Tensor) -> Tensor:
        return torch.cat(network(to_unit(batch.to(device))), dim=1)

    rows = in_full_batches(both, images, _BATCH)
    width = network.head.in_features
    return rows[:, :width].contiguous(), rows[:, width:].contiguous()

"""Draw random numbers inside networks from keys in buffers.

PyTorch's random layers draw from a global generator, so a repeated or resumed run would differ, and
``vmap`` refuses them. ``with_keys`` replaces them by layers with the same distribution.
"""

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from remuda.errors import UserError
from remuda.networks.layers import wide_type
from remuda.tensors import random


class RandomStream(nn.Module):
    """Draw random numbers in a network's ``forward``, in training mode.

    The key is a buffer, which advances with every draw, as BatchNorm's statistics do. Draws depend
    only on the state: they are the same in a loop and under ``vmap``, and a resumed run draws the
    same numbers. Every member has its own stream. In evaluation mode an image must not depend on
    the other images of its batch, so there are no draws: write ``if self.training``.
    """

    key: Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("key", torch.randint(1 << 62, ()))

    def uniform(self, *shape: int) -> Tensor:
        """Return numbers in [0, 1) of this shape, and advance the stream."""
        return random.uniform(self._next(), shape)

    def normal(self, *shape: int) -> Tensor:
        """Return standard normal numbers of this shape, and advance the stream."""
        return random.normal(self._next(), shape)

    def _next(self) -> Tensor:
        if not self.training:
            raise UserError(
                "a RandomStream draws only in training mode: write `if self.training:` before the "
                "draw"
            )
        now, after = random.chain(self.key, 1)
        self.key.copy_(after)
        return now


class KeyedLayer(nn.Module):
    """A random layer that draws from its own stream; in evaluation mode it draws nothing."""

    def __init__(self):
        super().__init__()
        self.stream = RandomStream()

    def forward(self, input: Tensor) -> Tensor:
        return self.changed(input) if self.training else self.unchanged(input)

    def changed(self, input: Tensor) -> Tensor:
        """Return the output in training mode."""
        raise NotImplementedError

    def unchanged(self, input: Tensor) -> Tensor:
        """Return the output in evaluation mode."""
        return input


class KeyedDropout(KeyedLayer):
    """Set activations to zero at random, and scale the others, as ``nn.Dropout`` does.

    Args:
        p: probability of a zero.
        num_axes: number of leading axes that have their own draws: 2 for whole channels, 0 for all.
    """

    def __init__(self, p: float, num_axes: int = 0):
        super().__init__()
        self.p, self.num_axes = p, num_axes

    def changed(self, input: Tensor) -> Tensor:
        scale = 0.0 if self.p == 1.0 else 1.0 / (1.0 - self.p)
        factors = self.kept(input).to(wide_type(input)) * scale
        return (input * factors).to(input.dtype)

    def kept(self, input: Tensor) -> Tensor:
        """Return which activations stay, in a shape that broadcasts to that of the input."""
        shape = list(input.shape)
        if self.num_axes:
            shape[self.num_axes :] = [1] * (len(shape) - self.num_axes)
        return self.stream.uniform(*shape) >= self.p

    def extra_repr(self) -> str:
        return f"p={self.p}"


class KeyedAlphaDropout(KeyedDropout):
    """Set activations to SELU's lower limit at random, and keep the mean and the variance.

    The constants are those of Klambauer et al. 2017, "Self-normalizing neural networks".
    """

    LIMIT = -1.0507009873554805 * 1.6732632423543772  # -scale * alpha of SELU

    def changed(self, input: Tensor) -> Tensor:
        if self.p == 1.0:
            return torch.zeros_like(input)
        keep = 1.0 - self.p
        scale = 1.0 / math.sqrt(keep + self.LIMIT**2 * keep * self.p)
        dropped = torch.where(self.kept(input), input, self.LIMIT)
        return (scale * dropped - scale * self.p * self.LIMIT).to(input.dtype)


class KeyedRReLU(KeyedLayer):
    """Multiply negative activations by random slopes, as ``nn.RReLU`` does."""

    def __init__(self, lower: float, upper: float):
        super().__init__()
        self.lower, self.upper = lower, upper

    def changed(self, input: Tensor) -> Tensor:
        slopes = self.lower + (self.upper - self.lower) * self.stream.uniform(*input.shape)
        return torch.where(input >= 0, input, (input * slopes).to(input.dtype))

    def unchanged(self, input: Tensor) -> Tensor:
        return nn.functional.leaky_relu(input, (self.lower + self.upper) / 2)


_REPLACEMENTS: dict[type[nn.Module], Callable[[Any], nn.Module]] = {
    nn.Dropout: lambda layer: KeyedDropout(layer.p),
    nn.Dropout1d: lambda layer: KeyedDropout(layer.p, num_axes=2),
    nn.Dropout2d: lambda layer: KeyedDropout(layer.p, num_axes=2),
    nn.Dropout3d: lambda layer: KeyedDropout(layer.p, num_axes=2),
    nn.AlphaDropout: lambda layer: KeyedAlphaDropout(layer.p),
    nn.FeatureAlphaDropout: lambda layer: KeyedAlphaDropout(layer.p, num_axes=2),
    nn.RReLU: lambda layer: KeyedRReLU(layer.lower, layer.upper),
}


def with_keys(network: nn.Module) -> nn.Module:
    """Replace PyTorch's random layers in a new network, and return the network.

    Subclasses of these layers stay, because they may compute something else.
    """
    root = nn.ModuleDict({"network": network})
    replaced: dict[nn.Module, nn.Module] = {}  # a layer may have several places
    for parent in list(root.modules()):
        for name, layer in parent.named_children():
            if type(layer) in _REPLACEMENTS:
                if layer not in replaced:
                    replaced[layer] = _REPLACEMENTS[type(layer)](layer).train(layer.training)
                parent.add_module(name, replaced[layer])
    return cast(nn.Module, root["network"])

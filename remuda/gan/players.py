"""One network as a tree of tensors, and how to call a module with such a tree."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from remuda.gan.optimizers import Adam, Moments


class Player(NamedTuple):
    """A network that learns: its parameters, its buffers (running statistics, dropout streams), Adam's moments."""

    params: dict[str, Tensor]
    buffers: dict[str, Tensor]
    moments: Moments


class Pair(NamedTuple):
    """A generator and its discriminator."""

    generator: Player
    discriminator: Player
    average: dict[
        str, Tensor
    ]  # moving average of the generator's floating-point tensors; empty if not asked for


def tensors_of(module: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """A module's parameters and buffers, detached."""
    params = {name: param.detach() for name, param in module.named_parameters()}
    return params, dict(module.named_buffers())


def recruit(module: nn.Module, optimizer: Adam) -> Player:
    """The player that a freshly initialised module describes."""
    params, buffers = tensors_of(module)
    return Player(params, buffers, optimizer.init(params))


def apply(
    module: nn.Module, params: dict[str, Tensor], buffers: dict[str, Tensor], *inputs: Any
) -> tuple[Tensor, dict[str, Tensor]]:
    """Call module with these tensors in place of its own: its output, and the buffers as it leaves them."""
    buffers = {name: buffer.clone() for name, buffer in buffers.items()}
    return functional_call(module, (params, buffers), inputs, tie_weights=False), buffers


def blend(average: dict[str, Tensor], player: Player, decay: float) -> dict[str, Tensor]:
    """One step of the moving average towards a player."""
    current = player.params | player.buffers
    return {name: torch.lerp(old, current[name], 1 - decay) for name, old in average.items()}


def start_average(player: Player) -> dict[str, Tensor]:
    tensors = player.params | player.buffers
    return {name: tensor.clone() for name, tensor in tensors.items() if tensor.is_floating_point()}

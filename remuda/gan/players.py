"""Represent a network as a tree of tensors, and call a module with that tree."""

import copy
import threading
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call

from remuda.gan.optimizers import Adam, Moments

Labelled = tuple[Tensor, Tensor]  # images (b, C, H, W) and their labels (b,)


class Player(NamedTuple):
    """The state of a network that learns."""

    params: dict[str, Tensor]
    buffers: dict[str, Tensor]  # running statistics and random streams of dropout
    moments: Moments  # moments of Adam

    def metrics(self) -> dict[str, Tensor]:
        """Return the probability of adaptive augmentation, or nothing if it is not adaptive."""
        probability = self.buffers.get("ada_probability")
        return {} if probability is None else {"augmentation": probability.clone()}


class Pair(NamedTuple):
    """A generator and its discriminator."""

    generator: Player
    discriminator: Player
    average: dict[str, Tensor]  # moving average of the generator's floats; empty without ema


def tensors_of(module: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return a module's parameters, detached, and its buffers."""
    params = {name: param.detach() for name, param in module.named_parameters()}
    return params, dict(module.named_buffers())


def sampled_tensors(pair: Pair) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the generator's parameters and buffers for sampling: the averaged ones if any."""
    params, buffers, _ = pair.generator
    return (
        {name: pair.average.get(name, param) for name, param in params.items()},
        {name: pair.average.get(name, buffer) for name, buffer in buffers.items()},
    )


def new_player(module: nn.Module, optimizer: Adam) -> Player:
    """Return a player with the weights of a newly initialised module."""
    params, buffers = tensors_of(module)
    return Player(params, buffers, optimizer.init(params))


def apply(
    module: nn.Module, params: dict[str, Tensor], buffers: dict[str, Tensor], *inputs: Any
) -> tuple[Tensor, dict[str, Tensor]]:
    """Call the module with these tensors instead of its own; return its output and new buffers."""
    buffers = {name: buffer.clone() for name, buffer in buffers.items()}
    return _call(module, (params, buffers), inputs), buffers


class _Copies(threading.local):
    """This thread's copies of modules."""

    def __init__(self) -> None:
        self.of: WeakKeyDictionary[nn.Module, nn.Module] = WeakKeyDictionary()


_copies = _Copies()
_main_calls = threading.RLock()  # held while the main thread calls a module


def _call(module: nn.Module, tensors: tuple[dict[str, Tensor], ...], inputs: Any) -> Tensor:
    """Call a module with these tensors.

    ``functional_call`` changes the module while it runs. If two threads used the same module, one
    would compute with the tensors of the other. So every thread but the main one has its own copy.
    """
    if torch.compiler.is_compiling():  # traces without changing the module
        return functional_call(module, tensors, inputs, tie_weights=False)
    if threading.current_thread() is threading.main_thread():
        with _main_calls:
            return functional_call(module, tensors, inputs, tie_weights=False)
    if module not in _copies.of:
        with _main_calls:  # the module has its own tensors now
            _copies.of[module] = copy.deepcopy(module)
    return functional_call(_copies.of[module], tensors, inputs, tie_weights=False)


def apply_to_both(
    modules: tuple[nn.Module, nn.Module | None],
    params: dict[str, Tensor],
    buffers: dict[str, Tensor],
    real: Labelled,
    fakes: Labelled,
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Call a discriminator with real images and their labels, then with fakes and their labels.

    Return both outputs and the new buffers. The second module is the same discriminator for two
    batches of equal size in one pass (see remuda.networks.batches), or None.
    """
    module, joint = modules
    if joint is None or len(real[0]) != len(fakes[0]) or not _joins(joint, fakes[0].device):
        on_real, buffers = apply(module, params, buffers, *real)
        on_fakes, buffers = apply(module, params, buffers, *fakes)
        return on_real, on_fakes, buffers
    images = torch.cat([real[0].to(fakes[0].dtype), fakes[0]])
    outputs, buffers = apply(joint, params, buffers, images, torch.cat([real[1], fakes[1]]))
    on_real, on_fakes = outputs.chunk(2)
    return on_real, on_fakes, buffers


def outputs_of(
    modules: tuple[nn.Module, nn.Module | None],
    params: dict[str, Tensor],
    buffers: dict[str, Tensor],
    *batches: Labelled,
) -> tuple[Tensor, ...]:
    """Return a discriminator's outputs for one or two batches, in the order of the arguments."""
    if len(batches) == 1:
        return apply(modules[0], params, buffers, *batches[0])[:1]
    return apply_to_both(modules, params, buffers, *batches)[:2]


def _joins(joint: nn.Module, device: torch.device) -> bool:
    """Return whether to call a discriminator once with two batches instead of twice.

    One pass has half the operations, which saves time on a GPU and in the compiler. Plain code on a
    CPU gains nothing.
    """
    if getattr(joint, "joins_always", False):
        return True
    return torch.compiler.is_dynamo_compiling() or device.type != "cpu"


def new_average(player: Player) -> dict[str, Tensor]:
    """Return the initial moving average: copies of the player's floating-point tensors."""
    tensors = player.params | player.buffers
    return {name: tensor.clone() for name, tensor in tensors.items() if tensor.is_floating_point()}


def update_average(
    average: dict[str, Tensor], player: Player, weight: float | Tensor
) -> dict[str, Tensor]:
    """Move the average one step towards the player, which gets this weight."""
    current = player.params | player.buffers
    return {name: torch.lerp(old, current[name], weight) for name, old in average.items()}

"""Find layers that break the contract of networks, before and while a network computes.

Training replaces all parameters and buffers of a module in every call, so a network may keep no
other state. Every problem is reported in one sentence with the path of the layer, such as
``generator.body.3``.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.nn.utils import parametrize
from torch.utils._python_dispatch import TorchDispatchMode

from remuda.errors import UserError

# Attributes of a module that hold its registered tensors and layers.
_REGISTERED = ("_parameters", "_buffers", "_modules")
_SPECTRAL = (
    "remove it and set strategy.lipschitz=spectral, or spectral-both to normalise both networks"
)


def named_layers(network: nn.Module, role: str) -> Iterator[tuple[str, nn.Module]]:
    """Yield every layer with its path in the user's own module, without our wrappers."""
    while type(network).__module__.startswith("remuda.") and hasattr(network, "network"):
        network = cast(nn.Module, network.network)
    for name, layer in network.named_modules():
        yield f"{role}.{name}" if name else role, layer


def check_layers(network: nn.Module, role: str) -> None:
    """Raise a UserError if a layer of this new network cannot be trained."""
    owners: dict[int, str] = {}
    for path, layer in named_layers(network, role):
        _check_kind(path, layer)
        for name, tensor in (*layer._parameters.items(), *layer._buffers.items()):
            if tensor is not None:
                full = f"{path}.{name}"
                _check_registered(full, tensor)
                if owners.setdefault(id(tensor), full) != full:
                    raise UserError(
                        f"{full} is the same tensor as {owners[id(tensor)]}: use one layer in both "
                        "places of forward, or give each layer its own tensor"
                    )
        _check_attributes(path, layer)
    if not any(True for _ in network.parameters()):
        raise UserError(f"the {role} has no parameters to train: assign its layers to attributes")


def _check_kind(path: str, layer: nn.Module) -> None:
    kind = type(layer).__name__
    tensors = (*layer._parameters.values(), *layer._buffers.values())
    if any(isinstance(tensor, UninitializedParameter | UninitializedBuffer) for tensor in tensors):
        plain = kind.removeprefix("Lazy")
        raise UserError(
            f"{path} is a {kind}, whose shape is unknown until its first call: write nn.{plain} "
            "with the size of its input"
        )
    hooks = {type(hook).__name__ for hook in layer._forward_pre_hooks.values()}
    if parametrize.is_parametrized(layer):
        lists = cast(nn.ModuleDict, layer.parametrizations).values()
        hooks |= {type(part).__name__ for parts in lists for part in cast(Any, parts)}
    if hooks & {"SpectralNorm", "_SpectralNorm"}:
        raise UserError(
            f"{path} has PyTorch's spectral_norm, which cannot be stacked and resumed exactly: "
            f"{_SPECTRAL}"
        )
    if "WeightNorm" in hooks:
        raise UserError(
            f"{path} has the old torch.nn.utils.weight_norm, which keeps its weight outside the "
            "parameters: use torch.nn.utils.parametrizations.weight_norm"
        )


def _check_registered(full: str, tensor: Tensor) -> None:
    if isinstance(tensor, nn.Parameter) and tensor.is_complex():
        raise UserError(
            f"{full} is a parameter of complex numbers, which Adam cannot train: use two real "
            "parameters and torch.complex"
        )
    if isinstance(tensor, nn.Parameter) and not tensor.requires_grad:
        name = full.rpartition(".")[2]
        raise UserError(
            f"{full} is a parameter that needs no gradient, but training changes every parameter: "
            f'keep it with self.register_buffer("{name}", tensor) instead'
        )


def _check_attributes(path: str, layer: nn.Module) -> None:
    own = {id(tensor) for tensor in (*layer._parameters.values(), *layer._buffers.values())}
    for name, value in vars(layer).items():
        if name not in _REGISTERED and any(id(each) not in own for each in _tensors_in(value)):
            raise UserError(
                f"{path} keeps a tensor in its attribute {name}, which is not part of its state: "
                f'write self.register_buffer("{name}", tensor), or nn.Parameter if it is trained'
            )


def _tensors_in(value: Any) -> Iterable[Tensor]:
    if isinstance(value, dict):
        value = tuple(value.values())
    values = value if isinstance(value, list | tuple) else (value,)
    return [each for each in values if isinstance(each, Tensor)]


class _RandomOperations(TorchDispatchMode):
    """Raise at the first operation that draws from PyTorch's random generator."""

    def __init__(self, where: Callable[[], tuple[str, nn.Module]]):
        super().__init__()
        self.where = where

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep PyTorch from importing its compiler for this class, which takes 0.7 s."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if _draws(func, args, kwargs or {}):
            path, layer = self.where()
            remedy = (
                "use layers such as nn.Dropout, which remuda replaces, or draw from a "
                "remuda.networks.RandomStream"
            )
            if getattr(layer, "dropout", None) and type(layer).__module__.startswith("torch."):
                remedy = "set its argument dropout to 0, and use nn.Dropout after it"
            raise UserError(
                f"{path} draws random numbers with PyTorch's {func.overloadpacket.__name__}, so a "
                f"repeated or resumed run would differ: {remedy}"
            )
        return func(*args, **(kwargs or {}))


def _draws(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether an operation draws random numbers; attention does so only with dropout."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    names = [argument.name for argument in func._schema.arguments]
    values = dict(zip(names, args, strict=False)) | kwargs
    return "dropout_p" not in names or values.get("dropout_p", 0.0) > 0


class Tracker:
    """Know which layers of a network are being called, inside a ``with`` block."""

    def __init__(self, network: nn.Module, role: str):
        self.layers = list(named_layers(network, role))
        self.active = [(role, network)]  # outermost first; after an error, where it occurred
        self.last = role, network  # the layer without children that was called last

    def __enter__(self) -> "Tracker":
        self._hooks = [
            hook
            for path, layer in self.layers
            for hook in (
                layer.register_forward_pre_hook(partial(self._enter, path)),
                layer.register_forward_hook(self._leave),
            )
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _enter(self, path: str, layer: nn.Module, *_: Any) -> None:
        self.active.append((path, layer))

    def _leave(self, *_: Any) -> None:
        path, layer = self.active.pop()
        if not layer._modules:
            self.last = path, layer


class Watch:
    """Call a network once, and raise a UserError if it draws random numbers or keeps other state.

    The network must be a copy, because its buffers change.
    """

    def __init__(self, network: nn.Module, role: str):
        self.network, self.tracker = network, Tracker(network, role)

    def __call__(self, *inputs: Tensor) -> Any:
        layers = self.tracker.layers
        before = [_state(layer) for _, layer in layers]
        with self.tracker, _RandomOperations(lambda: self.tracker.active[-1]):
            outputs = self.network(*inputs)
        for (path, layer), old in zip(layers, before, strict=True):
            _compare(path, layer, old)
        return outputs


def _state(layer: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the buffers of a layer, and its other attributes if its class is not PyTorch's."""
    if type(layer).__module__.startswith("torch."):
        return dict(layer._buffers), {}
    hidden = (*_REGISTERED, "_forward_hooks", "_forward_pre_hooks", "training")
    return dict(layer._buffers), {k: v for k, v in vars(layer).items() if k not in hidden}


def _compare(path: str, layer: nn.Module, before: tuple[dict[str, Any], dict[str, Any]]) -> None:
    buffers, attributes = _state(layer)
    for name, buffer in buffers.items():
        if before[0].get(name) is not buffer:
            raise UserError(
                f"{path} replaces its buffer {name} in forward, so the new value would be lost: "
                f"change it in place with self.{name}.copy_(value)"
            )
    for name, value in attributes.items():
        old = before[1].get(name)
        is_plain = isinstance(value, int | float | str | bool)
        if value is not old and not (is_plain and name in before[1] and value == old):
            raise UserError(
                f"{path} changes its attribute {name} in forward, but only tensors in buffers are "
                f'state: write self.register_buffer("{name}", tensor) and change it in place, or '
                "use a local variable"
            )

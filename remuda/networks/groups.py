"""Divide the tensors of a network into named groups of layers.

A generator's or discriminator's class declares ``layer_groups``, which maps prefixes of tensor
names to groups; the longest prefix counts. All other tensors belong to the body. A layer with
``layer_group`` always belongs to that group, wherever it is in the network.
"""

from collections.abc import Mapping

from torch import nn

from remuda.errors import UserError
from remuda.system.text import suggestion

GROUPS = ("input", "body", "normalisation", "head")


def tensor_groups(network: nn.Module) -> dict[str, str]:
    """Return the group of every floating-point parameter and buffer, by its name.

    A wrapper is a module with the attribute ``network``. Its own buffers belong to no group,
    except those in the attribute ``follows``, which maps a buffer to the parameter of the inner
    network whose group it has.
    """
    inner = getattr(network, "network", None)
    if inner is not None:
        found = {f"network.{name}": group for name, group in tensor_groups(inner).items()}
        follows: Mapping[str, str] = getattr(network, "follows", {})
        return found | {name: found[f"network.{param}"] for name, param in follows.items()}
    prefixes = dict(getattr(network, "layer_groups", {}))
    layers = {
        name: str(layer.layer_group)
        for name, layer in network.named_modules()
        if hasattr(layer, "layer_group")
    }
    tensors = (*network.named_parameters(), *network.named_buffers())
    names = [name for name, tensor in tensors if tensor.is_floating_point()]
    _check(type(network).__name__, prefixes | layers)
    return {name: _longest(name, layers) or _longest(name, prefixes) or "body" for name in names}


def _check(network: str, groups: Mapping[str, str]) -> None:
    """Raise a UserError if a layer is in a group that does not exist."""
    for layer, group in groups.items():
        if group not in GROUPS:
            raise UserError(
                f"the layers {layer} of {network} are in the unknown group {group!r}: "
                f"{suggestion(str(group), GROUPS)}"
            )


def _longest(name: str, groups: Mapping[str, str]) -> str | None:
    """Return the group of the longest prefix of a name, or None if no prefix fits."""
    fitting = [prefix for prefix in groups if f"{name}.".startswith(f"{prefix}.")]
    return groups[max(fitting, key=len)] if fitting else None


def ends_of(name: str, layers: nn.Sequential) -> dict[str, str]:
    """Return the groups of a sequence with this name: its first and last layers with weights."""
    weighted = [i for i, layer in enumerate(layers) if any(True for _ in layer.parameters())]
    return {f"{name}.{weighted[0]}": "input", f"{name}.{weighted[-1]}": "head"}

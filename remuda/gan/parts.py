"""Divide pairs into two parts by the groups of layers that their tensors belong to."""

from collections.abc import Collection
from typing import NamedTuple

from torch import Tensor, nn

from remuda.gan.optimizers import Moments
from remuda.gan.players import Pair, Player
from remuda.networks.groups import tensor_groups

Names = frozenset[str]  # of parameters and buffers


class PairNames(NamedTuple):
    """The names of some tensors of a pair."""

    generator: Names = frozenset()
    discriminator: Names = frozenset()


def names_in(network: nn.Module, groups: Collection[str]) -> Names:
    """Return the names of all floating-point tensors in these groups of layers."""
    return frozenset(name for name, group in tensor_groups(network).items() if group in groups)


def split(pair: Pair, names: PairNames) -> tuple[Pair, Pair]:
    """Return the part of a pair with these names, and the rest; both count the updates."""
    chosen, rest = zip(
        _split_player(pair.generator, names.generator),
        _split_player(pair.discriminator, names.discriminator),
        split_dict(pair.average, names.generator),
        strict=True,
    )
    return Pair(*chosen), Pair(*rest)


def merge(first: Pair, second: Pair) -> Pair:
    """Return the pair whose parts are these; the count of updates comes from the second part."""
    return Pair(
        _merge_players(first.generator, second.generator),
        _merge_players(first.discriminator, second.discriminator),
        first.average | second.average,
    )


def split_dict(
    tensors: dict[str, Tensor], names: Names
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the tensors with these names, and the others."""
    chosen = {name: tensor for name, tensor in tensors.items() if name in names}
    return chosen, {name: tensor for name, tensor in tensors.items() if name not in names}


def _split_player(player: Player, names: Names) -> tuple[Player, Player]:
    params, buffers, (first, second, steps) = player
    params, buffers, first, second = (
        split_dict(tensors, names) for tensors in (params, buffers, first, second)
    )
    return (
        Player(params[0], buffers[0], Moments(first[0], second[0], steps)),
        Player(params[1], buffers[1], Moments(first[1], second[1], steps)),
    )


def _merge_players(a: Player, b: Player) -> Player:
    first, second = a.moments.first | b.moments.first, a.moments.second | b.moments.second
    return Player(
        a.params | b.params, a.buffers | b.buffers, Moments(first, second, b.moments.steps)
    )

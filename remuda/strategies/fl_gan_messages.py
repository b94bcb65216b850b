"""Split pairs into what FL-GAN's members send to the server and what stays local, and join both."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor

from remuda.gan import Pair, Player
from remuda.gan.optimizers import Moments
from remuda.gan.parts import Names, split_dict


class Message(NamedTuple):
    """The tensors that the server combines; every leaf has one row per member."""

    weights: dict[str, dict[str, Tensor]]  # of each player, and of the generator's moving average
    # Buffers and moments. They are never compressed: small variances and second moments could
    # become 0.
    rest: dict[str, Any]


def split(pairs: Pair, local: Mapping[str, Names], *, has_moments: bool) -> Message:
    """Return what members send. ``local`` names the tensors of each sent player that stay local."""
    weights: dict[str, dict[str, Tensor]] = {}
    rest: dict[str, Any] = {}
    for name, names in local.items():
        player: Player = getattr(pairs, name)
        weights[name] = split_dict(player.params, names)[1]
        rest[name] = {"buffers": split_dict(player.buffers, names)[1]}
        if has_moments:
            first, second = (split_dict(part, names)[1] for part in player.moments[:2])
            rest[name]["moments"] = Moments(first, second, player.moments.steps)
    if "generator" in local:
        average = split_dict(pairs.average, local["generator"])[1]
        known = frozenset(weights["generator"])
        weights["average"], rest["average"] = split_dict(average, known)
    return Message(weights, rest)


def join(pairs: Pair, message: Message) -> Pair:
    """Return the pairs with the tensors of a message. Without moments, they keep their own."""
    players = {name: part for name, part in message.rest.items() if name != "average"}
    pairs = pairs._replace(
        **{
            name: _with_tensors(getattr(pairs, name), message.weights[name], part)
            for name, part in players.items()
        }
    )
    if "average" not in message.weights:
        return pairs
    average = pairs.average | message.weights["average"] | message.rest["average"]
    return pairs._replace(average=average)


def _with_tensors(player: Player, weights: dict[str, Tensor], rest: dict[str, Any]) -> Player:
    moments = player.moments
    if "moments" in rest:
        first, second, steps = rest["moments"]
        moments = Moments(moments.first | first, moments.second | second, steps)
    return Player(player.params | weights, player.buffers | rest["buffers"], moments)

"""Define the settings of members that share groups of layers, and find the shared tensors."""

from abc import ABC
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Self

import numpy as np
import torch
from torch import Tensor

from remuda.engines.base import Engine
from remuda.errors import UserError
from remuda.gan.parts import PairNames, names_in
from remuda.networks.groups import GROUPS, tensor_groups
from remuda.population.families import find_families, join_nearest
from remuda.strategies.base import Strategy
from remuda.strategies.context import Context
from remuda.system.text import Notify, suggestion


@dataclass(frozen=True, kw_only=True)
class SharingSettings(Strategy, ABC):
    """Settings of strategies whose members share groups of layers."""

    # Groups of layers that all members share: input, body, normalisation, head; [] = none.
    shared_generator: tuple[str, ...] = ()
    shared_discriminator: tuple[str, ...] = ()
    # 1: use the mean of all gradients in every update; k > 1: average the shared tensors after
    # every k generator updates, and at the end of a round.
    share_every: int = 1
    # Families of similar members, each a list of member ids (class-parallel: classes); [] = none.
    families: tuple[tuple[int, ...], ...] = ()
    # Find this many families by the distances between the features of the classes, when the run
    # starts, and record them as families. Classes that are in none of them join the nearest.
    # 0 = use the families as they are.
    num_families: int = 0
    # Groups of layers that only the members of a family share.
    family_generator: tuple[str, ...] = ()
    family_discriminator: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share_every < 1:
            raise UserError(f"strategy.share_every must be at least 1, not {self.share_every}")
        for player in ("generator", "discriminator"):
            shared, family = f"shared_{player}", f"family_{player}"
            for name in (shared, family):
                _check_groups(f"strategy.{name}", getattr(self, name))
            both = set(getattr(self, shared)) & set(getattr(self, family))
            if both:
                raise UserError(
                    f"strategy.{shared} and strategy.{family} both contain {min(both)}: remove it "
                    "from one of them"
                )
        if self.share_every > 1 and not self.is_sharing:
            raise UserError(
                "strategy.share_every has no effect, because the members share nothing: set "
                "strategy.shared_generator, for instance to [body], or leave share_every at 1"
            )
        if () in self.families:
            raise UserError("strategy.families has an empty family: remove it, or list its members")
        for member, count in Counter(chain.from_iterable(self.families)).items():
            if count > 1:
                raise UserError(
                    f"strategy.families has member {member} in two families: remove it from one"
                )
        self._check_not_negative("num_families")
        if self.num_families and len(self.families) not in (0, self.num_families):
            raise UserError(
                f"strategy.num_families={self.num_families}, but the length of strategy.families "
                f"is {len(self.families)}: set num_families to 0 to use these families, or remove "
                "the families"
            )
        has_groups = bool(self.family_generator or self.family_discriminator)
        if self.has_families and not has_groups:
            raise UserError(
                "the families share no layers: set strategy.family_generator, for instance to "
                "[head], or strategy.family_discriminator"
            )
        if has_groups and not self.has_families:
            raise UserError(
                "strategy.family_generator and strategy.family_discriminator need families: set "
                "strategy.num_families, for instance to 2, or strategy.families"
            )

    @property
    def is_sharing(self) -> bool:
        """Whether members share anything."""
        shared = self.shared_generator, self.shared_discriminator
        return any(shared) or self.has_families

    @property
    def has_families(self) -> bool:
        """Whether some members share more than all members do."""
        return bool(self.families or self.num_families)

    def for_classes(
        self, names: Sequence[str], distances: Callable[[], np.ndarray], notify: Notify
    ) -> Self:
        """Return the settings with the families that ``num_families`` requests."""
        if not self.num_families or not self.unlisted(0, len(names)):
            return self
        if self.num_families > len(names):
            raise UserError(
                f"strategy.num_families={self.num_families} is more than the {len(names)} members: "
                f"use at most {len(names)}"
            )
        if self.families:  # found when the run started; new classes have joined it
            families = join_nearest(self.families, distances())
        else:
            families = find_families(distances(), self.num_families)
        named = [", ".join(names[member] for member in family) for family in families]
        notify(f"families of similar classes: {'; '.join(named)}")
        return replace(self, families=families)

    def check(self, context: Context) -> None:
        super().check(context)
        for player in ("generator", "discriminator"):
            found = set(tensor_groups(getattr(context.gan, player)).values())
            for setting in (f"shared_{player}", f"family_{player}"):
                for group in getattr(self, setting):
                    if group not in found:
                        known = ", ".join(name for name in GROUPS if name in found)
                        raise UserError(
                            f"strategy.{setting} names {group}, but this {player} has no such "
                            f"layers: choose from {known}"
                        )

    # Names and weights

    def common_names(self, context: Context) -> PairNames:
        """Return the names of the tensors that all members share."""
        return self._names(context, self.shared_generator, self.shared_discriminator)

    def family_names(self, context: Context) -> PairNames:
        """Return the names of the tensors that the members of a family share."""
        return self._names(context, self.family_generator, self.family_discriminator)

    def _names(
        self, context: Context, generator: tuple[str, ...], discriminator: tuple[str, ...]
    ) -> PairNames:
        gan = context.gan
        return PairNames(
            names_in(gan.generator, generator), names_in(gan.discriminator, discriminator)
        )

    def unlisted(self, start: int, stop: int) -> list[int]:
        """Return the members from ``start`` to before ``stop`` that are in no family."""
        return sorted(set(range(start, stop)) - set(chain.from_iterable(self.families)))

    def relatives(self, size: int) -> list[int]:
        """Return the first member of each member's family; a family may have only one member."""
        first = list(range(size))
        for family in self.families:
            for member in family:
                if not 0 <= member < size:
                    needed = 1 + max(chain.from_iterable(self.families))
                    raise UserError(
                        f"strategy.families names member {member}, but this run has members 0 to "
                        f"{size - 1}: use --members {needed} or, in a new run, remove {member} "
                        "from strategy.families"
                    )
                first[member] = min(family)
        return first

    def family_numbers(self, engine: Engine) -> Tensor:
        """Return a number for each member, (size,), which is the same within a family."""
        return torch.tensor(self.relatives(engine.size), device=engine.device)


def kinship(family_numbers: Tensor) -> Tensor:
    """Return a matrix (size, size) of weights: 1 for members of the same family, else 0."""
    return (family_numbers[:, None] == family_numbers).double()


def _check_groups(setting: str, groups: Sequence[str]) -> None:
    for group in groups:
        if group not in GROUPS:
            raise UserError(
                f"{setting}: {group!r} is not a group of layers; {suggestion(group, GROUPS)}"
            )

"""Describe which member generates an image, for programs that use a model without remuda."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from remuda.errors import UserError
from remuda.tensors import random

NUM_PROBES = 16  # noises per label that must all have the same author


class Routing(NamedTuple):
    """How a model chooses the member that generates image i.

    label     ``members[label]``; a model without labels has one member
    noise     a draw from ``members`` with probabilities ``shares``, as in ``population.mixture``
    position  ``members[i % len(members)]``
    """

    by: Literal["label", "noise", "position"]
    members: tuple[int, ...]
    shares: tuple[float, ...] = ()  # of noise: one for each of the members


def by_label(
    authors: Callable[[Tensor, Tensor], Tensor], latent: int, num_labels: int, strategy: str
) -> Routing:
    """Return the members of all labels; raise if authors depend on more than the label."""
    labels = torch.arange(max(1, num_labels)).repeat(NUM_PROBES)
    noise = random.normal(torch.tensor(random.key(0, "routing")), (len(labels), latent))
    found = authors(noise, labels).reshape(NUM_PROBES, -1)
    if (found != found[0]).any():
        raise UserError(
            f"{strategy} does not choose generators by label only, so its models cannot be "
            "exported: define its method routing"
        )
    return Routing("label", tuple(found[0].tolist()))

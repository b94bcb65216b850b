"""Read points: those of a walk, which are a class, a seed, or both, and noise from users."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from remuda.errors import UserError


class Point(NamedTuple):
    """One end of a walk."""

    label: str  # number or name of a class; empty if the model has no labels
    seed: int  # of the noise


def read_point(text: str, classes: Sequence[str], default_seed: int) -> Point:
    """Read CLASS, CLASS:SEED or :SEED.

    ``classes`` are the names of the model's classes; a model without labels has none. The last
    colon separates the seed, unless the whole text is the name of a class.
    """
    label, colon, seed = text.rpartition(":")
    if not colon or text in classes:
        label, seed = text, str(default_seed)
    if label and not classes:
        raise UserError(
            f"{text} cannot be a point of this model's walks, because the model does not know "
            "labels: walk between two seeds, for instance :0 and :1"
        )
    if not label and classes:
        raise UserError(
            f"the point {text} has no class: write one before the colon, such as {classes[0]}:0"
        )
    try:
        return Point(label, int(seed))
    except ValueError:
        raise UserError(
            f"the point {text} has no whole number after its colon: write CLASS, CLASS:SEED or, "
            "for a model without labels, :SEED"
        ) from None


def check_noise(noise: Any, n: int, latent: int) -> Tensor:
    """Return noise from a user as float32 (n, latent); raise if it has another shape or NaN."""
    try:
        tensor = torch.as_tensor(noise, dtype=torch.float32).detach()
    except (TypeError, ValueError, RuntimeError):
        raise UserError(
            f"noise must be a tensor of numbers ({n}, {latent}), not {type(noise).__name__}"
        ) from None
    if tensor.shape != (n, latent):
        raise UserError(
            f"noise has the shape {tuple(tensor.shape)}, but {n} images of this model need "
            f"({n}, {latent})"
        )
    if not tensor.isfinite().all():
        raise UserError("noise contains NaN or infinity: pass finite numbers")
    return tensor

"""Compare the distributions of members' classes."""

from collections.abc import Sequence

import torch
from torch import Tensor

from remuda.errors import UserError


def class_distances(class_counts: Sequence[Sequence[int]]) -> Tensor:
    """Return the KL divergence of each member's classes from those of all members' images."""
    if not class_counts:
        raise UserError(
            "strategy.weights=distances needs the members' numbers of images by class: pass "
            "class_counts to prepare"
        )
    counts = torch.tensor(class_counts, dtype=torch.float64)
    own = counts / counts.sum(1, keepdim=True)
    overall = counts.sum(0) / counts.sum()
    # A class that a member lacks adds nothing: the limit of p log p is 0.
    return torch.where(own > 0, own * (own / overall).log(), 0.0).sum(1)

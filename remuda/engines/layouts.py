"""Decide how one process runs its members: one after the other, or as one batch of networks."""

from typing import Literal

import torch

Layout = Literal["auto", "loop", "vmap"]


def is_stacked(layout: Layout, device: torch.device) -> bool:
    """Return whether members run as one batch. A CPU is faster with a loop over its members."""
    return layout == "vmap" or (layout == "auto" and device.type == "cuda")

"""Read checkpoints with the library safetensors, independently of remuda's own reader."""

import json

import torch
from safetensors import safe_open
from safetensors.torch import load_file


def tensors(checkpoint):
    """Return all tensors of a checkpoint, with the rows of all its shards."""
    parts = [load_file(path) for path in checkpoint.files]
    if checkpoint.is_old:
        return parts[0]
    with safe_open(checkpoint.files[0], "pt") as file:
        server = json.loads(file.metadata()["remuda"])["server"]
    return {
        name: first if name in server else torch.cat([part[name] for part in parts])
        for name, first in parts[0].items()
    }

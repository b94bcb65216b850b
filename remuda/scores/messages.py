"""Turn samples and measures into messages between the ranks of several sites."""

import json
from collections.abc import Mapping
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from remuda.scores.kinds import Kind, Measure, Measured, Subject
from remuda.system.parts import is_reference

NOTHING = torch.empty(0, dtype=torch.uint8)


def contents_of(subject: Subject, kinds: Mapping[str, Kind]) -> dict[str, Tensor]:
    """Return what the sites need to know about the samples."""
    is_free = any(map(is_reference, kinds))  # the code of users may use everything
    needs = frozenset().union(*(kind.needs for kind in kinds.values()))
    tensors = {"images": subject.images[:0]}
    if is_free or not all(kind.uses_features for kind in kinds.values()):
        tensors["images"] = subject.images
    if subject.labels is not None:
        tensors["labels"] = subject.labels
    if subject.features is not None:
        tensors["features"] = subject.features.values
        if subject.features.probabilities is not None and (
            is_free or needs & {"head", "classifier"}
        ):
            tensors["probabilities"] = subject.features.probabilities
    return tensors


def measured_of(site: int, name: str, values: Any, tensors: Mapping[str, Tensor]) -> Measured | str:
    """Return what a site has measured, or why it has measured nothing."""
    if isinstance(values, str):
        return values
    return {
        part: Measure(value, spread, classes, tensors.get(f"{site}/{name}/{part}"))
        for part, (value, spread, classes) in values.items()
    }


def pack(tensors: Mapping[str, Tensor], facts: Any = None) -> Tensor:
    """Return tensors and JSON values as bytes."""
    text = torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8)
    contents = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return torch.frombuffer(bytearray(save_tensors({**contents, "facts": text})), dtype=torch.uint8)


def unpack(message: Tensor) -> tuple[dict[str, Tensor], Any]:
    """Return the tensors and JSON values of ``pack``."""
    tensors = load_tensors(message.numpy().tobytes())
    facts = json.loads(tensors.pop("facts").numpy().tobytes())
    return tensors, facts

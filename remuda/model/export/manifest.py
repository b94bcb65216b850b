"""Describe an exported model in config.json: its inputs, its images, and where it comes from."""

import json
from pathlib import PurePath
from typing import Any

from remuda.model.export.portable import Portable
from remuda.model.model import Model
from remuda.system.version import __version__


def describe(
    model: Model, portable: Portable, settings: dict[str, Any], run: str, to: str
) -> dict[str, Any]:
    """Return the content of config.json. ``settings`` are those of the run."""
    labels = {"shape": ["n"], "dtype": "int64"} if portable.classes else None
    return {
        "format": to,
        "remuda": __version__,
        "run": run,
        "round": model.round,
        "strategy": settings["strategy"]["name"],
        "networks": settings["networks"]["name"],
        "data": data_name(model.facts.name),
        "class": None if portable.label is None else model.facts.classes[portable.label],
        "member": portable.member,
        "classes": list(portable.classes),
        "class_counts": list(portable.counts),
        "noise": {
            "shape": ["n", portable.latent],
            "dtype": "float32",
            "distribution": "standard normal",
        },
        "labels": labels,
        "image": {
            "shape": list(portable.shape),
            "dtype": "float32",
            "range": [-1.0, 1.0],
            "is_point": model.facts.is_points,
        },
        "num_generators": portable.num_rows,
        "routing": portable.row_of_image,
    }


def data_name(name: str) -> str:
    """Return the name of the data without the folders of the machine that trained on them."""
    kind, colon, path = name.partition(":")
    return f"{kind}:{PurePath(path).name}" if colon else name


def to_json(manifest: dict[str, Any]) -> str:
    """Return the text of config.json."""
    return json.dumps(manifest, indent=1) + "\n"

"""Where a run took place: what to know to repeat it."""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import remuda

PACKAGES = ("torch", "numpy", "safetensors", "scikit-learn")


def describe(device: torch.device) -> dict[str, Any]:
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "remuda": remuda.__version__,
        "revision": _revision(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "host": platform.node(),
        "system": platform.platform(),
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def device_name(device: torch.device) -> str:
    return (
        f"{device}: {torch.cuda.get_device_name(device)}" if device.type == "cuda" else str(device)
    )


def _revision() -> str | None:
    """The git revision of the code, "+" if it was changed since; None where it does not lie in a checkout."""
    here = Path(remuda.__file__).parent
    if not (here.parent / ".git").exists():
        return None
    try:
        revision = _git(here, "rev-parse", "HEAD")
        return revision + ("+" if _git(here, "status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=10
    ).stdout.strip()

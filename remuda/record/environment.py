"""Describe the environment of a run: the facts that are needed to repeat it."""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from remuda.system.version import __version__

PACKAGES = ("torch", "numpy", "safetensors", "scikit-learn")


def describe(device: torch.device) -> dict[str, Any]:
    """Return an entry of environment.json for this process."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "remuda": __version__,
        "revision": _revision(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "host": platform.node(),
        "system": platform.platform(),
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
    }


def device_name(device: torch.device) -> str:
    """Return the name of the device; for a GPU, include its model."""
    if device.type == "cuda":
        return f"{device}: {torch.cuda.get_device_name(device)}"
    return str(device)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _revision() -> str | None:
    """Return the git revision, with "+" if files are modified; None outside a checkout."""
    here = Path(__file__).parents[1]
    if not (here.parent / ".git").exists():
        return None
    try:
        revision = _git(here, "rev-parse", "HEAD")
        return revision + ("+" if _git(here, "status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    # Without this variable, "git status" locks the repository. If a run is killed at this moment,
    # the lock stays, and git refuses to commit.
    variables = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=10, env=variables
    )
    return done.stdout.strip()

"""Find the device that a user names, and count the CPU cores that this process may use.

A container or a batch system often grants fewer cores than the machine has. Running more threads
than cores is slow, because waiting threads spin.

Only find_device needs PyTorch.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from remuda.errors import UserError
from remuda.system.text import count

if TYPE_CHECKING:
    import torch

CGROUP = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 20  # cores: more than any machine has


def find_device(name: str) -> "torch.device":
    """Return the device with this name: cpu, cuda, cuda:N, or auto for a GPU if one is available.

    Raises:
        UserError: if the name is unknown or the device is missing.
    """
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")  # rejected below, like every unknown device
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"engine.device={name} is unknown: use auto, cpu, cuda or cuda:N")
    num_gpus = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= num_gpus:
        raise UserError(
            f"engine.device={name} is not available, because PyTorch found "
            f"{count(num_gpus, 'CUDA device')}: use cpu or auto"
        )
    return device


def usable_cores(cgroup: Path = CGROUP) -> int:
    """Return the cores that the scheduler and the control group's CPU quota allow, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        granted = len(os.sched_getaffinity(0))
    else:
        granted = os.cpu_count() or 1
    return max(1, min(granted, _quota(cgroup)))


def _quota(cgroup: Path) -> int:
    """Return the control group's quota in whole cores, or a very large number if it has no quota.

    Version 2 stores "quota period" or "max period" in the file cpu.max; version 1 uses two files.
    """
    try:
        if (cgroup / "cpu.max").exists():
            quota, period = (cgroup / "cpu.max").read_text().split()
        else:
            quota = (cgroup / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (cgroup / "cpu" / "cpu.cfs_period_us").read_text().strip()
        return _UNLIMITED if quota in ("max", "-1") else max(1, int(quota) // int(period))
    except (OSError, ValueError):
        return _UNLIMITED

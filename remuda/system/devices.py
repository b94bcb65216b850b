"""What a process may compute on: the device that a user names, and the CPU cores that the system grants.

A container or a batch system often grants fewer cores than the machine has, and more threads than cores cost dearly:
they wait for each other by spinning.
"""

import os
from pathlib import Path

import torch

from remuda.errors import UserError

CGROUP = Path("/sys/fs/cgroup")


def find_device(name: str) -> torch.device:
    """The device of a name, if it is there; auto is a GPU if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"engine.device={name} is unknown: use auto, cpu, cuda or cuda:N")
    found = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= found:
        raise UserError(
            f"engine.device={name} is not there, {found} CUDA devices were found: use cpu or auto"
        )
    return device


def usable_cores(cgroup: Path = CGROUP) -> int:
    """Cores that the scheduler grants, and no more than the control group's quota of CPU time fills."""
    granted = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(1, min(granted, _quota(cgroup)))


def _quota(cgroup: Path) -> int:
    """Version 2: cpu.max holds "quota period" or "max period"; version 1: two files. No quota: as good as endless."""
    try:
        if (cgroup / "cpu.max").exists():
            quota, period = (cgroup / "cpu.max").read_text().split()
        else:
            quota = (cgroup / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (cgroup / "cpu" / "cpu.cfs_period_us").read_text().strip()
        return 1 << 20 if quota in ("max", "-1") else max(1, int(quota) // int(period))
    except (OSError, ValueError):
        return 1 << 20

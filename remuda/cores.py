"""How many CPU cores this process may use, which a container or a batch system often limits below what the machine has.

More threads than cores cost dearly: they wait for each other by spinning.
"""

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def usable_cores(cgroup: Path = CGROUP) -> int:
    """Cores that the scheduler grants, and no more than the control group's quota of CPU time fills."""
    granted = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
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

"""Measure how much memory is free, and how much this process uses."""

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from remuda.system.devices import CGROUP

if TYPE_CHECKING:
    import torch

_STATM = Path("/proc/self/statm")
_MEMINFO = Path("/proc/meminfo")
_OWN_GROUPS = Path("/proc/self/cgroup")
# Each version of control groups has its own folder below CGROUP. For each folder: the file with
# the limit, the file with the usage, and the prefix of the cached-file counters in memory.stat.
_FILES = {
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    "": ("memory.max", "memory.current", ""),
}


def peak_bytes(device: "torch.device") -> int:
    """Return the most bytes that this process has used so far: on a GPU, of its memory.

    On a GPU, this counts PyTorch's tensors.
    """
    if device.type == "cuda":
        import torch

        return torch.cuda.max_memory_allocated(device)
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest


def used_bytes(device: "torch.device") -> int:
    """Return the bytes that this process uses now, counted as in ``peak_bytes``.

    Systems without /proc report only the largest number so far.
    """
    if device.type == "cuda":
        import torch

        return torch.cuda.memory_allocated(device)
    try:
        pages = int(_STATM.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return peak_bytes(device)
    return pages * os.sysconf("SC_PAGE_SIZE")


def available_bytes() -> int | None:
    """Return the bytes that can be allocated without swapping, or None if they are unknown.

    This respects the memory limit of a batch job or container.
    """
    known = [*_left_to_system(), *left_to_groups(CGROUP)]
    return min(known) if known else None


def _left_to_system() -> Iterator[int]:
    if _MEMINFO.exists():
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024
                return
    # Some systems, such as macOS, report only the total.
    for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):
        if name in getattr(os, "sysconf_names", {}):
            yield os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
            return


def left_to_groups(cgroup: Path) -> Iterator[int]:
    """Yield the bytes that each memory control group under this folder still allows.

    Cover the outermost group, the group of this process, and all groups between them.
    """
    groups = [(version, Path("/")) for version in _FILES]
    lines = _OWN_GROUPS.read_text().splitlines() if _OWN_GROUPS.exists() else []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        version = "memory" if "memory" in controllers.split(",") else controllers
        if version in _FILES:
            groups += [(version, group) for group in (Path(path), *Path(path).parents)]
    for version, group in groups:
        with suppress(OSError, ValueError):  # the group is missing, or its limit is "max"
            yield _left(cgroup / version / group.relative_to("/"), *_FILES[version])


def _left(group: Path, limit: str, usage: str, prefix: str) -> int:
    """Return the limit minus the usage in bytes; cached files do not count as used."""
    stat = group / "memory.stat"
    lines = stat.read_text().splitlines() if stat.exists() else []
    counters = dict(line.split() for line in lines)
    cached = sum(int(counters.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))
    used = int((group / usage).read_text()) - cached
    return max(0, int((group / limit).read_text()) - used)

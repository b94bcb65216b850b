"""How much memory is free."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from remuda.system.devices import CGROUP

_MEMINFO = Path("/proc/meminfo")
_OWN_GROUPS = Path("/proc/self/cgroup")
_FILES = {  # of a control group: its limit, what it uses, and what the facts of cached files begin with, by its version
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    "": ("memory.max", "memory.current", ""),
}


def available_bytes() -> int | None:
    """What can be allocated without swapping, and within a batch job's or container's limit; None where none tells."""
    known = [*_of_system(), *left_to_groups(CGROUP)]
    return min(known) if known else None


def _of_system() -> Iterator[int]:
    if _MEMINFO.exists():
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024
                return
    for name in (
        "SC_AVPHYS_PAGES",
        "SC_PHYS_PAGES",
    ):  # the second where only the total is known, as on macOS
        if name in getattr(os, "sysconf_names", {}):
            yield os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
            return


def left_to_groups(cgroup: Path) -> Iterator[int]:
    """What the control groups for memory leave, under that folder: the outermost, this process's, those in between."""
    groups = [(version, Path("/")) for version in _FILES]
    for line in _OWN_GROUPS.read_text().splitlines() if _OWN_GROUPS.exists() else []:
        _, controllers, path = line.split(":", 2)
        version = "memory" if "memory" in controllers.split(",") else controllers
        if version in _FILES:
            groups += [(version, group) for group in (Path(path), *Path(path).parents)]
    for version, group in groups:
        with suppress(OSError, ValueError):  # not there, or "max"
            yield _left(cgroup / version / group.relative_to("/"), *_FILES[version])


def _left(group: Path, limit: str, usage: str, prefix: str) -> int:
    facts = group / "memory.stat"
    told = dict(line.split() for line in facts.read_text().splitlines()) if facts.exists() else {}
    cached = sum(int(told.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))
    used = int((group / usage).read_text()) - cached
    return max(0, int((group / limit).read_text()) - used)

"""How much memory is free."""

import os
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")


def available_bytes() -> int | None:
    """What can be allocated without swapping; None where the system does not tell."""
    if _MEMINFO.exists():
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):  # the second where only the total is known, as on macOS
        if name in getattr(os, "sysconf_names", {}):
            return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
    return None

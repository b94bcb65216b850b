"""Compare the facts about a host with those about this machine, and with its number of ranks."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from remuda.cluster.doctor.findings import FAILS, MISSING, OK, Finding
from remuda.cluster.hosts import Host
from remuda.system.text import count, listed

GIB = 2**30
RANK_MEMORY = GIB // 2  # bytes that a rank needs at least, for PyTorch and a small herd
CLOCK_TOLERANCE = 2.0  # seconds


def compare(host: Host, there: dict[str, Any], here: dict[str, Any], ahead: float) -> list[Finding]:
    """Return a line about a host, and a line for each problem.

    ``there`` and ``here`` are the facts about the host and about this machine. ``ahead`` is how far
    the host's clock is ahead, in seconds.
    """
    return [
        Finding(OK, "host", _summary(host, there)),
        *_installation(host.name, there, here),
        *_files(host.name, there, here),
        *_resources(host, there),
        *_names(host.name, there),
        *_clock(host.name, ahead),
    ]


def _summary(host: Host, there: dict[str, Any]) -> str:
    versions = [f"{name} {version}" for name, version in there["versions"].items() if version]
    parts = [f"Python {there['python']}", *versions, there["mpi"].get("library", "no MPI library")]
    cores, ranks = count(there["cores"], "core"), count(host.slots, "rank")
    if there["memory"] is not None:
        cores += f" and {there['memory'] / GIB:.1f} GiB free"
    return f"{host.name}: {', '.join(parts)}; {cores} for {ranks}"


def _installation(name: str, there: dict[str, Any], here: dict[str, Any]) -> Iterator[Finding]:
    if there["python"] != here["python"]:
        text = f"{name} has Python {there['python']} at {sys.executable}, but this machine "
        text += f"{here['python']}: install the same version on both"
        yield Finding(FAILS, "Python", text)
    for package, version in here["versions"].items():
        found = there["versions"][package]
        if version is None or found == version:
            continue
        if found is None:
            text = f"{name} lacks {package}: "
        else:
            text = f"{name} has {package} {found}, but this machine {version}: "
        folder = _package_folder() if package == "remuda" else sys.prefix
        text += f"share the folder, or copy it: {copy_command(folder, name)}"
        yield Finding(FAILS, package, text)
    own, library = here["mpi"].get("library"), there["mpi"].get("library")
    if library != own and there["versions"]["mpi4py"] is not None:
        text = f"{name} loads {library or 'no library'}, but this machine {own or 'none'}"
        if library is None:
            text += f" ({there['mpi']['error']})"
        yield Finding(FAILS, "MPI", f"{text}: install the same MPI library on both")


def _package_folder() -> str:
    """Return the folder to copy for remuda: the environment, or the source code outside it."""
    source = Path(__file__).parents[3]
    return sys.prefix if source.is_relative_to(sys.prefix) else str(source)


def _files(name: str, there: dict[str, Any], here: dict[str, Any]) -> Iterator[Finding]:
    if not there["sees_folder"]:
        text = f"{name} does not share the folder {Path.cwd()}: start in a folder that all hosts "
        yield Finding(FAILS, "folder", f"{text}share, such as your home folder on a file server")
    for folder, names in here["data"].items():
        missing = sorted(set(names or []) - set(there["data"][folder] or []))
        if missing:
            text = f"{name} lacks {listed(missing[:5])} in {folder}: copy the folder if the run "
            text += f"needs these data: {copy_command(folder, name)}"
            yield Finding(MISSING, "data", text)


def _resources(host: Host, there: dict[str, Any]) -> Iterator[Finding]:
    if there["cores"] < host.slots:
        text = f"{host.name} has {count(there['cores'], 'core')} for {count(host.slots, 'rank')}, "
        text += f"which is slow: start fewer ranks there, --hosts {host.name}:{there['cores']}"
        yield Finding(MISSING, "cores", text)
    free = there["memory"]
    if free is not None and free < host.slots * RANK_MEMORY:
        text = f"{host.name} has {free / GIB:.1f} GiB free, which is little for "
        text += f"{count(host.slots, 'rank')}: end other programs there, or start fewer ranks"
        yield Finding(MISSING, "memory", text)


def _names(name: str, there: dict[str, Any]) -> Iterator[Finding]:
    for root in there["unknown"]:
        text = f"{name} cannot resolve {root}, where rank 0 runs, so heartbeats would not arrive: "
        text += f"add {root} and its address to /etc/hosts on {name}"
        yield Finding(FAILS, "name", text)


def _clock(name: str, ahead: float) -> Iterator[Finding]:
    if abs(ahead) > CLOCK_TOLERANCE:
        direction = "ahead" if ahead > 0 else "behind"
        text = f"the clock of {name} is {abs(ahead):.0f} s {direction}, so times in records are "
        text += f"wrong: run `timedatectl set-ntp true` on {name}"
        yield Finding(MISSING, "clock", text)


def copy_command(folder: str, name: str) -> str:
    """Return the command that copies a folder to a host."""
    return f"rsync -a {folder}/ {name}:{folder}"

"""Check what a single process needs: Python, PyTorch, a device, cores, memory and data."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from remuda.cluster.doctor.findings import FAILS, MISSING, OK, Finding, shortened
from remuda.data import DataConfig
from remuda.data.files import data_folders, locate
from remuda.data.sources import SOURCES
from remuda.system.devices import CGROUP, usable_cores
from remuda.system.memory import left_to_groups

GIB = 2**30
LOW_MEMORY = 2 * GIB  # the papers' networks need at least this much


def findings() -> Iterator[Finding]:
    """Report what this machine provides."""
    yield Finding(OK, "Python", f"{platform.python_version()}, {sys.executable}")
    built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
    yield Finding(OK, "PyTorch", f"{torch.__version__}, {built}")
    num_gpus = torch.cuda.device_count()
    if num_gpus == 0:
        yield Finding(MISSING, "GPU", _why_no_gpu())
    for index in range(num_gpus):
        yield _gpu(index)
    if num_gpus:
        yield _compiler()
    threads = min(torch.get_num_threads(), usable_cores())
    cores = f"{usable_cores()} usable of {os.cpu_count()}"
    yield Finding(OK, "cores", f"{cores}; threads for training: {threads}")
    yield _memory(usable_memory())
    for folder in data_folders(DataConfig()):
        yield _data(folder)


def _why_no_gpu() -> str:
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return "hidden by CUDA_VISIBLE_DEVICES, so training runs on the CPU: unset it to use a GPU"
    if not Path("/dev/nvidia0").exists():
        return "none, so training runs on the CPU: in a batch job, request one"
    if not torch.version.cuda:
        return (
            "this PyTorch cannot use the GPU of this machine, so training runs on the CPU: "
            "install PyTorch with CUDA"
        )
    return (
        "PyTorch does not see the GPU of this machine, so training runs on the CPU: "
        "check it with nvidia-smi"
    )


def _gpu(index: int) -> Finding:
    name = f"cuda:{index}"
    try:
        free, total = torch.cuda.mem_get_info(index)
        square = torch.ones(16, 16, device=name)
        works = float((square @ square)[0, 0]) == 16
    except RuntimeError as error:
        reason = shortened(str(error), 120)
        advice = "free it, use another --device, or repair the driver"
        return Finding(FAILS, name, f"cannot compute ({reason}): {advice}")
    if not works:
        return Finding(FAILS, name, "computes a wrong product: use another --device")
    about = torch.cuda.get_device_name(index)
    return Finding(OK, name, f"{about}, {free / GIB:.1f} GiB free of {total / GIB:.1f}")


def _compiler() -> Finding:
    """Report the C compiler; PyTorch needs one to compile training steps for a GPU."""
    chosen = os.environ.get("CC")
    found = shutil.which(chosen) if chosen else shutil.which("gcc") or shutil.which("clang")
    if found is None:
        advice = "install gcc, or use --set engine.compile=false"
        return Finding(FAILS, "C compiler", f"none, but training on a GPU needs one: {advice}")
    return Finding(OK, "C compiler", found)


def _memory(available: int | None) -> Finding:
    if available is None:
        text = "this system does not report how much is free; remuda works without it"
        return Finding(MISSING, "memory", text)
    text = f"{available / GIB:.1f} GiB free"
    if available < LOW_MEMORY:
        text += (
            ", which may be too little: if a run runs out of memory, "
            "lower strategy.batch_size or run.members"
        )
    return Finding(OK, "memory", text)


def usable_memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = CGROUP) -> int | None:
    """Return the bytes of memory that this process can still use; None if unknown.

    Both the host and the process's control groups limit the amount.
    """
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        available = 1024 * int(lines["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return None
    return min([available, *left_to_groups(cgroup)])


def _data(folder: Path) -> Finding:
    try:
        if not folder.is_dir():
            text = f"{folder} does not exist: it is created when a data set is downloaded"
            return Finding(MISSING, "data", text)
        held = [name for name, source in SOURCES.items() if locate(source, "train", [folder])]
        if not os.access(folder, os.R_OK | os.X_OK):
            return Finding(FAILS, "data", f"cannot read {folder}: change its permissions")
    except OSError as error:
        text = f"cannot search {folder} ({error.strerror}): check the folder or REMUDA_DATA"
        return Finding(FAILS, "data", text)
    if not held:
        text = f"{folder} contains no data set: runs download the data that they need"
        return Finding(MISSING, "data", text)
    return Finding(OK, "data", f"{folder} holds {', '.join(held)}")

"""What one process needs: Python, PyTorch, a device, cores, memory, data."""

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
SPARSE = 2 * GIB  # less memory than this ends runs of the papers' networks


def findings() -> Iterator[Finding]:
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
    yield Finding(
        OK, "cores", f"{usable_cores()} usable of {os.cpu_count()}; threads for training: {threads}"
    )
    yield _memory(usable_memory())
    for folder in data_folders(DataConfig()):
        yield _data(folder)


def _why_no_gpu() -> str:
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return "hidden by CUDA_VISIBLE_DEVICES, so training runs on the CPU: unset it to use them"
    if Path("/dev/nvidia0").exists() and not torch.version.cuda:
        return "there is one, but this PyTorch cannot use it, so training runs on the CPU: install PyTorch with CUDA"
    if Path("/dev/nvidia0").exists():
        return "there is one, but PyTorch does not see it, so training runs on the CPU: see what nvidia-smi says of it"
    return "none, so training runs on the CPU: in a batch job, ask for one"


def _gpu(index: int) -> Finding:
    name = f"cuda:{index}"
    try:
        free, total = torch.cuda.mem_get_info(index)
        square = torch.ones(16, 16, device=name)
        works = float((square @ square)[0, 0]) == 16
    except RuntimeError as error:
        reason = shortened(str(error), 120)
        return Finding(
            FAILS,
            name,
            f"cannot compute ({reason}): free it, use another --device, or repair the driver",
        )
    if not works:
        return Finding(FAILS, name, "computes a wrong product: use another --device")
    about = torch.cuda.get_device_name(index)
    return Finding(OK, name, f"{about}, {free / GIB:.1f} GiB free of {total / GIB:.1f}")


def _compiler() -> Finding:
    """PyTorch compiles the herd's step for a GPU by way of C."""
    chosen = os.environ.get("CC")
    found = shutil.which(chosen) if chosen else shutil.which("gcc") or shutil.which("clang")
    if found is None:
        return Finding(
            FAILS,
            "C compiler",
            "none, and a GPU's programs need one: install gcc, or use --set engine.compile=false",
        )
    return Finding(OK, "C compiler", found)


def _memory(available: int | None) -> Finding:
    if available is None:
        return Finding(
            MISSING, "memory", "this system does not tell how much is free: nothing depends on it"
        )
    text = f"{available / GIB:.1f} GiB free"
    if available < SPARSE:
        text += ", which is little: lower strategy.batch_size or run.members where a run ends for want of it"
    return Finding(OK, "memory", text)


def usable_memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = CGROUP) -> int | None:
    """Bytes that are free on this host, and no more than the control group leaves; None where nothing says so."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        available = 1024 * int(lines["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return None
    return min([available, *left_to_groups(cgroup)])


def _data(folder: Path) -> Finding:
    try:
        if not folder.is_dir():
            return Finding(
                MISSING, "data", f"{folder} is no folder: it is made when a data set is fetched"
            )
        held = [name for name, source in SOURCES.items() if locate(source, "train", [folder])]
        if not os.access(folder, os.R_OK | os.X_OK):
            return Finding(FAILS, "data", f"{folder} cannot be read: change its permissions")
    except OSError as error:
        return Finding(
            FAILS,
            "data",
            f"{folder} cannot be looked through ({error.strerror}): check it or REMUDA_DATA",
        )
    if not held:
        return Finding(
            MISSING,
            "data",
            f"{folder} holds no data set: they are fetched there when a run wants them",
        )
    return Finding(OK, "data", f"{folder} holds {', '.join(held)}")

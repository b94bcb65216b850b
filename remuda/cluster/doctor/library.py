"""What the MPI library is, and what it can do as it was started; to be imported on ranks alone."""

import ctypes
from typing import Any, Literal

from remuda.engines.mpi.communicator import MPI
from remuda.engines.mpi.recovery import has_ulfm, survives_losses

THREADS = {
    MPI.THREAD_SINGLE: "single",
    MPI.THREAD_FUNNELED: "funneled",
    MPI.THREAD_SERIALIZED: "serialized",
    MPI.THREAD_MULTIPLE: "multiple",
}


def abilities() -> dict[str, Any]:
    return {
        "library": MPI.Get_library_version().strip("\0").splitlines()[0].split(",")[0].strip(),
        "standard": ".".join(map(str, MPI.Get_version())),
        "threads": THREADS[MPI.Query_thread()],
        "ulfm": ulfm(),
        "cuda": is_cuda_aware(),
    }


def ulfm() -> Literal["on", "off", "none"]:
    """Whether the loss of ranks can be survived, or could be if the ranks were started otherwise."""
    if survives_losses():
        return "on"
    return "off" if has_ulfm() else "none"


def is_cuda_aware() -> bool | None:
    """None where the library does not tell. The function is no part of the standard, so mpi4py has no name for it."""
    try:
        return bool(ctypes.CDLL(MPI.__file__).MPIX_Query_cuda_support())
    except (AttributeError, OSError):
        return None

"""Ask the running MPI library which features it has. Import this module only on ranks."""

import ctypes
from typing import Any, Literal

from remuda.engines.mpi.communicator import MPI
from remuda.engines.mpi.recovery import has_ulfm, survives_failures

THREADS = {
    MPI.THREAD_SINGLE: "single",
    MPI.THREAD_FUNNELED: "funneled",
    MPI.THREAD_SERIALIZED: "serialized",
    MPI.THREAD_MULTIPLE: "multiple",
}


def abilities() -> dict[str, Any]:
    """Return the library's name and version, and the features that remuda can use."""
    return {
        "library": MPI.Get_library_version().strip("\0").splitlines()[0].split(",")[0].strip(),
        "standard": ".".join(map(str, MPI.Get_version())),
        "threads": THREADS[MPI.Query_thread()],
        "ulfm": ulfm(),
        "cuda": is_cuda_aware(),
    }


def ulfm() -> Literal["on", "off", "none"]:
    """Return whether a run survives the loss of ranks, with ULFM.

    "off" means that the library supports ULFM, but the launcher did not turn it on.
    """
    if survives_failures():
        return "on"
    return "off" if has_ulfm() else "none"


def is_cuda_aware() -> bool | None:
    """Return whether MPI can send from a GPU's memory, or None if the library does not report it.

    mpi4py does not wrap MPIX_Query_cuda_support, because it is not part of the MPI standard.
    """
    try:
        return bool(ctypes.CDLL(MPI.__file__).MPIX_Query_cuda_support())
    except (AttributeError, OSError):
        return None

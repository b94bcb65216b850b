"""Print facts about the host that runs this file, as a line of JSON.

The doctor sends the text of this file to the Python of each host, with its questions as JSON in the
first argument. The file uses nothing but old parts of the standard library, so that it also answers
where Python is old or remuda is missing.
"""

import json
import os
import platform
import socket
import sys
import time
from pathlib import Path


def versions():
    """Return the versions of the packages that ranks need; None for a missing package."""
    found = {}
    for name in ("remuda", "torch", "mpi4py"):
        try:
            if name == "remuda":
                from remuda.system.version import __version__ as version
            else:
                from importlib.metadata import version as version_of

                version = version_of(name)
        except Exception:
            version = None
        found[name] = version
    return found


def mpi():
    """Return the name and version of the MPI library, or the error that loading it raises."""
    try:
        import mpi4py

        mpi4py.rc.initialize = False
        from mpi4py import MPI

        return {"library": MPI.Get_library_version().strip("\0").splitlines()[0].split(",")[0]}
    except Exception as error:
        return {"error": str(error) or repr(error)}


def is_known(name):
    """Return whether this host can resolve a name."""
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return False
    return True


def entries(folder):
    """Return the names of the files in a folder; None if it cannot be read."""
    try:
        return sorted(path.name for path in Path(folder).iterdir() if path.name[0] != ".")
    except OSError:
        return None


def resources():
    """Return the usable cores and the bytes of free memory; None if they are unknown."""
    try:
        from remuda.system.devices import usable_cores
        from remuda.system.memory import available_bytes

        return {"cores": usable_cores(), "memory": available_bytes()}
    except Exception:  # remuda is missing, or too new for this Python
        return {"cores": os.cpu_count() or 1, "memory": None}


def main():
    """Answer the questions in the first argument."""
    questions = json.loads(sys.argv[1])
    answer = {
        "time": time.time(),
        "hostname": socket.gethostname(),
        "python": platform.python_version(),
        "versions": versions(),
        "mpi": mpi(),
        "unknown": [name for name in questions["names"] if not is_known(name)],
        "sees_folder": Path(questions["file"]).exists(),
        "data": {folder: entries(folder) for folder in questions["data"]},
    }
    answer.update(resources())
    print(json.dumps(answer))


if __name__ == "__main__":
    main()

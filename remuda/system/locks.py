"""Let processes wait for each other, so that one makes a file and the others use it."""

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from remuda.errors import UserError
from remuda.system import progress


@contextmanager
def lock(path: Path, remedy: str) -> Iterator[None]:
    """Hold a lock on a file; wait while another process holds it.

    The message about a file that cannot be locked ends with the remedy. The file is never deleted,
    because deleting it would race with waiting processes.
    """
    with ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("w"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress.say(f"waiting for the process that holds {path}")
                fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise UserError(f"cannot lock {path} ({error.strerror}): {remedy}") from error
        yield

"""Define errors that users can fix, and choose a command's error message and exit status."""

import errno
import sys
from pathlib import Path
from shlex import quote

PARTS = "parts"  # the folder of a run with copies of the user's own code
PARTS_INDEX = "parts.json"  # the file of a run that lists this code


class UserError(ValueError):
    """Report a problem that the user can fix; the message states the cause and the remedy.

    The command line prints the message without a traceback and exits with ``status``.
    ``is_user_error`` lists the other exceptions that are treated like this; every other exception
    is a bug.
    """

    status = 2


class Interrupted(UserError):
    """Report that the user stopped the run; every complete round is saved."""

    status = 130


class RanksLost(UserError):
    """Report that some of the processes that train together died; the others can continue."""


class StoppedByFailure(UserError):
    """Report that lost ranks stopped the run; it can be resumed, and should then succeed.

    Batch scripts rely on this status: it is EX_TEMPFAIL of sysexits.h, "try again later".
    """

    status = 75


class ReportedElsewhere(UserError):
    """End this rank with the exit status of rank 0, which tells the user why."""

    def __init__(self, sentence: str, status: int):
        super().__init__(sentence)
        self.status = status


# PyTorch reports full memory as a plain RuntimeError whose message contains one of these texts.
_FULL = ("can't allocate memory", "not enough memory", "calculation overflowed")


def is_user_error(error: BaseException) -> bool:
    """Return whether the user can fix the cause; the command then ends without a traceback."""
    return isinstance(error, UserError | OSError | KeyboardInterrupt) or _is_memory_full(error)


def _is_memory_full(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or _is_device_memory_full(error):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _FULL)


def _is_device_memory_full(error: BaseException) -> bool:
    # Do not import PyTorch for this check: if it is not loaded, it did not raise the error.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(error, torch.OutOfMemoryError)


def explain(error: BaseException) -> str:
    """Return the sentence that tells the user what failed and what to do."""
    if _is_memory_full(error):
        memory = "device's memory" if _is_device_memory_full(error) else "memory"
        return (
            f"the {memory} is full: lower strategy.batch_size, strategy.steps_per_round or "
            "run.members, or use smaller networks or images"
        )
    if isinstance(error, OSError):
        return _explain_files(error)
    return str(error) or ("stopped" if isinstance(error, KeyboardInterrupt) else "")


def _explain_files(error: OSError) -> str:
    where = f" for {error.filename}" if error.filename else ""
    if error.errno == errno.ENOSPC:
        return f"the disk has no space left{where}: free some space and run the command again"
    if error.errno == errno.EDQUOT:
        return f"your disk quota is used up{where}: free some space and run the command again"
    path, why = error.filename or "input or output", error.strerror or error
    if error.errno == errno.EROFS:
        return f"cannot write {path} ({why}): copy the folder to another disk, and use the copy"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"cannot access {path} ({why}): check the permissions"
    return f"{path}: {why}"


def exit_status(error: BaseException) -> int:
    """Return the status that the command exits with."""
    if isinstance(error, KeyboardInterrupt):
        return Interrupted.status
    return error.status if isinstance(error, UserError) else UserError.status


def with_status(status: int, message: str) -> UserError:
    """Return the error that ends a command with this status."""
    for kind in (Interrupted, StoppedByFailure):
        if kind.status == status:
            return kind(message)
    return UserError(message)


def resume_command(folder: Path) -> str:
    """Return the command that resumes a run, ready to paste."""
    return command("resume", folder)


def command(name: str, folder: Path) -> str:
    """Return a command on a run folder, ready to paste; with --trust if the run needs it."""
    trust = " --trust" if (folder / PARTS_INDEX).exists() else ""
    return f"remuda {name} {quote(str(folder))}{trust}"

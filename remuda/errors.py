"""What is meant for users: exceptions, and the words for them."""

import errno
import sys
from pathlib import Path
from shlex import quote

import torch


class UserError(ValueError):
    """What the user can put right: one sentence that names the cause and the remedy.

    The command line prints it without a traceback and exits with status 2. Anything else that escapes is a bug.
    """


class Interrupted(UserError):
    """The user stopped the run; every whole round is saved."""


class RanksLost(UserError):
    """Some of the processes that train together are gone; the others can regroup and go on."""


class ReportedElsewhere(UserError):
    """What ended this rank is what ended rank 0, which tells the user."""

    def __init__(self, sentence: str, status: int):
        super().__init__(sentence)
        self.status = status


# PyTorch's words for a full memory.
_FULL = ("can't allocate memory", "not enough memory", "calculation overflowed")


def is_user_error(error: BaseException) -> bool:
    """Whether it ends a command without a traceback, since the user can do something about it."""
    return isinstance(error, UserError | OSError | KeyboardInterrupt) or _is_memory_full(error)


def _is_memory_full(error: BaseException) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _FULL)


def explain(error: BaseException) -> str:
    if _is_memory_full(error):
        what = "device's memory" if isinstance(error, torch.OutOfMemoryError) else "memory"
        return (
            f"the {what} is full: lower strategy.batch_size, strategy.steps_per_round or run.members, or take smaller "
            "networks or images"
        )
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        where = f" for {error.filename}" if error.filename else ""
        return f"the disk has no space left{where}: make room, and give the command again"
    if isinstance(error, OSError):
        return f"{error.filename or 'input or output'}: {error.strerror or error}"
    return str(error)


def exit_status(error: BaseException) -> int:
    """What the command exits with."""
    return 130 if isinstance(error, Interrupted | KeyboardInterrupt) else 2


def resume_command(folder: Path) -> str:
    """The command that goes on with a run, to be pasted."""
    return f"remuda resume {quote(str(folder))}"


def tell(text: str) -> None:
    """Something that the user should know while the rest goes on."""
    print(text, file=sys.stderr, flush=True)

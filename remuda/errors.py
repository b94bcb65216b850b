"""The exceptions meant for users."""

import torch


class UserError(ValueError):
    """What the user can put right: one sentence that names the cause and the remedy.

    The command line prints it without a traceback and exits with status 2. Anything else that escapes is a bug.
    """


class Interrupted(UserError):
    """The user stopped the run; every whole round is saved."""


class RanksLost(UserError):
    """Some of the processes that train together are gone; the others can regroup and go on."""


class SaidElsewhere(UserError):
    """What ended this rank is what ended rank 0, which tells the user."""

    def __init__(self, sentence: str, status: int):
        super().__init__(sentence)
        self.status = status


ENDINGS = (UserError, OSError, torch.OutOfMemoryError, KeyboardInterrupt)  # what ends a command without a traceback


def sentence(error: BaseException) -> str:
    if isinstance(error, torch.OutOfMemoryError):
        return "the device's memory is full: lower strategy.batch_size, strategy.steps_per_round or run.members"
    if isinstance(error, OSError):
        return f"{error.filename or 'input or output'}: {error.strerror or error}"
    return str(error)


def status(error: BaseException) -> int:
    """What the command exits with."""
    return 130 if isinstance(error, Interrupted | KeyboardInterrupt) else 2

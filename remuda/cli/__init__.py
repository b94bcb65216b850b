"""Start the command line, stop it on signals, and report its errors.

``main`` installs the signal handlers before any slow import, so that Ctrl-C never prints a
traceback. The commands are in the other modules of this package.
"""

import atexit
import gc
import io
import math
import os
import signal
import sys
import time
import warnings
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from remuda.cluster.environment import rank_from_environment
from remuda.errors import (
    Interrupted,
    ReportedElsewhere,
    UserError,
    exit_status,
    explain,
    is_user_error,
)
from remuda.system.choices import lazy_exports
from remuda.system.signals import (
    STOP_SIGNALS,
    StopSignals,
    handle_stops,
    is_importing,
    send_again,
)
from remuda.system.stopwatch import start_command

if TYPE_CHECKING:
    from remuda.cli.commands import app

__all__ = ["app", "main"]

__getattr__, __dir__ = lazy_exports(__name__, {"commands": ["app"]})


SAME_REQUEST = 1.0  # seconds for which further signals count as the same request


def main() -> None:
    """Run a command. Report an error that the user can fix in one sentence, with status 2."""
    # Ranks handle these signals once they are connected. A signal that arrives earlier simply ends
    # the rank, and the launcher tells the user. An exception here would make MPI abort.
    start_command()
    _open_closed_streams()
    stop = _Stop()
    atexit.register(gc.freeze)  # or Python searches PyTorch's objects for cycles: up to a second
    if rank_from_environment().num_ranks == 1:
        handle_stops(stop)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # the encoding may lack the arrows in tables
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _WarningLines(warnings.showwarning)
            status = _run()
        sys.exit(status)
    except (Interrupted, KeyboardInterrupt) as error:
        stop.ignore()
        _print_error(explain(error), style=None)
        sys.exit(exit_status(error))
    except ReportedElsewhere as error:
        sys.exit(error.status)
    except Exception as error:
        # During an import, a library may convert the KeyboardInterrupt into another error.
        if stop.is_requested and not is_user_error(error):
            stop.ignore()
            _print_error("stopped", style=None)
            sys.exit(exit_status(KeyboardInterrupt()))
        known = _blamed(error)
        if os.environ.get("REMUDA_TRACEBACK") or not is_user_error(known):
            raise
        _print_error(f"remuda: {explain(known)}")
        sys.exit(exit_status(known))


def _blamed(error: BaseException) -> BaseException:
    """Return a UserError if a user's own part caused the error, otherwise the error itself."""
    from remuda.system import parts

    return parts.blamed(error)


def _open_closed_streams() -> None:
    """Replace closed standard streams, or the next file would get the number of one."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, open(number, "w" if number else "r"))  # noqa: PTH123, SIM115


class _Stop:
    """Raise KeyboardInterrupt for a signal, and ignore the signals that soon follow it.

    Batch systems often send several signals when a job reaches its time limit. While a run trains,
    ``StopSignals`` handles the signals instead.
    """

    def __init__(self):
        self.is_requested = False
        self._raised = -math.inf  # when, on the monotonic clock

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.is_requested = True
        now = time.monotonic()
        if StopSignals.was_obeyed or now < self._raised + SAME_REQUEST:
            return
        if is_importing(frame):
            send_again(number)
            return
        self._raised = now
        raise KeyboardInterrupt

    def ignore(self) -> None:
        """Ignore all further signals, because the command is ending."""
        for number in STOP_SIGNALS:
            if signal.getsignal(number) is self:
                signal.signal(number, signal.SIG_IGN)


def _run() -> int:
    """Run the command that the arguments name, and return its exit status."""
    import typer
    from rich.console import Console

    from remuda.cli.commands import app
    from remuda.system.progress import shown_on

    try:
        is_root = rank_from_environment().rank == 0
        with shown_on(Console(stderr=True, emoji=False), has_tasks=is_root):
            status = app(prog_name="remuda", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as error:
        # Depending on its version, typer contains click or imports it, so the class varies.
        if not hasattr(error, "format_message"):
            raise
        from remuda.cli import hints

        raise UserError(hints.usage_error(error, sys.argv[1:])) from None
    if status == 130:  # typer returns this status after a KeyboardInterrupt
        raise KeyboardInterrupt
    return status or 0


def _print_error(text: str, style: str | None = "red") -> None:  # look.ERROR
    from rich.console import Console

    from remuda.system import look

    look.say(Console(stderr=True), text, style)


class _WarningLines:
    """Print each of remuda's own warnings on one line, and all other warnings as before."""

    def __init__(self, others: Any):
        self.others = others

    def __call__(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        from remuda.cluster.environment import STARTED_BY_REMUDA

        if not category.__module__.startswith("remuda."):
            self.others(message, category, filename, lineno, file, line)
        elif STARTED_BY_REMUDA not in os.environ:
            _print_error(f"remuda: {message}", style=None)

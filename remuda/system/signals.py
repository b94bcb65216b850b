"""Handle the signals that ask a run to stop."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, ClassVar, Self

# These are Ctrl-C, the signal that batch systems send before they kill a job, a signal that users
# can tell a batch system to send, and the signal of a terminal that is closed. Of these, mpirun
# forwards only SIGUSR1 to its ranks.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
RETRY = 0.05  # seconds until a signal that came at the wrong moment is sent again


class StopSignals:
    """Remembers stop signals inside its ``with`` block, and raises them only where that is safe.

    An exception at an arbitrary moment can leave a thread unstarted or a file half written.
    Therefore a signal raises KeyboardInterrupt only while ``is_interruptible`` is set, and only
    once, because batch systems often send several signals. ``is_requested`` keeps the request.
    """

    was_obeyed: ClassVar[bool] = False  # a run in this process ended because of a signal

    def __init__(self) -> None:
        self.is_requested = self.is_interruptible = self._was_raised = False
        self._number = 0  # of the last signal
        self._handlers: dict[int, Any] = {}  # earlier handlers
        self._hook = sys.unraisablehook

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # others cannot set handlers
            self._handlers = handle_stops(self._on_signal)
            self._hook, sys.unraisablehook = sys.unraisablehook, self._on_ignored
        return self

    def __exit__(self, *exception: Any) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if self._handlers:
            sys.unraisablehook = self._hook
        self._handlers = {}

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.is_requested, self._number = True, number
        if not self.is_interruptible or self._was_raised:
            return
        if is_importing(frame):  # libraries suppress or convert exceptions while they are imported
            send_again(number)
            return
        self._was_raised = True
        raise KeyboardInterrupt

    def _on_ignored(self, found: Any) -> None:
        """Send a signal again if Python ignored its exception, as it does in some callbacks."""
        if found.exc_type is KeyboardInterrupt and self._was_raised:
            self._was_raised = False
            send_again(self._number)
        else:
            self._hook(found)

    @contextmanager
    def delayed(self) -> Iterator[None]:
        """Raise nothing in this block."""
        was_interruptible, self.is_interruptible = self.is_interruptible, False
        try:
            yield
        finally:
            self.is_interruptible = was_interruptible

    def pass_on(self) -> None:
        """Send the signal again after the ``with`` block, to the earlier handler."""
        signal.raise_signal(self._number)


def handle_stops(handler: Callable[[int, FrameType | None], object]) -> dict[int, Any]:
    """Handle the stop signals, and return the earlier handlers.

    nohup ignores SIGHUP, so that a command survives its terminal. It stays ignored.
    """
    is_kept = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    numbers = [one for one in STOP_SIGNALS if one != signal.SIGHUP or not is_kept]
    return {number: signal.signal(number, handler) for number in numbers}


def send_again(number: int) -> None:
    """Send a signal to this process a moment later."""
    timer = threading.Timer(RETRY, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()


def is_importing(frame: FrameType | None) -> bool:
    """Return whether this frame or one of its callers is executing an import."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False

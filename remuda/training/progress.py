"""Follow a run: the listener interface, and several listeners at once.

The command line's progress bar is in ``remuda.cli.progress``, and trackers are in
``remuda.training.tracking``.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self


class Progress:
    """Listen to a run. This class ignores all events; override the methods that you need.

    A run enters the listener as a context, calls ``start`` once, and calls ``round`` after every
    round.
    """

    def start(self, folder: Path, rounds: int, reached: int, num_members: int) -> None:
        """Receive the run folder and the state of the run at the start.

        ``rounds`` is the last round to train, and ``reached`` is the last trained round.
        """

    def rewind(self, reached: int, num_members: int) -> None:
        """Receive that ranks were lost or members moved, and training continues after ``reached``.

        Later rounds run again, perhaps with fewer members.
        """

    def round(self, line: dict[str, Any]) -> None:
        """Receive the line of rounds.jsonl for a completed round."""

    def note(self, text: str) -> None:
        """Receive a message for the user. It can come at any time and from any thread."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None: ...


class Several(Progress):
    """Forward all events to several listeners."""

    def __init__(self, *listeners: Progress):
        self.listeners = listeners
        self._entered = ExitStack()

    def start(self, folder: Path, rounds: int, reached: int, num_members: int) -> None:
        for listener in self.listeners:
            listener.start(folder, rounds, reached, num_members)

    def rewind(self, reached: int, num_members: int) -> None:
        for listener in self.listeners:
            listener.rewind(reached, num_members)

    def round(self, line: dict[str, Any]) -> None:
        for listener in self.listeners:
            listener.round(line)

    def note(self, text: str) -> None:
        for listener in self.listeners:
            listener.note(text)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for listener in self.listeners:
                stack.enter_context(listener)
            self._entered = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._entered.__exit__(*exception)  # type: ignore[arg-type]

"""Follow a run: the listener interface, TensorBoard event files, and several listeners at once.

The command line's progress bar is in ``remuda.cli.progress``.
"""

from pathlib import Path
from typing import Any, Self

from remuda.errors import UserError


class Progress:
    """Listen to a run. This class ignores all events; override the methods that you need.

    A run enters the listener as a context, calls ``start`` once, and calls ``round`` after every
    round.
    """

    def start(self, folder: Path, rounds: int, reached: int, num_members: int) -> None:
        """Receive the run folder and the state of the run at the start.

        ``rounds`` is the last round to train, and ``reached`` is the last trained round.
        """

    def round(self, line: dict[str, Any]) -> None:
        """Receive the line of rounds.jsonl for a completed round."""

    def note(self, text: str) -> None:
        """Receive a message for the user. It can come at any time and from any thread."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None: ...


class EventFiles(Progress):
    """Write every metric of every member, and the images per second, to TensorBoard event files."""

    def __init__(self, folder: Path):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError(
                "run.tensorboard=true requires the package tensorboard: "
                "pip install 'remuda[tensorboard]'"
            ) from None
        self.open = lambda reached: SummaryWriter(str(folder), purge_step=reached + 1)
        self.writer = None

    def start(self, folder: Path, rounds: int, reached: int, num_members: int) -> None:
        self.writer = self.open(reached)

    def round(self, line: dict[str, Any]) -> None:
        assert self.writer is not None
        for name, values in line.items():
            if isinstance(values, list):
                for member, value in enumerate(values):
                    self.writer.add_scalar(f"{name}/member {member}", value, line["round"])
        self.writer.add_scalar("images_per_second", line["images_per_second"], line["round"])

    def __exit__(self, *exception: object) -> None:
        if self.writer is not None:
            self.writer.close()


class Several(Progress):
    """Forward all events to several listeners."""

    def __init__(self, *listeners: Progress):
        self.listeners = listeners

    def start(self, folder: Path, rounds: int, reached: int, num_members: int) -> None:
        for listener in self.listeners:
            listener.start(folder, rounds, reached, num_members)

    def round(self, line: dict[str, Any]) -> None:
        for listener in self.listeners:
            listener.round(line)

    def note(self, text: str) -> None:
        for listener in self.listeners:
            listener.note(text)

    def __enter__(self) -> Self:
        for listener in self.listeners:
            listener.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        for listener in reversed(self.listeners):
            listener.__exit__(*exception)

"""Define what a tracker must do. A tracker shows a run outside of its folder."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from remuda.errors import UserError

State = Literal["finished", "stopped", "failed"]


@dataclass(frozen=True)
class Link:
    """Where a tracker shows a run."""

    id: str  # of the run at the tracker
    place: str  # an address, or a path in the run folder


class Tracker(ABC):
    """Show one run in a tracker.

    Create it before training: it raises a UserError if its package is missing. All other methods
    run in one background thread. If one of them raises, the run continues without this tracker.
    """

    def __init__(self, folder: Path):
        self.folder = folder  # of the run

    @abstractmethod
    def start(self, link: Link | None, settings: Mapping[str, Any]) -> Link:
        """Start a run at the tracker, or continue the one that ``link`` names.

        ``settings`` are the tables of config.toml.
        """

    def rewind(self, reached: int) -> int | None:
        """Forget everything after round ``reached``, if the tracker can forget.

        Return the last round that the tracker still has, which is sent no more. None means that it
        has everything that was sent. This runs after ``start``, and again if rounds run again
        because ranks were lost or members moved.
        """
        return None

    @abstractmethod
    def log(self, t: int, values: Mapping[str, float]) -> None:
        """Show values of round t, such as ``{"generator_loss/mean": 0.3}``."""

    @abstractmethod
    def picture(self, t: int, path: Path) -> None:
        """Show a picture of round t, a PNG file; ``picture_name`` tells what it shows."""

    @abstractmethod
    def end(self, state: State) -> None:
        """Show that training has ended, and send everything that is still waiting."""


def picture_name(path: Path) -> str:
    """Return "samples" for a sample grid, and "cells" for a picture with a row for each cell."""
    return path.parent.name


def require(module: str, tracker: str) -> Any:
    """Import a module that a tracker needs; raise a UserError if its package is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(
            f"run.trackers contains {tracker}, which requires a package that cannot be imported "
            f"({error}): pip install 'remuda[{tracker}]'"
        ) from None


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested tables as one, with keys such as ``run.rounds``."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found

"""Record where trackers show a run, and what each of them has received."""

from dataclasses import dataclass, fields, replace
from typing import Any, Self

from remuda.record.files import is_whole, require


@dataclass(frozen=True, kw_only=True)
class Tracked:
    """A tracker's entry in trackers.json."""

    id: str  # of the run at the tracker
    place: str  # an address, or a path in the run folder
    rounds: int = 0  # the last round that the tracker has received
    scores: int = 0  # the round of the last scores
    samples: int = 0  # the round of the last sample grid

    def up_to(self, t: int) -> Self:
        """Return the entry after the tracker has forgotten everything after round t."""
        return replace(
            self,
            rounds=min(self.rounds, t),
            scores=min(self.scores, t),
            samples=min(self.samples, t),
        )


def parse_trackers(entries: Any) -> dict[str, Tracked]:
    """Check the content of trackers.json: one entry for each tracker."""
    if not isinstance(entries, dict):
        raise TypeError("not a JSON object")
    return {name: _parse(entry) for name, entry in entries.items()}


def _parse(entry: Any) -> Tracked:
    if not isinstance(entry, dict):
        raise TypeError("an entry is not a JSON object")
    for name in ("id", "place"):
        require(entry, name, lambda value: isinstance(value, str))
    for name in ("rounds", "scores", "samples"):
        require(entry, name, is_whole)
    return Tracked(**{field.name: entry[field.name] for field in fields(Tracked)})

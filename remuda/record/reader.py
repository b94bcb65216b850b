"""Read a run folder at any time: before the first round, during training, or after a crash.

The reader needs no PyTorch. A missing file means that nothing has been written yet. A damaged file
raises a UserError that names the file, the cause and the remedy.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from remuda.errors import UserError
from remuda.record import endings, files, manifests
from remuda.record.facts import DataFacts, parse_facts
from remuda.record.files import Line, damaged, is_whole, require
from remuda.record.manifests import Checkpoint
from remuda.record.rounds import parse_round
from remuda.record.scores import TRAINING_SEED, Score, parse_score
from remuda.record.status import parse_status
from remuda.record.trackers import Tracked, parse_trackers

FAILURES = "failures.jsonl"
ARRIVALS = "arrivals.jsonl"
OLD_FAILURES = "losses.jsonl"  # its name in older run folders
SECTIONS = {"data", "engine", "networks", "run", "scores", "strategy"}  # tables of config.toml


class Reader:
    """The content of one run folder. Every call reads the files again; nothing is cached."""

    def __init__(self, folder: Path | str):
        self.folder = Path(folder)

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Return a reader for a run folder; raise if the folder is not a run."""
        if not (Path(folder) / "config.toml").is_file():
            raise UserError(
                f"{folder} is not a run of remuda, because it has no config.toml: "
                "remuda list shows the runs in ./runs"
            )
        return cls(Path(folder))

    # Settings, data, environment

    @property
    def settings_text(self) -> str:
        """The text of config.toml."""
        path = self.folder / "config.toml"
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise damaged(path, error) from None

    @property
    def settings(self) -> dict[str, Any]:
        """The tables of config.toml, which contains all settings of the run."""
        try:
            return _parse_settings(tomllib.loads(self.settings_text))
        except (ValueError, TypeError, RecursionError) as error:
            raise damaged(self.folder / "config.toml", error) from None

    def setting(self, section: str, key: str) -> Any:
        """Return one setting, such as ``setting("run", "rounds")``."""
        try:
            return self.settings[section][key]
        except (KeyError, TypeError):
            raise damaged(self.folder / "config.toml", f"{section}.{key} is missing") from None

    @property
    def facts(self) -> DataFacts:
        """The facts about the training data in data.json."""
        return files.read_json(self.folder / "data.json", parse_facts)

    @property
    def has_facts(self) -> bool:
        """Whether data.json exists."""
        return (self.folder / "data.json").exists()

    def environments(self) -> list[dict[str, Any]]:
        """Return one entry for every start and resume, oldest first."""
        path = self.folder / "environment.json"
        return files.read_json(path, _parse_environments) if path.exists() else []

    def status(self) -> dict[str, Any] | None:
        """Return the content of status.json; None if training has not started."""
        path = self.folder / "status.json"
        return files.read_json(path, parse_status) if path.exists() else None

    def trackers(self) -> dict[str, Tracked]:
        """Return the entries of trackers.json by the names of the trackers."""
        path = self.folder / "trackers.json"
        return files.read_json(path, parse_trackers) if path.exists() else {}

    # Files with one JSON object per line

    def iterate_rounds(self) -> Iterator[Line]:
        """Yield the lines of rounds.jsonl one at a time; skip an incomplete last line."""
        return files.read_lines(self.folder / "rounds.jsonl", parse_round)

    def rounds(self) -> list[Line]:
        """Return all lines of rounds.jsonl."""
        return list(self.iterate_rounds())

    def last_rounds(self, count: int) -> list[Line]:
        """Return the last ``count`` lines of rounds.jsonl, or all if it has fewer.

        Only the end of the file is read.
        """
        return files.read_last_lines(self.folder / "rounds.jsonl", count, parse_round)

    def last_round(self) -> int:
        """Return the last round that all files with a line per round have; 0 if there is none."""
        paths = [self.folder / "rounds.jsonl", self.folder / ARRIVALS]
        lines = [files.read_last_lines(path, 1, with_round) for path in paths if path.exists()]
        return min((found[-1]["round"] if found else 0 for found in lines), default=0)

    def num_rounds(self) -> int:
        """Count the complete lines of rounds.jsonl."""
        return sum(1 for _ in files.complete_lines(self.folder / "rounds.jsonl"))

    def arrivals(self) -> list[tuple[int, list[list[int]]]]:
        """Return the lines of arrivals.jsonl: a round, and [member, facts ...] of every arrival."""
        path = self.folder / ARRIVALS
        if not path.exists():
            return []
        return [(line["round"], line["arrivals"]) for line in files.read_lines(path, _parse_order)]

    def scores(self) -> list[Score]:
        """Return all scores in the order of their rounds.

        A run may be scored again. If several lines have the same round and name, the last one
        counts.
        """
        found: dict[tuple[int, str], Score] = {}
        for score in files.read_lines(self.folder / "scores.jsonl", parse_score):
            found[score.round, score.name] = score
        return sorted(found.values(), key=lambda score: score.round)

    def training_scores(self) -> list[Score]:
        """Return the scores by which training chooses its best round, in the order of the rounds.

        Scores of the same rounds that users have computed later do not count: they may use other
        samples or other data.
        """
        found: dict[tuple[int, str], Score] = {}
        for score in files.read_lines(self.folder / "scores.jsonl", parse_score):
            if score.seed == TRAINING_SEED:
                found.setdefault((score.round, score.name), score)
        return sorted(found.values(), key=lambda score: score.round)

    def has_scores(self, t: int) -> bool:
        """Return whether round t has been scored."""
        return any(score.round == t for score in self.scores())

    @property
    def chosen_score(self) -> str:
        """The name of the score by which the run keeps its best checkpoint; "" if it keeps none."""
        return self.settings.get("run", {}).get("keep_best", "")

    def best(self) -> Score | None:
        """Return the score of the best round whose checkpoint is saved, or None."""
        return endings.best(self.training_scores(), self.chosen_score, self._saved_rounds())

    def protected_rounds(self) -> set[int]:
        """Return the rounds whose checkpoints must stay, because they may be the best."""
        if not self.chosen_score:
            return set()
        return endings.protected(self.training_scores(), self.chosen_score, self._saved_rounds())

    def _saved_rounds(self) -> set[int]:
        return {checkpoint.round for checkpoint in self.checkpoints()}

    def failures(self) -> list[Line]:
        """Return one line for each failure, oldest first."""
        paths = (self.folder / name for name in (OLD_FAILURES, FAILURES))
        return [line for path in paths for line in files.read_lines(path, _parse_failure)]

    # Pictures and checkpoints

    def sample_path(self, t: int) -> Path:
        """Return the path of the sample grid of round t, which may not exist yet."""
        return self.folder / "samples" / f"round-{t:06d}.png"

    def sample_grids(self) -> list[Path]:
        """Return the sample grids in the order of their rounds."""
        return _by_round(self.folder / "samples")

    def cell_path(self, t: int) -> Path:
        """Return the path of the picture of all cells of round t, which may not exist."""
        return self.folder / "samples" / "cells" / f"round-{t:06d}.png"

    def cell_grids(self) -> list[Path]:
        """Return the pictures with one row per cell of a torus, in the order of their rounds."""
        return _by_round(self.folder / "samples" / "cells")

    def checkpoints(self) -> list[Checkpoint]:
        """Return all checkpoints, oldest first, without checking them."""
        return manifests.list_all(self.folder / "checkpoints")

    def newest(self) -> tuple[Checkpoint | None, list[str]]:
        """Return the newest intact checkpoint, or None, and the problems of newer ones."""
        return manifests.newest_valid(self.folder / "checkpoints")

    def checkpoint(self, t: int) -> Checkpoint:
        """Return the checkpoint of round t; raise if it is missing or damaged."""
        return manifests.find(self.folder / "checkpoints", t)

    def best_checkpoint(self) -> Checkpoint:
        """Return the checkpoint of the best round; raise if there is none or it is damaged."""
        score, name = self.best(), self.chosen_score
        if score is not None:
            return self.checkpoint(score.round)
        if not name:
            raise UserError(
                f"{self.folder} keeps no best checkpoint: choose a round with --checkpoint, or "
                "train with --set run.keep_best=fid --set scores.every=10"
            )
        raise UserError(
            f"{self.folder} has no checkpoint that is scored with {name} yet: train it further, or "
            "choose a round with --checkpoint"
        )


def round_of(grid: Path) -> int:
    """Return the round of a sample grid."""
    return int(grid.stem.removeprefix("round-"))


def with_round(line: Line) -> Line:
    """Check only the round of a line, and return the line."""
    require(line, "round", is_whole)
    return line


def _by_round(folder: Path) -> list[Path]:
    paths = folder.glob("round-*.png")
    numbered = [path for path in paths if path.stem.removeprefix("round-").isdecimal()]
    return sorted(numbered, key=round_of)


def _parse_settings(settings: dict[str, Any]) -> dict[str, Any]:
    for name in SECTIONS & settings.keys():
        if not isinstance(settings[name], dict):
            raise TypeError(f"{name} is not a table")
    run = settings.get("run", {})
    if "rounds" in run:
        require(run, "rounds", is_whole)
    if "keep_best" in run:  # older runs lack this setting
        require(run, "keep_best", lambda value: isinstance(value, str))
    return settings


def _parse_environments(entries: Any) -> list[dict[str, Any]]:
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise TypeError("not a list of JSON objects")
    return entries


def _parse_order(line: Line) -> Line:
    files.require(line, "round", files.is_whole)
    order = line.get("arrivals")
    if not isinstance(order, list):
        raise TypeError("arrivals is not a list")
    if not all(_is_arrival(each) for each in order):
        raise TypeError("an arrival is not a list of whole numbers from 0")
    return line


def _is_arrival(value: Any) -> bool:
    return isinstance(value, list) and all(is_whole(n) and n >= 0 for n in value) and value != []


def _parse_failure(line: Line) -> Line:
    require(line, "round", is_whole)
    for name in ("ranks", "hosts", "members"):
        require(line, name, lambda value: isinstance(value, list))
    require(line, "action", lambda value: isinstance(value, str))
    return line

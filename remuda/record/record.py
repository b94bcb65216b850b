"""The record: the folder that a run leaves, and that a stranger can read.

config.toml        every setting of the run
data.json          what the model has to know of the data: shape, classes, images of each
environment.json   versions, device, git revision; one entry for every start and resume
rounds.jsonl       one JSON object a round
scores.jsonl       one JSON object a score, with its protocol
losses.jsonl       one JSON object a loss of ranks
status.json        how the run is doing, and each rank; written every second
samples/           grids from the same noise, round after round
checkpoints/       the state; see remuda.checkpoints
index.html         a page that shows all this
"""

import fcntl
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from remuda import config
from remuda.config import RunConfig
from remuda.errors import UserError, resume_command
from remuda.record import checkpoints
from remuda.scores.base import Value
from remuda.system import disk
from remuda.tensors.trees import Tree


@dataclass(frozen=True, kw_only=True)
class DataFacts:
    """What has to be known of the data once it is gone."""

    name: str
    shape: tuple[int, ...]
    classes: list[str]
    counts: list[int]

    @property
    def is_points(self) -> bool:
        """Whether the data are points in the plane instead of images."""
        return self.shape[1:] == (1, 1)

    def difference(self, other: "DataFacts", is_part: bool) -> str:
        """What these had and the others have not, in words; parts of data differ in numbers only."""
        if self.shape != other.shape:
            return f"images of shape {list(other.shape)} instead of {list(self.shape)}"
        if self.classes != other.classes:
            strange = sorted(set(self.classes) ^ set(other.classes))
            return f"other classes ({', '.join(strange[:3]) or 'in another order'})"
        for name, before, now in zip(self.classes, self.counts, other.counts, strict=True):
            if before != now and not is_part:
                return f"{now} of class {name} instead of {before}"
        return ""


class Record:
    """A run's folder. ``create`` and ``open`` make one; nothing is kept in memory."""

    is_new = False  # whether this process has made it,
    was_there = True  # and whether its folder was there before

    def __init__(self, folder: Path):
        self.folder = folder

    @classmethod
    def create(cls, folder: Path, run_config: RunConfig, facts: DataFacts) -> "Record":
        settings = config.to_toml(run_config)
        was_there = folder.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                hint = (
                    f"{resume_command(folder)}, or choose"
                    if (folder / "config.toml").exists()
                    else "choose"
                )
                raise UserError(f"{folder} is not empty: {hint} another --out")
            (folder / "samples").mkdir()  # fails if another process is about to do the same
        except OSError as error:
            raise UserError(
                f"a run cannot be written to {folder} ({error.strerror}): choose another --out"
            ) from None
        record = cls(folder)
        record.is_new, record.was_there = True, was_there
        try:
            (folder / "checkpoints").mkdir()
            disk.write_text(folder / "data.json", json.dumps(asdict(facts), indent=1))
            disk.write_text(folder / "config.toml", settings)
        except OSError as error:
            record.discard()
            raise UserError(
                f"a run cannot be written to {folder} ({error.strerror}): choose another --out"
            ) from None
        return record

    @classmethod
    def open(cls, folder: Path | str) -> "Record":
        folder = Path(folder)
        if not (folder / "config.toml").is_file():
            raise UserError(
                f"{folder} is not a run of remuda, it has no config.toml: remuda list shows those in ./runs"
            )
        return cls(folder)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run, so that no second process trains it."""
        with (self.folder / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"{self.folder} is being trained by another process: wait for it or stop it"
                ) from None
            yield

    @property
    def config(self) -> RunConfig:
        path = self.folder / "config.toml"
        values = config.read_toml(path)
        try:
            return config.from_dict(values)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None

    @property
    def facts(self) -> DataFacts:
        try:
            values = json.loads((self.folder / "data.json").read_text())
            facts = DataFacts(**{**values, "shape": tuple(map(int, values["shape"]))})
            is_whole = (
                len(facts.shape) == 3
                and isinstance(facts.name, str)
                and len(facts.classes) == len(facts.counts)
            )
            if not is_whole or any(not isinstance(count, int) for count in facts.counts):
                raise ValueError("its values are not those of a data set")
            return facts
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UserError(
                f"{self.folder / 'data.json'} cannot be read ({error}): the run is damaged"
            ) from None

    def expect(self, found: DataFacts, *, is_part: bool) -> None:
        """Refuse to go on with other data than the run began with; a part of them may have gone with its ranks."""
        difference = self.facts.difference(found, is_part)
        if difference:
            raise UserError(
                f"the data are not those that {self.folder} began with, {difference}: put them back as they were, or "
                "start a new run with remuda train"
            )

    def replace_config(self, run_config: RunConfig) -> None:
        disk.write_text(self.folder / "config.toml", config.to_toml(run_config))

    def add_environment(self, environment: dict[str, Any]) -> None:
        path = self.folder / "environment.json"
        try:
            entries = json.loads(path.read_text()) if path.exists() else []
        except ValueError as error:
            raise UserError(
                f"{path} cannot be read ({error}): remove it, training does not need it"
            ) from None
        disk.write_text(path, json.dumps([*entries, environment], indent=1))

    # Rounds

    def add_round(self, line: dict[str, Any]) -> None:
        disk.append_lines(self.folder / "rounds.jsonl", [json.dumps(line)])

    def rounds(self) -> list[dict[str, Any]]:
        return self._lines("rounds.jsonl")

    def add_scores(self, t: int, values: Sequence[Value]) -> None:
        """Of a round; a score that is taken again is one line more, and the last one counts."""
        lines = [json.dumps({"round": t, **asdict(value)}) for value in values]
        disk.append_lines(self.folder / "scores.jsonl", lines)

    def scores(self) -> list[dict[str, Any]]:
        return self._lines("scores.jsonl")

    def has_scores(self, t: int) -> bool:
        return any(line["round"] == t for line in self.scores())

    def add_loss(self, line: dict[str, Any]) -> None:
        disk.append_lines(self.folder / "losses.jsonl", [json.dumps(line)])

    def losses(self) -> list[dict[str, Any]]:
        """Of ranks, on the way."""
        return self._lines("losses.jsonl")

    def _lines(self, name: str) -> list[dict[str, Any]]:
        """All complete lines; a kill may have torn the last one."""
        path = self.folder / name
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        try:
            return [json.loads(line) for line in lines if line.endswith("\n")]
        except ValueError as error:
            raise UserError(f"{path} cannot be read ({error}): the run is damaged") from None

    def discard(self) -> None:
        """What was written before anything was trained; nothing else that may have come into the folder."""
        for name in ("samples", "checkpoints", "tensorboard"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        with suppress(OSError):
            for name in (
                "config.toml",
                "data.json",
                "environment.json",
                "status.json",
                "rounds.jsonl",
                "losses.jsonl",
            ):
                (self.folder / name).unlink(missing_ok=True)
                (self.folder / f".{name}.new").unlink(missing_ok=True)
            (self.folder / ".lock").unlink(missing_ok=True)
            if not self.was_there:
                self.folder.rmdir()

    def forget_rounds_after(self, t: int) -> None:
        """Rounds that were run but not saved will be run again."""
        for name in ("rounds.jsonl", "scores.jsonl"):
            if (self.folder / name).exists() or name == "rounds.jsonl":
                kept = [json.dumps(line) + "\n" for line in self._lines(name) if line["round"] <= t]
                disk.write_text(self.folder / name, "".join(kept))
        for path in self.sample_grids():
            if int(path.stem.removeprefix("round-")) > t:
                path.unlink()

    # Pictures

    def sample_path(self, t: int) -> Path:
        return self.folder / "samples" / f"round-{t:06d}.png"

    def sample_grids(self) -> list[Path]:
        paths = sorted((self.folder / "samples").glob("round-*.png"))
        return [path for path in paths if path.stem.removeprefix("round-").isdecimal()]

    # State

    def save(self, t: int, state: Tree, keep: int, members: Sequence[int]) -> None:
        checkpoints.save(self.folder / "checkpoints", t, state, keep, members)

    def newest(self) -> tuple[checkpoints.Checkpoint | None, list[str]]:
        return checkpoints.newest_valid(self.folder / "checkpoints")

    def checkpoint(self, t: int) -> checkpoints.Checkpoint:
        return checkpoints.find(self.folder / "checkpoints", t)


def next_folder(name: str, parent: Path = Path("runs")) -> Path:
    """The first of runs/NAME-001, runs/NAME-002, ... that does not exist."""
    number = 1
    while (folder := parent / f"{name}-{number:03d}").exists():
        number += 1
    return folder

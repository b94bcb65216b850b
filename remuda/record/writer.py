"""Write a run folder in plain files that anyone can read.

config.toml        every setting of the run
parts/             copies of the user's own code, if the settings name any
parts.json         where this code came from, and its checksums
data.json          facts about the data that a model needs: shape, classes, image counts
environment.json   versions, device, git revision; one entry for every start and resume
rounds.jsonl       one JSON object per round
arrivals.jsonl     one JSON object per asynchronous round: the order in which turns have arrived
scores.jsonl       one JSON object per score, with its protocol
failures.jsonl     one JSON object per failure, with the ranks that were lost
status.json        the state of the run and of each rank; written about once a second
trackers.json      where trackers show the run, and what they have received
samples/           grids from the same noise in every round; cells/: a row for each cell of a torus
checkpoints/       the state; see remuda.record.checkpoints
index.html         a page that shows the run
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from remuda import config
from remuda.config import RunConfig
from remuda.config.references import with_full_paths
from remuda.config.trust import require_trust
from remuda.errors import PARTS, StoppedByFailure, UserError, resume_command
from remuda.record import checkpoints, files, parts
from remuda.record.checkpoints import Leaves
from remuda.record.facts import DataFacts, as_table
from remuda.record.reader import ARRIVALS, FAILURES, Reader, round_of, with_round
from remuda.record.trackers import Tracked
from remuda.scores.base import Value
from remuda.system import disk

LOCK = ".lock"
FOLDERS = ("samples", "checkpoints", "tensorboard", "wandb", "mlflow", PARTS)
FILES = (
    "config.toml",
    parts.INDEX,
    "data.json",
    "environment.json",
    "status.json",
    "trackers.json",
    "rounds.jsonl",
    ARRIVALS,
    FAILURES,
)


class Record(Reader):
    """Writes a run folder, and reads everything that it writes.

    ``create`` creates a run folder, ``open`` opens an existing one. Nothing is cached in memory.
    ``trust`` allows ``config`` to execute code that the run folder brings.
    """

    def __init__(
        self,
        folder: Path | str,
        is_new: bool = False,
        folder_existed: bool = True,
        trust: bool = False,
    ):
        super().__init__(folder)
        self.trust = trust
        self.is_new = is_new  # whether this process created the run
        self.folder_existed = folder_existed  # before the run was created
        self._lock: os.stat_result | None = None  # the lock's file while this process holds it

    @classmethod
    def open(cls, folder: Path | str, trust: bool = False) -> "Record":
        """Return the record of a run folder; raise if the folder is not a run."""
        return cls(Reader.open(folder).folder, trust=trust)

    @classmethod
    def create(cls, folder: Path, run_config: RunConfig, facts: DataFacts) -> "Record":
        """Start a run in a folder that is empty or does not exist."""
        config.to_dict(run_config)  # may raise, so call it before writing anything
        record = cls(folder, is_new=True, folder_existed=folder.exists())
        with _writing_to(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _refuse_content(folder)
            (folder / "samples").mkdir()  # fails if another process is creating a run here
        try:
            with _writing_to(folder):
                (folder / "checkpoints").mkdir()
                record.replace_facts(facts)
                record.replace_config(run_config)
        except UserError:
            record.discard()
            raise
        return record

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run, so that only this process writes to it; raise if it is already locked."""
        with (self.folder / LOCK).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"another process is training {self.folder}: wait until it ends, or stop it"
                ) from None
            self._lock = os.fstat(file.fileno())
            yield

    def is_ours(self) -> bool:
        """Return whether this process still holds the lock; another one takes it by removing it."""
        assert self._lock is not None
        try:
            return os.path.samestat(self._lock, (self.folder / LOCK).stat())
        except FileNotFoundError:
            return False

    def check_lock(self) -> None:
        """Raise if another process has taken over the run."""
        if not self.is_ours():
            raise StoppedByFailure(
                f"another process has taken over {self.folder}, so this one ends"
            )

    # Settings, data, environment

    @property
    def config(self) -> RunConfig:
        """The settings, checked and typed. Code of the run is executed only if it is trusted."""
        settings = with_full_paths(self.settings, self.folder)
        if not self.trust:
            require_trust(self.folder, settings)
        try:
            return config.from_dict(settings)
        except UserError as error:
            raise UserError(f"{self.folder / 'config.toml'}: {error}") from None

    @property
    def comparable(self) -> dict[str, Any]:
        """The settings in a form that can be compared. This executes no code of the run."""
        settings = with_full_paths(self.settings, self.folder)
        try:
            return config.comparable(settings)
        except UserError as error:
            raise UserError(f"{self.folder / 'config.toml'}: {error}") from None

    def replace_config(self, run_config: RunConfig) -> None:
        """Write all settings to config.toml, and copy the user's own code next to it."""
        values = parts.keep(self.folder, config.to_dict(run_config))
        disk.write_text(self.folder / "config.toml", config.write_toml(values))

    def expect(
        self,
        found: DataFacts,
        *,
        is_part: bool,
        may_grow: bool,
        remedy: str = "start a new run with remuda train",
    ) -> None:
        """Raise if the data changed since the run started; see DataFacts.difference."""
        difference = self.facts.difference(found, is_part, may_grow)
        if difference:
            raise UserError(
                f"the data changed since {self.folder} started, {difference}: restore the old "
                f"data, or {remedy}"
            )

    def replace_facts(self, facts: DataFacts) -> None:
        """Write the facts about the data to data.json."""
        disk.write_text(self.folder / "data.json", json.dumps(as_table(facts), indent=1))

    def add_environment(self, environment: dict[str, Any]) -> None:
        """Add an entry for this start or resume to environment.json."""
        entries = [*self.environments(), environment]
        disk.write_text(self.folder / "environment.json", json.dumps(entries, indent=1))

    def set_seconds(self, seconds: dict[str, float]) -> None:
        """Record where the time of this start or resume went, in its entry."""
        entries = self.environments()
        entries[-1]["seconds"] = seconds
        disk.write_text(self.folder / "environment.json", json.dumps(entries, indent=1))

    def replace_trackers(self, entries: Mapping[str, Tracked]) -> None:
        """Write the entries of all trackers to trackers.json."""
        text = json.dumps({name: asdict(entry) for name, entry in entries.items()}, indent=1)
        disk.write_text(self.folder / "trackers.json", text)

    # Files with one JSON object per line

    def add_round(self, line: dict[str, Any]) -> None:
        """Append a line to rounds.jsonl."""
        disk.append_lines(self.folder / "rounds.jsonl", [json.dumps(line)])

    def add_arrivals(self, t: int, arrivals: Sequence[tuple[int, list[int], float]]) -> None:
        """Append the order in which turns have arrived in round t to arrivals.jsonl."""
        order = [[member, *facts] for member, facts, _ in arrivals]
        seconds = [round(seconds, 4) for _, _, seconds in arrivals]
        facts = {"round": t, "arrivals": order, "seconds": seconds}
        line = json.dumps(facts, separators=(",", ":"))
        disk.append_lines(self.folder / ARRIVALS, [line])

    def add_scores(self, t: int, values: Sequence[Value]) -> None:
        """Append the scores of a round; they replace earlier ones of the same round and name."""
        lines = [json.dumps({"round": t, **asdict(value)}) for value in values]
        disk.append_lines(self.folder / "scores.jsonl", lines)

    def add_failure(self, line: dict[str, Any]) -> None:
        """Append a line about lost ranks to failures.jsonl."""
        disk.append_lines(self.folder / FAILURES, [json.dumps(line)])

    def forget_rounds_after(self, t: int) -> None:
        """Remove all rounds after t, with their scores and samples, because they will run again."""
        for name in ("rounds.jsonl", "scores.jsonl", ARRIVALS):
            path = self.folder / name
            if path.exists() or name == "rounds.jsonl":
                lines = [line for line in files.read_lines(path, with_round) if line["round"] <= t]
                disk.write_text(path, "".join(json.dumps(line) + "\n" for line in lines))
        for path in [*self.sample_grids(), *self.cell_grids()]:
            if round_of(path) > t:
                path.unlink()

    # The folder and its checkpoints

    def save(self, t: int, leaves: Leaves, keep: int, member_ids: Sequence[int]) -> None:
        """Save the state of all members; keep the newest ``keep`` checkpoints and the best one."""
        stays = self.protected_rounds()
        checkpoints.save(self.folder / "checkpoints", t, leaves, keep, member_ids, stays)

    def discard(self) -> None:
        """Remove the files of a run that has not trained yet; keep other files in the folder."""
        for name in FOLDERS:
            shutil.rmtree(self.folder / name, ignore_errors=True)
        with suppress(OSError):
            for name in FILES:
                (self.folder / name).unlink(missing_ok=True)
                (self.folder / f".{name}.new").unlink(missing_ok=True)
            (self.folder / LOCK).unlink(missing_ok=True)
            if not self.folder_existed:
                self.folder.rmdir()


def next_folder(name: str, parent: Path = Path("runs")) -> Path:
    """Return the first of runs/NAME-001, runs/NAME-002, ... that does not exist."""
    number = 1
    while (folder := parent / f"{name}-{number:03d}").exists():
        number += 1
    return folder


@contextmanager
def _writing_to(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot create a run in {folder} ({error.strerror}): choose another --out"
        ) from None


def _refuse_content(folder: Path) -> None:
    if any(folder.iterdir()):
        is_run = (folder / "config.toml").exists()
        remedy = f"{resume_command(folder)}, or choose" if is_run else "choose"
        raise UserError(f"{folder} is not empty: {remedy} another --out")

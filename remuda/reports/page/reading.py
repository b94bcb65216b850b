"""Reads a record's files, whatever state the run is in; only what no run leaves behind is an error."""

import json
import tomllib
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import Any

from remuda.errors import UserError
from remuda.reports.page.curves import Curve


@dataclass
class Rounds:
    """What rounds.jsonl says, condensed while it is read: a long run's file does not fit into memory."""

    last: dict[str, Any] = field(
        default_factory=dict
    )  # the newest line; empty before the first round
    curves: dict[str, Curve] = field(default_factory=dict)  # of every metric that members report
    seconds: float = 0.0
    paces: list[float] = field(default_factory=list)  # images per second
    routines: dict[str, float] = field(
        default_factory=dict
    )  # seconds in all, where the strategy names routines
    num_timed: int = 0  # rounds that have named some
    seconds_timed: float = 0.0  # that these took, routines and the rest


@dataclass(frozen=True, kw_only=True)
class Score:
    """A line of scores.jsonl; what else it has is not shown."""

    round: int
    name: str  # states the protocol
    value: int | float
    spread: int | float | None = None
    floor: int | float | None = None  # the same score of real images
    floor_samples: int = 0  # how many of them; 0 where that is not known
    classes: list | None = None  # one number per class
    num_samples: int
    seed: int
    reference: str  # split of the data; "" where there is none
    num_reference: int
    reference_digest: str
    network: str  # "" where there is none
    network_digest: str
    precision: str
    seconds: int | float


@dataclass(frozen=True, kw_only=True)
class Run:
    """A record, read."""

    folder: Path  # as given, for the commands on the page
    config: dict[str, Any]
    config_text: str
    data: dict[str, Any]  # empty if data.json is missing
    environment: list[dict[str, Any]]  # one entry for every start and resume
    rounds: Rounds
    grids: list[tuple[int, Path]]  # round and picture, oldest first
    scores: list[Score]  # one for each round and name, in the order of rounds

    @property
    def reached(self) -> int:
        return self.rounds.last.get("round", 0)

    @property
    def strategy(self) -> str:
        return self.setting("strategy", "name")

    @property
    def num_members(self) -> int:
        """Members of the herd; 0 as long as nothing tells."""
        reported = max((curve.width for curve in self.rounds.curves.values()), default=0)
        return (
            reported
            or self.setting("run", "members")
            or (len(self.classes) if self.is_by_class else 0)
        )

    @property
    def is_by_class(self) -> bool:
        """Whether member i is class i."""
        return self.strategy == "class-parallel"

    @property
    def classes(self) -> list[str]:
        return self.data.get("classes", [])

    @property
    def is_points(self) -> bool:
        """Whether the data are points in the plane, their grids scatter plots."""
        return self.data.get("shape", [])[1:] == [1, 1]

    def setting(self, section: str, key: str) -> Any:
        """A setting of config.toml, where every run writes down all of them."""
        try:
            return self.config[section][key]
        except (KeyError, TypeError):
            raise _damaged(self.folder / "config.toml", f"{section}.{key} is missing") from None


def read(folder: Path) -> Run:
    path = folder / "config.toml"
    if not path.is_file():
        raise UserError(
            f"{folder} is not a run of remuda, it has no config.toml: remuda list shows those in ./runs"
        )
    try:
        text = path.read_text(encoding="utf-8")
        config = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _damaged(path, error) from None
    return Run(
        folder=folder,
        config=config,
        config_text=text,
        data=_read_json(folder / "data.json", {}),
        environment=_read_json(folder / "environment.json", []),
        rounds=read_rounds(folder / "rounds.jsonl"),
        grids=_grids(folder / "samples"),
        scores=read_scores(folder / "scores.jsonl"),
    )


def read_rounds(path: Path) -> Rounds:
    rounds = Rounds()
    num_lines = sum(1 for _ in _complete_lines(path))
    # The file may grow between the two readings, if the run is being trained.
    for number, line in enumerate(islice(_complete_lines(path), num_lines), start=1):
        try:
            values = json.loads(line)
            t = values["round"]
            rounds.seconds += values["seconds"]
            rounds.paces.append(values["images_per_second"])
        except (ValueError, TypeError, KeyError) as error:
            raise _damaged(path, f"line {number}: {error!r}") from None
        for name, value in values.items():
            if is_metric(value):
                curve = rounds.curves.setdefault(name, Curve.for_rounds(num_lines, len(value)))
                curve.add(t, value)
        if routines := values.get("routines"):
            _add_routines(rounds, routines, values["seconds"], path, number)
        rounds.last = values
    for curve in rounds.curves.values():
        curve.close()
    return rounds


def _add_routines(rounds: Rounds, routines: Any, seconds: float, path: Path, number: int) -> None:
    if not isinstance(routines, dict) or not all(
        isinstance(value, int | float) for value in routines.values()
    ):
        raise _damaged(path, f"line {number}: routines is no table of seconds")
    for name, value in routines.items():
        rounds.routines[name] = rounds.routines.get(name, 0.0) + value
    rounds.num_timed += 1
    rounds.seconds_timed += seconds


def read_scores(path: Path) -> list[Score]:
    """Of the lines with the same round and name the last one; a run may be scored anew."""
    found: dict[tuple[int, str], Score] = {}
    for number, line in enumerate(_complete_lines(path), start=1):
        try:
            score = _score(json.loads(line))
        except (ValueError, TypeError) as error:
            raise _damaged(path, f"line {number}: {error}") from None
        found[score.round, score.name] = score
    return sorted(found.values(), key=lambda score: score.round)


def _score(values: Any) -> Score:
    if not isinstance(values, dict):
        raise TypeError("a dict was expected")
    known = {}
    for each in fields(Score):
        value = values.get(each.name, None if each.default is MISSING else each.default)
        if not isinstance(value, each.type) or isinstance(value, bool):  # pyright: ignore[reportArgumentType]
            raise TypeError(
                f"{each.name} is {value!r}" if each.name in values else f"{each.name} is missing"
            )
        known[each.name] = value
    score = Score(**known)
    if score.classes is not None and not is_metric(score.classes):
        raise TypeError("classes is no list of numbers")
    return score


def _complete_lines(path: Path) -> Iterator[bytes]:
    """A kill may have torn the last line, which then lacks its end."""
    if path.exists():
        with path.open("rb") as file:
            yield from (line for line in file if line.endswith(b"\n"))


def is_metric(value: Any) -> bool:
    """Metrics are lists with a number for each member; new ones need no change here."""
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(x, int | float) for x in value)
    )


def _read_json(path: Path, missing: Any) -> Any:
    if not path.exists():
        return missing
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise _damaged(path, error) from None
    if not isinstance(content, type(missing)):
        raise _damaged(path, f"a {type(missing).__name__} was expected")
    return content


def _grids(folder: Path) -> list[tuple[int, Path]]:
    numbered = ((path.stem.removeprefix("round-"), path) for path in folder.glob("round-*.png"))
    return sorted((int(number), path) for number, path in numbered if number.isdecimal())


def _damaged(path: Path, why: object) -> UserError:
    return UserError(f"{path} cannot be read ({why}): the run is damaged")

"""Reads what a comparison needs of a run's record, whatever state the run is in."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remuda.config import RunConfig
from remuda.errors import UserError
from remuda.record.record import DataFacts, Record
from remuda.scores.base import Value


@dataclass(frozen=True, kw_only=True)
class Run:
    """A record, condensed; with a last round asked for, as it stood after that one."""

    folder: Path
    config: RunConfig
    facts: DataFacts
    device: str  # of the last start or resume; "" where the record does not say
    num_members: int
    num_rounds: int  # trained
    num_images: int  # real ones that the whole herd has seen
    seconds: float  # sum over the rounds
    num_bytes: int | None  # moved between members; None unless every round says
    scores: dict[tuple[int, str], Value]  # by round and name


def expand(folders: list[Path]) -> list[Path]:
    """Runs as they are; of a folder that holds runs, such as ``remuda repeat`` leaves, each of them."""
    found = []
    for folder in folders:
        inner = sorted(path.parent for path in folder.glob("*/config.toml"))
        found += inner if inner and not (folder / "config.toml").exists() else [folder]
    return found


def read(folder: Path, last_round: int | None = None) -> Run:
    record = Record.open(folder)
    config, facts = record.config, record.facts
    lines = [line for line in _rounds(record) if last_round is None or line["round"] <= last_round]
    scores = {
        (
            t,
            value.name,
        ): value  # a later line of the same round and name takes the place of an earlier one
        for t, value in _scores(record)
        if last_round in (None, t)
    }
    return Run(
        folder=folder,
        config=config,
        facts=facts,
        device=_device(folder / "environment.json"),
        num_members=config.strategy.num_members(config.run.members, len(facts.classes)),
        num_rounds=lines[-1]["round"] if lines else 0,
        num_images=lines[-1]["images"] if lines else 0,
        seconds=math.fsum(line["seconds"] for line in lines),
        num_bytes=sum(line["bytes"] for line in lines)
        if lines and all("bytes" in line for line in lines)
        else None,
        scores=scores,
    )


def _rounds(record: Record) -> list[dict[str, Any]]:
    path = record.folder / "rounds.jsonl"
    lines = _lines(path, record.rounds)
    for line in lines:
        for name in ("round", "images", "seconds", "bytes"):
            value = line.get(name) if isinstance(line, dict) else None
            if not _is_number(value) and (name != "bytes" or value is not None):
                raise _damaged(path, f"{name} is {value!r} in {str(line)[:40]!r}")
    return lines


def _scores(record: Record) -> list[tuple[int, Value]]:
    path = record.folder / "scores.jsonl"
    found = []
    for number, fields in enumerate(_lines(path, record.scores), start=1):
        try:
            t, value = fields.pop("round"), Value(**fields)
        except (TypeError, KeyError, AttributeError) as error:
            raise _damaged(path, f"line {number}: {error}") from None
        known = [number for number in (value.spread, value.floor) if number is not None]
        if not all(map(_is_number, [t, value.value, *known])):
            raise _damaged(path, f"line {number}: a score is no finite number")
        told = (
            value.name,
            value.reference,
            value.reference_digest,
            value.network,
            value.network_digest,
        )
        counts = (value.num_samples, value.num_reference)
        if not all(isinstance(text, str) for text in told) or not all(map(_is_number, counts)):
            raise _damaged(path, f"line {number}: its protocol is not whole")
        if not isinstance(value.classes, list | None):
            raise _damaged(path, f"line {number}: classes are no list")
        found.append((t, value))
    return found


def _lines(path: Path, read_lines: Callable[[], list[Any]]) -> list[Any]:
    try:
        return read_lines()
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from None


def _device(path: Path) -> str:
    try:
        entries = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        return str(entries[-1].get("device", "")) if entries else ""
    except (OSError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise _damaged(path, error) from None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _damaged(path: Path, why: object) -> UserError:
    return UserError(f"{path} cannot be read ({why}): the run is damaged, leave it out")

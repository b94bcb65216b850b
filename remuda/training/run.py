"""Runs: started, and resumed as they were or otherwise."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from remuda.cluster import launch
from remuda.config import RunConfig, from_dict, to_dict
from remuda.errors import Interrupted
from remuda.record import Record, next_folder
from remuda.training.loop import Training
from remuda.training.progress import Progress

__all__ = ["Interrupted", "resume", "run"]


def run(config: RunConfig, out: str | Path | None = None, progress: Progress | None = None) -> Path:
    """Train a herd from the start; returns the folder of its record."""
    config = replace(config, data=config.data.with_full_paths())  # a resume may start elsewhere
    with launch.join(config.engine) as world:
        folder = Path(out) if out is not None else next_folder("run")
        return Training(world, config, folder, progress, is_new=True).run()


def resume(
    folder: str | Path,
    rounds: int | None = None,
    device: str | None = None,
    progress: Progress | None = None,
    members: int | None = None,
    engine: str | None = None,
    ranks: int | None = None,
    config: RunConfig | None = None,
) -> Path:
    """Go on from a run's newest intact checkpoint, to its last round or to another one.

    Also with other members, on another device or engine, and on another number of ranks; or by a configuration in place
    of the record's.
    """
    record = Record.open(folder)
    config = changed(config or record.config, rounds, device, members, engine, ranks)
    with launch.join(config.engine) as world:
        return Training(world, config, record.folder, progress, is_new=False).run()


def changed(
    config: RunConfig,
    rounds: int | None,
    device: str | None,
    members: int | None,
    engine: str | None,
    ranks: int | None,
) -> RunConfig:
    """A run's configuration as a resume has it; what is not given stays."""
    loop: dict[str, Any] = {
        "rounds": rounds,
        "members": members,
        "lost": None if members is None else (),
    }
    if ranks is None:  # those that were started this time, or as many as before
        name, started = engine or config.engine.name, launch.rank_from_environment().num_ranks
        ranks = 0 if name == "stacked" else started if started > 1 else None
    place = {"device": device, "name": engine, "ranks": ranks}
    shares = {
        "ranks": None if members is None else ()
    }  # data that lie with the ranks are shared out anew
    values = to_dict(config)
    for section, given in (("run", loop), ("engine", place), ("data", shares)):
        values[section] |= {name: value for name, value in given.items() if value is not None}
    return from_dict(values)  # which checks them

"""Start a run, or resume a run with or without changes."""

import os
from collections.abc import Sequence
from pathlib import Path

from remuda.cluster import launch
from remuda.cluster.environment import STARTED_BY_REMUDA
from remuda.config import RunConfig, from_dict, override, to_dict
from remuda.engines import ENGINES
from remuda.errors import Interrupted, UserError
from remuda.record import Record, next_folder, parts
from remuda.training.loop import train
from remuda.training.progress import Progress

__all__ = ["Interrupted", "resume", "run"]


def run(config: RunConfig, out: str | Path | None = None, progress: Progress | None = None) -> Path:
    """Train a configuration from the start, and return the run folder.

    The folder is ``out``, or the next free ``runs/run-NNN``. The function prints nothing; pass a
    ``Progress`` to follow the run. During training, PyTorch uses the number of threads and the
    determinism of ``config.engine``. Its earlier settings are restored afterwards.
    """
    if not isinstance(config, RunConfig):
        raise UserError(
            f"remuda.run needs a configuration, not {config!r}: use remuda.recipe(NAME_OR_FILE)"
        )
    config = config.with_full_paths()  # a resume may start elsewhere
    with launch.join(config.engine) as communicator:
        folder = Path(out) if out is not None else next_folder("run")
        return train(communicator, config, folder, progress or Progress(), is_new=True)


def resume(
    folder: str | Path,
    rounds: int | None = None,
    device: str | None = None,
    progress: Progress | None = None,
    members: int | None = None,
    engine: str | None = None,
    ranks: int | None = None,
    config: RunConfig | None = None,
    hosts: str | None = None,
    trust: bool = False,
) -> Path:
    """Resume a run from its newest intact checkpoint, and return its folder.

    The run trains until round ``rounds``, or until the last round of its configuration. You can
    change the number of members, the device, the engine, the number of ranks and their hosts.
    ``config`` replaces the recorded configuration. If the run brings its own code, ``trust`` must
    allow to execute it.
    """
    record, progress = Record.open(folder, trust), progress or Progress()
    config = changed(config or record.config, rounds, device, members, engine, ranks, hosts)
    with launch.join(config.engine) as communicator:
        for text in parts.changes(record.folder, to_dict(config)) if communicator.is_root else ():
            progress.note(text)
        return train(communicator, config, record.folder, progress, is_new=False)


def changed(
    config: RunConfig,
    rounds: int | None,
    device: str | None,
    members: int | None,
    engine: str | None,
    ranks: int | None,
    hosts: str | None = None,
    settings: Sequence[str] = (),
) -> RunConfig:
    """Return the configuration of a resumed run. None leaves a setting unchanged.

    ``settings`` are assignments such as ``strategy.ema=0.9``. The other arguments override them.
    """
    values, keys = to_dict(config), {text.partition("=")[0].strip() for text in settings}
    if members is not None or "run.members" in keys:
        # Start with all members, and divide the data again.
        values["run"]["lost"], values["data"]["ranks"] = (), ()
        if rounds is not None or "run.rounds" in keys:
            # The schedule ends with the new last round, so that new members can learn.
            values["strategy"]["annealing_rounds"] = 0.0
    values = override(values, list(settings))
    name = str(engine or values["engine"]["name"])  # not validated yet
    if hosts is None and not _can_start_ranks(name):
        hosts = ""
    if ranks is None:
        ranks = _num_ranks(name)
    if ranks is None and hosts:  # they tell the number of ranks
        ranks = 0
    place = {"device": device, "name": engine, "ranks": ranks, "hosts": hosts}
    given_by_section = {"run": {"rounds": rounds, "members": members}, "engine": place}
    for section, given in given_by_section.items():
        values[section] |= {name: value for name, value in given.items() if value is not None}
    return from_dict(values)  # validates the values


def _can_start_ranks(engine: str) -> bool:
    """Return whether remuda chooses the hosts: other launchers have already chosen them."""
    if engine in ENGINES and not ENGINES[engine].spans_processes:
        return False
    return STARTED_BY_REMUDA in os.environ or launch.rank_from_environment().num_ranks == 1


def _num_ranks(engine: str) -> int | None:
    """Return the number of ranks that a launcher started, or None to keep the recorded number.

    The number is 0 for an engine that runs in one process.
    """
    if engine in ENGINES and not ENGINES[engine].spans_processes:
        return 0
    started = launch.rank_from_environment().num_ranks
    return started if started > 1 else None

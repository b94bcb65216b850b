"""The loop: round after round, on every rank alike, and how to stop."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from remuda import launch
from remuda.config import RunConfig
from remuda.errors import Interrupted, UserError
from remuda.herd import Herd, assemble
from remuda.progress import Progress
from remuda.record import Record, next_folder
from remuda.scribe import Bystander, anything_due, scribe_of

__all__ = ["Interrupted", "resume", "run"]


def run(config: RunConfig, out: str | Path | None = None, progress: Progress | None = None) -> Path:
    """Train a herd from the start; returns the folder of its record."""
    config = replace(config, data=config.data.with_full_paths())  # a resume may start elsewhere
    with launch.join(config.engine) as world:
        herd = assemble(config, world)
        folder = Path(world.share(str(out if out is not None else next_folder("run")))[0])
        record = Record.create(folder, config, herd.facts) if world.is_root else Record(folder)
        return _train(record, config, herd, progress)


def resume(
    folder: str | Path,
    rounds: int | None = None,
    device: str | None = None,
    progress: Progress | None = None,
    members: int | None = None,
    engine: str | None = None,
    ranks: int | None = None,
) -> Path:
    """Go on from a run's newest intact checkpoint, to its last round or to another one.

    Also with other members, on another device or engine, and on another number of ranks.
    """
    record = Record.open(folder)
    config = changed(record.config, rounds, device, members, engine, ranks)
    with launch.join(config.engine) as world:
        return _train(record, config, assemble(config, world), progress)


def changed(
    config: RunConfig,
    rounds: int | None,
    device: str | None,
    members: int | None,
    engine: str | None,
    ranks: int | None,
) -> RunConfig:
    """A run's configuration as a resume has it; what is not given stays."""
    loop = {"rounds": rounds, "members": members}
    if ranks is None and (engine == "stacked" or launch.place()[1] > 1):
        ranks = 0  # none, or those that were started this time
    place = {"device": device, "name": engine, "ranks": ranks}
    return replace(
        config,
        run=replace(config.run, **{name: value for name, value in loop.items() if value is not None}),
        engine=replace(config.engine, **{name: value for name, value in place.items() if value is not None}),
    )


def _train(record: Record, config: RunConfig, herd: Herd, progress: Progress | None) -> Path:
    with scribe_of(record, config, herd, progress) as scribe, herd.engine:
        # (round, state): one name, so that no signal can part them. Ahead: computed, but not yet written down.
        position = ahead = _position(record, herd, scribe)
        scribe.begin(position[0])
        try:
            for t in range(position[0] + 1, config.run.rounds + 1):
                began = time.perf_counter()
                state, metrics = herd.step(position[1], t)
                ahead = t, state
                everyone = herd.report(metrics)
                scribe.round(t, everyone, time.perf_counter() - began)
                position = herd.engine.agree(t), state  # none goes on before it is written down
                if anything_due(t, config):
                    scribe.keep(t, herd.collect(state))
            herd.engine.agree(0)  # nor leaves before all is kept
        except KeyboardInterrupt:
            herd.engine.halt()
            # What is written down, or agreed to by any rank, has been computed by all.
            reached = herd.engine.agree(max(position[0], scribe.written))
            scribe.save(reached, herd.collect((ahead if ahead[0] == reached else position)[1]))
            scribe.end()
            sentence = f"stopped after round {reached}; go on with: remuda resume {record.folder}"
            raise Interrupted(sentence) from None
        except OSError as error:
            raise UserError(
                f"{record.folder} could not be written to ({error}): make room there or check its permissions, then "
                f"go on with: remuda resume {record.folder}; nothing that was saved is lost"
            ) from None
        scribe.end()
    return record.folder


def _position(record: Record, herd: Herd, scribe: Bystander) -> tuple[int, Any]:
    """The newest intact state of a run, the initial one if nothing was saved yet."""
    checkpoint = scribe.newest()
    reached = herd.engine.agree(checkpoint.round if checkpoint else -1)
    if reached < 0:
        return 0, herd.start()
    return reached, herd.restore(checkpoint, record.config.run.members)

"""The loop: round after round, what to write down, when to save, and how to stop."""

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from remuda import environment, report
from remuda.config import RunConfig
from remuda.errors import UserError
from remuda.herd import Herd, assemble
from remuda.progress import EventFiles, Progress, Several, Silent
from remuda.record import Record, next_folder
from remuda.samples import write_grid
from remuda.scoring import judge_of, score_round


class Interrupted(UserError):
    """The user stopped the run; every whole round is saved."""


def run(config: RunConfig, out: str | Path | None = None, progress: Progress | None = None) -> Path:
    """Train a herd from the start; returns the folder of its record."""
    config = replace(config, data=config.data.with_full_paths())  # a resume may start elsewhere
    herd = assemble(config)
    record = Record.create(Path(out) if out is not None else next_folder("run"), config, herd.facts)
    return _train(record, config, herd, progress or Silent())


def resume(
    folder: str | Path,
    rounds: int | None = None,
    device: str | None = None,
    progress: Progress | None = None,
    members: int | None = None,
) -> Path:
    """Go on from a run's newest intact checkpoint, to its last round or to another one, also with other members."""
    record = Record.open(folder)
    config = record.config
    changes = {"rounds": rounds, "members": members}
    changes = {name: change for name, change in changes.items() if change is not None}
    config = replace(config, run=replace(config.run, **changes))
    if device is not None:
        config = replace(config, engine=replace(config.engine, device=device))
    return _train(record, config, assemble(config), progress or Silent())


def _train(record: Record, config: RunConfig, herd: Herd, progress: Progress) -> Path:
    if config.run.tensorboard:
        progress = Several(progress, EventFiles(record.folder / "tensorboard"))
    with record.locked(), herd.engine, progress:
        record.add_environment(environment.describe(herd.engine.device))
        position = _position(record, herd, progress)  # (round, state): one name, so that no signal can part them
        if position[0] > config.run.rounds:
            raise UserError(f"{record.folder} has already reached round {position[0]}: ask for more rounds than that")
        record.replace_config(config)
        herd.engine.say = progress.note
        judge = judge_of(config, herd.engine.device, progress.note)
        progress.start(record.folder, config.run.rounds, position[0], herd.engine.size)
        try:
            for t in range(position[0] + 1, config.run.rounds + 1):
                position = t, _round(record, herd, position[1], t, progress)
                last = t == config.run.rounds
                if last or t % config.run.sample_every == 0:
                    write_grid(herd.model(position[1], t), record.sample_path(t))
                if judge is not None and (last or t % config.scores.every == 0):
                    score_round(record, herd.model(position[1], t), judge, config.scores.samples, progress.note)
                if last or t % config.run.checkpoint_every == 0:
                    record.save(*position, keep=config.run.keep_checkpoints)
        except KeyboardInterrupt:
            record.save(*position, keep=config.run.keep_checkpoints)
            report.write(record.folder)
            sentence = f"stopped after round {position[0]}; go on with: remuda resume {record.folder}"
            raise Interrupted(sentence) from None
        except OSError as error:
            raise UserError(
                f"{record.folder} could not be written to ({error}): make room there or check its permissions, then "
                f"go on with: remuda resume {record.folder}; nothing that was saved is lost"
            ) from None
        report.write(record.folder)
    return record.folder


def _position(record: Record, herd: Herd, progress: Progress) -> tuple[int, Any]:
    """The newest intact state of a run, the initial one if nothing was saved yet."""
    checkpoint, complaints = record.newest()
    for complaint in complaints:
        progress.note(f"{complaint}; going back to an older one")
    if checkpoint is None and complaints:
        raise UserError(f"no checkpoint of {record.folder} is intact: start anew with another --out")
    reached = checkpoint.round if checkpoint else 0
    state = herd.restore(checkpoint, record.config.run.members) if checkpoint else herd.start()
    record.forget_rounds_after(reached)
    return reached, state


def _round(record: Record, herd: Herd, state: Any, t: int, progress: Progress) -> Any:
    began = time.perf_counter()
    state, metrics = herd.round(state, t)
    seconds = time.perf_counter() - began
    _refuse_divergence(metrics, herd, t, record)
    traffic = herd.traffic()
    line = {
        "round": t,
        **metrics,
        "seconds": round(seconds, 4),
        "images": t * herd.images_per_round,
        "images_per_second": round(herd.images_per_round / seconds, 1),
        "bytes": sum(traffic.values()),
        "traffic": traffic,
    }
    record.add_round(line)
    progress.round(line)
    return state


def _refuse_divergence(metrics: dict[str, list[float]], herd: Herd, t: int, record: Record) -> None:
    for name, values in metrics.items():
        for member, value in zip(herd.engine.members, values, strict=True):
            if not math.isfinite(value):
                raise UserError(
                    f"{name} of member {member} became {value} in round {t}: lower the learning rates or change the "
                    f"loss with --set; earlier checkpoints of {record.folder} are intact"
                )

"""What is written down of a run, and shown of it; that is rank 0's alone."""

import math
import platform
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from remuda import environment, report
from remuda.checkpoints import Checkpoint
from remuda.config import RunConfig
from remuda.errors import UserError
from remuda.herd import Herd
from remuda.progress import EventFiles, Progress, Several, Silent
from remuda.record import Record
from remuda.samples import write_grid
from remuda.scoring import judge_of, score_round


class Bystander:
    """At the other ranks: writes nothing, and finds nothing."""

    written: int = 0  # the last round that is in the record, of this process

    def newest(self) -> Checkpoint | None:
        """The newest intact checkpoint."""
        return None

    def begin(self, reached: int) -> None:
        """Training goes on from that round."""

    def round(self, t: int, metrics: dict[str, list[float]], seconds: float) -> None:
        """What round t has brought, of all members."""

    def keep(self, t: int, state: Any) -> None:
        """What is due after round t: pictures, scores, a checkpoint; state is that of the whole herd."""

    def save(self, t: int, state: Any) -> None: ...

    def end(self) -> None:
        """Nothing more comes."""

    def __enter__(self):
        return self

    def __exit__(self, *exception: Any) -> None: ...


class Scribe(Bystander):
    def __init__(self, record: Record, config: RunConfig, herd: Herd, progress: Progress):
        if config.run.tensorboard:
            progress = Several(progress, EventFiles(record.folder / "tensorboard"))
        self.record, self.config, self.herd, self.progress = record, config, herd, progress
        self.judge = None

    def __enter__(self):
        with ExitStack() as stack:
            stack.enter_context(self.record.locked())
            stack.enter_context(self.progress)
            self.held = stack.pop_all()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.held.__exit__(*exception)

    def newest(self) -> Checkpoint | None:
        checkpoint, complaints = self.record.newest()
        for complaint in complaints:
            self.progress.note(f"{complaint}; going back to an older one")
        if checkpoint is None and complaints:
            raise UserError(f"no checkpoint of {self.record.folder} is intact: start anew with another --out")
        return checkpoint

    def begin(self, reached: int) -> None:
        self.record.forget_rounds_after(reached)
        if reached > self.config.run.rounds:
            raise UserError(f"{self.record.folder} has already reached round {reached}: ask for more rounds than that")
        engine = self.herd.engine
        self.record.add_environment({**environment.describe(engine.device), "ranks": engine.num_ranks})
        self.record.replace_config(self.config)
        engine.say = self.progress.note
        data = self.config.data.at(0, platform.node())
        self.judge = judge_of(replace(self.config, data=data), engine.device, self.progress.note)
        self.progress.start(self.record.folder, self.config.run.rounds, reached, engine.size)

    def round(self, t: int, metrics: dict[str, list[float]], seconds: float) -> None:
        self._refuse_divergence(metrics, t)
        herd, traffic = self.herd, self.herd.traffic()
        line = {
            "round": t,
            **metrics,
            "seconds": round(seconds, 4),
            "images": t * herd.images_per_round,
            "images_per_second": round(herd.images_per_round / seconds, 1),
            "bytes": sum(traffic.values()),
            "traffic": traffic,
        }
        if routines := herd.routines():
            line["routines"] = routines
        self.record.add_round(line)
        self.progress.round(line)
        self.written = t

    def _refuse_divergence(self, metrics: dict[str, list[float]], t: int) -> None:
        for name, values in metrics.items():
            for member, value in enumerate(values):
                if not math.isfinite(value):
                    raise UserError(
                        f"{name} of member {member} became {value} in round {t}: lower the learning rates or change "
                        f"the loss with --set; earlier checkpoints of {self.record.folder} are intact"
                    )

    def keep(self, t: int, state: Any) -> None:
        run, scores = self.config.run, self.config.scores
        if is_due(t, run.sample_every, run.rounds):
            write_grid(self.herd.model(state, t), self.record.sample_path(t))
        if self.judge is not None and is_due(t, scores.every, run.rounds):
            score_round(self.record, self.herd.model(state, t), self.judge, scores.samples, self.progress.note)
        if is_due(t, run.checkpoint_every, run.rounds):
            self.save(t, state)

    def save(self, t: int, state: Any) -> None:
        self.record.save(t, state, keep=self.config.run.keep_checkpoints)

    def end(self) -> None:
        report.write(self.record.folder)


def is_due(t: int, every: int, last: int) -> bool:
    """Whether something that is done every so many rounds, and after the last, is done after round t; 0: never."""
    return every > 0 and (t == last or t % every == 0)


def anything_due(t: int, config: RunConfig) -> bool:
    run = config.run
    return any(is_due(t, every, run.rounds) for every in (run.sample_every, config.scores.every, run.checkpoint_every))


def scribe_of(record: Record, config: RunConfig, herd: Herd, progress: Progress | None) -> Bystander:
    return Scribe(record, config, herd, progress or Silent()) if herd.engine.is_root else Bystander()

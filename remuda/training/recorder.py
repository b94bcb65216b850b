"""What is written down of a run, and shown of it; that is rank 0's alone."""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from remuda.config import RunConfig
from remuda.engines.communicator import Lost
from remuda.errors import Interrupted, UserError
from remuda.model.samples import write_grid
from remuda.model.scoring import make_evaluator, score_round
from remuda.record import Record, environment
from remuda.record.checkpoints import Checkpoint
from remuda.reports import page as report
from remuda.system.text import count
from remuda.training.assemble import Herd
from remuda.training.progress import EventFiles, Progress, Several, Silent


class Bystander:
    """At the other ranks: writes nothing, and finds nothing."""

    written: int = 0  # the last round that is in the record, of this process

    def newest(self) -> Checkpoint | None:
        """The newest intact checkpoint."""
        return None

    def follow(self, config: RunConfig, herd: Herd) -> None:
        """The herd after a loss."""

    def begin(self, reached: int) -> None:
        """Training goes on from that round."""

    def lose(self, ranks: Sequence[Lost], members: Sequence[int], t: int, action: str) -> None:
        """Ranks were lost after round t, with members of these numbers."""

    def round(self, t: int, metrics: dict[str, list[float]], seconds: float) -> None:
        """What round t has brought, of all members."""

    def show(self, t: int, state: Any) -> None:
        """Pictures and scores that are due after round t, if they are not there yet; state is the whole herd's."""

    def save(self, t: int, state: Any) -> None: ...

    def end(self) -> None:
        """Nothing more comes."""

    def note(self, text: str) -> None:
        """A word to the user, from any thread."""

    def __enter__(self):
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None: ...


class Scribe(Bystander):
    def __init__(self, record: Record, config: RunConfig, herd: Herd, progress: Progress):
        if config.run.tensorboard:
            progress = Several(progress, EventFiles(record.folder / "tensorboard"))
        self.record, self.config, self.herd, self.progress = record, config, herd, progress
        self.evaluator = None
        self.has_begun = False

    def __enter__(self):
        with ExitStack() as stack:
            stack.enter_context(self.record.locked())
            stack.enter_context(self.progress)
            self.held = stack.pop_all()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.held.__exit__(kind, error, trace)
        is_refused = isinstance(error, UserError) and not isinstance(error, Interrupted)
        if is_refused and self.record.is_new and not self.has_begun:
            self.record.discard()  # so that the command can be given again, put right

    def newest(self) -> Checkpoint | None:
        checkpoint, complaints = self.record.newest()
        for complaint in complaints:
            self.progress.note(f"{complaint}; going back to an older one")
        if checkpoint is None and complaints:
            raise UserError(
                f"no checkpoint of {self.record.folder} is intact: start anew with another --out"
            )
        if checkpoint is not None and checkpoint.round > self.config.run.rounds:
            raise UserError(
                f"{self.record.folder} has already reached round {checkpoint.round}: ask for more rounds than that"
            )
        return checkpoint

    def follow(self, config: RunConfig, herd: Herd) -> None:
        self.config, self.herd = config, herd

    def begin(self, reached: int) -> None:
        self.record.forget_rounds_after(reached)
        engine = self.herd.engine
        if not self.has_begun:  # before anything is written down that may be refused
            config, num_labels = (
                replace(self.config, data=self.config.data.at_root()),
                self.herd.num_labels,
            )
            self.evaluator = make_evaluator(config, engine.device, self.progress.note, num_labels)
        self.record.add_environment(
            {**environment.describe(engine.device), "ranks": engine.num_ranks}
        )
        self.record.replace_config(self.config)
        engine.say = self.progress.note
        lines = self.record.last_rounds(1)
        self.images, self.written = lines[-1]["images"] if lines else 0, reached
        if self.has_begun:
            where = f"{count(engine.size, 'member')} on {count(engine.num_ranks, 'rank')}"
            start = f" from round {reached + 1}" if reached < self.config.run.rounds else ""
            return self.progress.note(f"going on{start} with {where}")
        self.has_begun = True
        self.progress.start(self.record.folder, self.config.run.rounds, reached, engine.size)

    def lose(self, ranks: Sequence[Lost], members: Sequence[int], t: int, action: str) -> None:
        numbers, hosts = [lost.rank for lost in ranks], [lost.host for lost in ranks]
        now = datetime.now(UTC).isoformat(timespec="seconds")
        line = {
            "round": t,
            "time": now,
            "ranks": numbers,
            "hosts": hosts,
            "members": list(members),
            "action": action,
        }
        self.record.add_failure(line)

    def round(self, t: int, metrics: dict[str, list[float]], seconds: float) -> None:
        self._refuse_divergence(metrics, t)
        herd, traffic = self.herd, self.herd.traffic()
        self.images += herd.images_per_round
        line = {
            "round": t,
            **metrics,
            "seconds": round(seconds, 4),
            "images": self.images,
            "images_per_second": round(herd.images_per_round / seconds, 1),
            "bytes": sum(traffic.values()),
            "traffic": traffic,
            "verbs": {verb: round(spent, 4) for verb, spent in herd.engine.verbs.items()},
            "calls": dict(herd.engine.calls),
        }
        if routines := herd.routines():
            line["routines"] = routines
        self.record.add_round(line)
        self.progress.round(line)
        self.written = t

    def _refuse_divergence(self, metrics: dict[str, list[float]], t: int) -> None:
        for name, values in metrics.items():
            for member, value in zip(self.herd.sites, values, strict=True):
                if not math.isfinite(value):
                    kept = (
                        f"; earlier checkpoints of {self.record.folder} are intact" if t > 1 else ""
                    )
                    raise UserError(
                        f"{name} of member {member} became {value} in round {t}: lower the learning rates or change "
                        f"the loss with --set{kept}"
                    )

    def show(self, t: int, state: Any) -> None:
        run, scores, path = self.config.run, self.config.scores, self.record.sample_path(t)
        if is_due(t, run.sample_every, run.rounds) and not path.exists():
            write_grid(self.herd.model(state, t), path)
        if (
            self.evaluator is not None
            and is_due(t, scores.every, run.rounds)
            and not self.record.has_scores(t)
        ):
            score_round(
                self.record,
                self.herd.model(state, t),
                self.evaluator,
                scores.samples,
                self.progress.note,
            )

    def save(self, t: int, state: Any) -> None:
        run = self.config.run
        self.record.save(t, state, run.keep_checkpoints, self.herd.sites)

    def end(self) -> None:
        self.has_begun = True  # the user is told of it
        report.write(self.record.folder)

    def note(self, text: str) -> None:
        self.progress.note(text)


def is_due(t: int, every: int, last: int) -> bool:
    """Whether something that is done every so many rounds, and after the last, is done after round t; 0: never."""
    return every > 0 and (t == last or t % every == 0)


def is_show_due(t: int, config: RunConfig) -> bool:
    return any(
        is_due(t, every, config.run.rounds)
        for every in (config.run.sample_every, config.scores.every)
    )


def is_save_due(t: int, config: RunConfig) -> bool:
    return is_due(t, config.run.checkpoint_every, config.run.rounds)


def scribe_of(
    record: Record, config: RunConfig, herd: Herd, progress: Progress | None
) -> Bystander:
    return (
        Scribe(record, config, herd, progress or Silent()) if herd.engine.is_root else Bystander()
    )

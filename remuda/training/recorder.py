"""Record a run and report its progress. Only rank 0 does this."""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Self

from remuda.config import RunConfig
from remuda.engines import LostRank
from remuda.engines.racing import Arrival
from remuda.errors import Interrupted, UserError
from remuda.model.model import Model
from remuda.model.pictures import save_grid
from remuda.model.samples import draw_grid
from remuda.model.scoring import make_evaluator, score_round
from remuda.record import Record, environment
from remuda.record.checkpoints import Checkpoint
from remuda.reports import page as report
from remuda.system.background import Background
from remuda.system.stopwatch import Stopwatch
from remuda.system.text import count
from remuda.training.herd import Herd
from remuda.training.progress import EventFiles, Progress, Several

BACKLOG = 4  # pictures that may wait to be written


class NoRecorder:
    """The recorder of every rank except rank 0. It writes nothing."""

    written: int = 0  # the last round that this process has recorded

    def check(self, checkpoint: Checkpoint | None, problems: Sequence[str]) -> None:
        """Report damaged checkpoints. Raise if the run cannot continue from this one."""

    def follow(self, config: RunConfig, herd: Herd) -> None:
        """Record this herd from now on."""

    def begin(self, reached: int) -> None:
        """Announce that training continues after this round."""

    def fail(self, ranks: Sequence[LostRank], members: Sequence[int], t: int, action: str) -> None:
        """Record that these ranks, which hosted these member ids, were lost after round t."""

    def round(
        self,
        t: int,
        metrics: dict[str, list[float]],
        seconds: float,
        arrivals: Sequence[Arrival] = (),
    ) -> None:
        """Record the metrics of all members in round t, and the arrivals of a race."""

    def show(self, model: Model) -> None:
        """Draw the samples and compute the scores that are due after a round but missing.

        Every rank generates the images of its own members.
        """
        with model.communicator.interruptible():
            model.assist()

    def finish(self) -> None:
        """Wait until all pictures are written. Any thread may call this."""

    def end(self) -> None:
        """Write the report page at the end of the run."""

    def note(self, text: str) -> None:
        """Show the user a message. Any thread may call this."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        return None


class Recorder(NoRecorder):
    """The recorder of rank 0."""

    def __init__(
        self,
        record: Record,
        config: RunConfig,
        herd: Herd,
        progress: Progress,
        stopwatch: Stopwatch | None = None,
    ):
        if config.run.tensorboard:
            progress = Several(progress, EventFiles(record.folder / "tensorboard"))
        self.stopwatch = stopwatch or Stopwatch()
        self.record, self.config, self.herd, self.progress = record, config, herd, progress
        self.evaluator = None
        self.images = 0  # real images that the members have used so far
        self.has_begun = False
        self.pictures = Background("pictures", BACKLOG)
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.record.locked())
            stack.enter_context(self.progress)
            stack.enter_context(self.pictures)
            self._resources = stack.pop_all()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._resources.__exit__(kind, error, trace)
        is_refused = isinstance(error, UserError) and not isinstance(error, Interrupted)
        if is_refused and self.record.is_new and not self.has_begun:
            self.record.discard()  # so that the corrected command can use the same folder

    def check(self, checkpoint: Checkpoint | None, problems: Sequence[str]) -> None:
        for problem in problems:
            self.progress.note(f"{problem}; using an older one")
        folder = self.record.folder
        if checkpoint is None and problems:
            raise UserError(
                f"{folder} has no intact checkpoint: start a new run with another --out"
            )
        if checkpoint is not None and checkpoint.round > self.config.run.rounds:
            raise UserError(
                f"{folder} has already reached round {checkpoint.round}: choose a larger "
                "number of rounds"
            )

    def follow(self, config: RunConfig, herd: Herd) -> None:
        self.config, self.herd = config, herd

    def begin(self, reached: int) -> None:
        self.pictures.wait()  # a later round's picture may be among them
        self.record.forget_rounds_after(reached)
        engine, num_ranks = self.herd.engine, self.herd.communicator.num_ranks
        if not self.has_begun:  # may raise, so it comes before anything is written
            config = replace(self.config, data=self.config.data.at_root())
            with self.herd.communicator.interruptible():
                self.evaluator = make_evaluator(
                    config, engine.device, self.progress.note, self.herd.num_labels
                )
        facts = {**environment.describe(engine.device), "ranks": num_ranks}
        self.record.add_environment(facts)
        self.record.replace_facts(self.herd.facts)  # other ranks or new members bring other data
        self.record.replace_config(self.config)
        lines = self.record.last_rounds(1)
        self.images, self.written = lines[-1]["images"] if lines else 0, reached
        rounds = self.config.run.rounds
        if not self.has_begun:
            self.has_begun = True
            self.progress.start(self.record.folder, rounds, reached, engine.size)
            self.stopwatch.add("start", self.stopwatch.total)
            return
        where = f"{count(engine.size, 'member')} on {count(num_ranks, 'rank')}"
        start = f" from round {reached + 1}" if reached < rounds else ""
        self.progress.note(f"continuing{start} with {where}")

    def fail(self, ranks: Sequence[LostRank], members: Sequence[int], t: int, action: str) -> None:
        self.record.add_failure(
            {
                "round": t,
                "time": datetime.now(UTC).isoformat(timespec="seconds"),
                "ranks": [lost.rank for lost in ranks],
                "hosts": [lost.host for lost in ranks],
                "members": list(members),
                "action": action,
            }
        )

    def round(
        self,
        t: int,
        metrics: dict[str, list[float]],
        seconds: float,
        arrivals: Sequence[Arrival] = (),
    ) -> None:
        self.pictures.check()
        self.record.check_lock()
        self.stopwatch.add("rounds", seconds)
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
        if arrivals:
            self.record.add_arrivals(t, arrivals)
        self.record.add_round(line)
        self.written = t
        self.progress.round(line)

    def _refuse_divergence(self, metrics: dict[str, list[float]], t: int) -> None:
        for name, values in metrics.items():
            for member, value in zip(self.herd.member_ids, values, strict=True):
                if not math.isfinite(value):
                    folder = self.record.folder
                    intact = f"; earlier checkpoints of {folder} are intact" if t > 1 else ""
                    raise UserError(
                        f"{name} of member {member} became {value} in round {t}: lower the "
                        f"learning rates or change the loss with --set{intact}"
                    )

    def show(self, model: Model) -> None:
        t, run, scores = model.round, self.config.run, self.config.scores
        with self.stopwatch.timed("show"):
            path = self.record.sample_path(t)
            if is_due(t, run.sample_every, run.rounds) and not path.exists():
                with model.communicator.interruptible():
                    images, columns = draw_grid(model)
                self.pictures.submit(lambda: save_grid(images, columns, path))
            evaluator = self.evaluator
            is_score_due = is_due(t, scores.every, run.rounds) and not self.record.has_scores(t)
            if evaluator is not None and is_score_due:
                score_round(self.record, model, evaluator, scores.samples, self.progress.note)
            model.dismiss()

    def finish(self) -> None:
        self.pictures.wait()

    def end(self) -> None:
        with self.stopwatch.timed("show"):
            self.finish()
        self._record_seconds()  # the page shows them
        with self.stopwatch.timed("page"):
            report.write(self.record.folder)
        self._record_seconds()
        self.has_begun = True  # a message has named the folder, so keep it

    def _record_seconds(self) -> None:
        if self.has_begun:  # otherwise, environment.json has no entry for this start
            self.record.set_seconds(self.stopwatch.report())

    def note(self, text: str) -> None:
        self.progress.note(text)


def is_due(t: int, every: int, last: int) -> bool:
    """Return whether t is a multiple of ``every`` or the last round. ``every=0`` means never."""
    return every > 0 and (t == last or t % every == 0)


def is_show_due(t: int, config: RunConfig) -> bool:
    """Return whether samples or scores are due after round t."""
    rounds = config.run.rounds
    return is_due(t, config.run.sample_every, rounds) or is_due(t, config.scores.every, rounds)


def new_recorder(
    record: Record, config: RunConfig, herd: Herd, progress: Progress, stopwatch: Stopwatch
) -> NoRecorder:
    """Return the recorder of this rank."""
    if herd.communicator.is_root:
        return Recorder(record, config, herd, progress, stopwatch)
    return NoRecorder()

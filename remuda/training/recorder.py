"""Record a run and report its progress. Only rank 0 does this."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Self

from remuda.config import RunConfig, to_dict
from remuda.config.describe import packages
from remuda.engines import LostRank
from remuda.engines.racing import Arrival
from remuda.errors import Interrupted, UserError
from remuda.model.model import Model
from remuda.model.pictures import save_grid
from remuda.model.samples import draw_cells, draw_grid
from remuda.model.scoring import make_evaluator, num_trained_classes, score_round
from remuda.model.sources import make_sites
from remuda.record import Record, environment
from remuda.record.checkpoints import Checkpoint
from remuda.record.endings import Ending
from remuda.reports import page as report
from remuda.scores import Evaluator
from remuda.scores.sites import Sites
from remuda.system.background import Background
from remuda.system.stopwatch import Stopwatch
from remuda.system.text import count
from remuda.training.herd import Herd
from remuda.training.lines import make_line, refuse_divergence
from remuda.training.pace import is_due, is_overlapped
from remuda.training.paging import Pages
from remuda.training.progress import Progress, Several
from remuda.training.stopping import Stopping, nothing_left
from remuda.training.tracking import Tracking

BACKLOG = 4  # pictures that may wait to be written


class NoRecorder:
    """The recorder of every rank except rank 0. It writes nothing."""

    written: int = 0  # the last round that this process has recorded
    ending: Ending | None = None  # why the run ends early, with the last recorded round
    sites: Sites | None = None  # if each rank has its own data, and the run has scores

    def __init__(self, config: RunConfig, herd: Herd):
        self.config, self.herd = config, herd

    def check(self, checkpoint: Checkpoint | None, problems: Sequence[str]) -> None:
        """Report damaged checkpoints. Raise if the run cannot continue from this one."""

    def follow(self, config: RunConfig, herd: Herd) -> None:
        """Record this herd from now on."""
        self.config, self.herd = config, herd

    def begin(self, reached: int) -> None:
        """Announce that training continues after this round, and prepare its scores."""
        herd = self.herd
        with herd.communicator.interruptible():
            self.sites = make_sites(self.config, herd.communicator, herd.engine.device, self.note)
            if self.sites is not None:
                self.sites.open()

    def fail(self, ranks: Sequence[LostRank], members: Sequence[int], t: int, action: str) -> None:
        """Record that these ranks, which hosted these member ids, were lost after round t."""

    def round(
        self,
        t: int,
        values: dict[str, Any],
        seconds: float,
        arrivals: Sequence[Arrival] = (),
    ) -> None:
        """Record what ``Herd.report`` returns for round t, and the arrivals of a race."""

    def show(self, model: Model, is_last: bool) -> None:
        """Draw the samples and compute the scores that are due after a round but missing.

        Every rank generates the images of its own members.
        """
        with model.communicator.interruptible():
            model.assist({} if self.sites is None else {"score": self.sites.answer})

    def finish(self) -> None:
        """Wait until all pictures and scores are written. Any thread may call this."""

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
        if config.run.trackers:
            tracking = Tracking(config.run.trackers, record, progress.note)
            progress = Several(tracking, progress)
        self.stopwatch = stopwatch or Stopwatch()
        super().__init__(config, herd)
        self.record, self.progress = record, progress
        self.evaluator: Evaluator | None = None
        self.images = 0  # real images that the members have used so far
        self.has_begun = False
        self.pictures = Background("pictures", BACKLOG)
        self.scoring = Background("scores")
        self.pages = Pages(record, progress.note)
        self.stopping = Stopping(record, self.scoring)
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.push(self._discard_if_refused)
            stack.enter_context(self.record.locked())
            stack.enter_context(self.progress)
            stack.enter_context(self.pages.thread)
            stack.enter_context(self.pictures)
            stack.enter_context(self.scoring)
            self._resources = stack.pop_all()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._resources.__exit__(kind, error, trace)

    def _discard_if_refused(self, kind: Any, error: BaseException | None, trace: Any) -> None:
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

    def begin(self, reached: int) -> None:
        self.finish()  # pictures and scores of later rounds may be among them
        self.record.forget_rounds_after(reached)
        engine, communicator = self.herd.engine, self.herd.communicator
        # This may raise, so it comes before anything is written. Lost ranks take their data along.
        if not self.has_begun or self.config.data.is_per_rank:
            with communicator.interruptible():
                self.sites = make_sites(self.config, communicator, engine.device, self.note)
                self.evaluator = make_evaluator(
                    self.config,
                    engine.device,
                    self.progress.note,
                    self.herd.num_labels,
                    num_trained_classes(self.config, engine.size, len(self.herd.facts.classes)),
                    self.sites,
                )
        if self.evaluator is not None:  # record the whole name of the score
            run = replace(self.config.run, keep_best=self.evaluator.chosen)
            self.config = replace(self.config, run=run)
        facts = {**environment.describe(engine.device), "ranks": communicator.num_ranks}
        if offered := packages(to_dict(self.config)):
            facts["parts"] = offered
        self.record.add_environment(facts)
        self.record.replace_facts(self.herd.facts)  # other ranks or new members bring other data
        self.record.replace_config(self.config)
        lines = self.record.last_rounds(1)
        self.images, self.written = lines[-1]["images"] if lines else 0, reached
        self.ending = self.stopping.begin(self.config, reached)
        self._announce(reached)

    def _announce(self, reached: int) -> None:
        rounds, size = self.config.run.rounds, self.herd.engine.size
        if self.has_begun:
            self.progress.rewind(reached, size)
            where = f"{count(size, 'member')} on {count(self.herd.communicator.num_ranks, 'rank')}"
            start = f" from round {reached + 1}" if reached < rounds else ""
            self.progress.note(f"continuing{start} with {where}")
            return
        self.has_begun = True
        last = rounds if self.ending is None else reached
        self.progress.start(self.record.folder, last, reached, size)
        if reached >= last:
            self.progress.note(nothing_left(self.record.folder, reached, self.ending))
        self.stopwatch.add("start", self.stopwatch.total)

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
        values: dict[str, Any],
        seconds: float,
        arrivals: Sequence[Arrival] = (),
    ) -> None:
        self.pictures.check()
        self.scoring.check()
        self.record.check_lock()
        self.stopwatch.add("rounds", seconds)
        refuse_divergence(self.herd, t, values, self.record.folder)
        self.images += self.herd.images_per_round
        line = make_line(self.herd, t, values, seconds, self.images)
        if arrivals:
            self.record.add_arrivals(t, arrivals)
        self.record.add_round(line)
        self.written = t
        self.progress.round(line)
        self.pages.round(self.stopwatch.total)
        self.ending = self.stopping.round(self.config, t, line["seconds"])
        if self.ending is not None:
            self.note(f"{self.ending.why}, with round {t}")

    def show(self, model: Model, is_last: bool) -> None:
        t, run, scores = model.round, self.config.run, self.config.scores
        with self.stopwatch.timed("show"):
            is_missing = not self.record.sample_path(t).exists()
            if is_due(t, run.sample_every, is_last) and is_missing:
                self._draw(model)
            evaluator = self.evaluator
            is_score_due = is_due(t, scores.every, is_last) and not self.record.has_scores(t)
            if evaluator is not None and is_score_due:
                is_overlapping = is_overlapped(model.engine.device) and self.sites is None
                later = self.scoring if is_overlapping else None
                note = self.progress.note
                score_round(self.record, model, evaluator, scores.samples, note, later)
            model.dismiss()

    def _draw(self, model: Model) -> None:
        """Draw the samples of a round, and write their pictures in the background."""
        t, drawn = model.round, {}
        with model.communicator.interruptible():
            # The sample grid comes last: if it exists, the other picture does as well.
            if model.strategy.grid is not None:
                drawn[self.record.cell_path(t)] = draw_cells(model)
            drawn[self.record.sample_path(t)] = draw_grid(model)

        def write() -> None:
            for path, (images, columns) in drawn.items():
                path.parent.mkdir(exist_ok=True)
                save_grid(images, columns, path)

        self.pictures.submit(write)

    def finish(self) -> None:
        self.pictures.wait()
        self.scoring.wait()

    def end(self) -> None:
        with self.stopwatch.timed("show"):
            self.finish()
        self._record_seconds()  # the page shows them
        with self.stopwatch.timed("page"):
            self.pages.wait()
            report.write(self.record.folder)
        self._record_seconds()
        self.has_begun = True  # a message has named the folder, so keep it

    def _record_seconds(self) -> None:
        if self.has_begun:  # otherwise, environment.json has no entry for this start
            self.record.set_seconds(self.stopwatch.report())

    def note(self, text: str) -> None:
        self.progress.note(text)


def new_recorder(
    record: Record, config: RunConfig, herd: Herd, progress: Progress, stopwatch: Stopwatch
) -> NoRecorder:
    """Return the recorder of this rank."""
    if herd.communicator.is_root:
        return Recorder(record, config, herd, progress, stopwatch)
    return NoRecorder(config, herd)

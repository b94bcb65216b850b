"""Measure a few short rounds of a run on this machine, and predict the cost of the whole run.

Starting, saving and drawing samples are measured by doing them in a temporary run folder.
"""

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from remuda.config import RunConfig
from remuda.errors import UserError
from remuda.experiments.expectation import Expectation, Repeated
from remuda.experiments.saves import time_saves
from remuda.experiments.timing import Track, rounds_per_exchange, time_programs, time_rounds
from remuda.model.samples import draw_grid
from remuda.model.scoring import score_round
from remuda.record import Record
from remuda.system.text import Notify, ignore
from remuda.tensors import trees
from remuda.training.assemble import assemble, pytorch_settings
from remuda.training.herd import Herd
from remuda.training.progress import Progress
from remuda.training.recorder import Recorder

REPEATS = 3  # timed repetitions, of which the median counts, after one to warm up
QUICK = 1.0  # seconds: work that takes less is repeated
FEW_IMAGES = 500  # for a first evaluation that only fills caches


def measure(config: RunConfig, notify: Notify = ignore, process: float = 0.0) -> Expectation:
    """Train a few short rounds, and extrapolate to the whole run.

    The prediction includes ``process``, the seconds that a process of the run needs before it
    begins to assemble the run.
    """
    with pytorch_settings(config.engine):
        began = time.perf_counter()
        herd = assemble(config, notify=notify)
        state = herd.start()
        with _scratch_recorder(config, herd, notify) as recorder:
            recorder.begin(0)
            start = process + time.perf_counter() - began
            return _measure(herd, config, Track(state, recorder), start)


def _measure(herd: Herd, config: RunConfig, track: Track, start: float) -> Expectation:
    device, rounds = herd.engine.device, config.run.rounds
    exchange_every = rounds_per_exchange(herd)
    if device.type == "cuda":
        timing = time_programs(track, herd, config, exchange_every)
    else:
        timing = time_rounds(track, herd, exchange_every)
    memory = _memory(device)  # before scores, which the device computes between rounds
    per_round = timing.per_round + timing.per_exchange / exchange_every
    folder = track.recorder.record.folder / "checkpoints"
    seconds = per_round + herd.num_steps * timing.per_step
    saves, last_save = time_saves(herd, config, folder, track.state, seconds)
    return Expectation(
        device=str(device),
        start=start,
        warm_up=timing.warm_up,
        per_step=timing.per_step,
        per_round=per_round,
        num_steps=herd.num_steps,
        rounds=rounds,
        images_per_round=herd.images_per_round,
        saves=saves,
        samples=_time_samples(herd, config, track),
        scores=_time_scores(herd, config, track),
        end=last_save + _seconds(track.recorder.end),
        state=trees.num_bytes(track.state),
        memory=memory,
        switch=timing.switch,
    )


# Starting, saving, samples, scores


@contextmanager
def _scratch_recorder(config: RunConfig, herd: Herd, notify: Notify) -> Iterator[Recorder]:
    """Record a run in a temporary folder, on the disk that runs are written to by default."""
    try:
        scratch = tempfile.TemporaryDirectory(prefix=".remuda-bench-", dir=Path.cwd())
    except OSError as error:
        raise UserError(
            f"cannot measure how long saving takes, because {Path.cwd()} is not writable "
            f"({error.strerror}): change to the folder in which you will train"
        ) from None
    with scratch as folder:
        record = Record.create(Path(folder) / "run", config, herd.facts)
        with Recorder(record, config, herd, _Notes(notify)) as recorder:
            yield recorder


class _Notes(Progress):
    """Forwards messages about slow operations."""

    def __init__(self, notify: Notify):
        self.notify = notify

    def note(self, text: str) -> None:
        self.notify(text)


def _time_samples(herd: Herd, config: RunConfig, track: Track) -> Repeated:
    """Time generating a grid; a run writes it in the background."""

    def draw() -> None:
        draw_grid(herd.model(track.state, next(track.numbers)))

    return _repeat(draw, _times(config.run.sample_every, config.run.rounds))


def _time_scores(herd: Herd, config: RunConfig, track: Track) -> Repeated:
    """Time an evaluation, after one that computes what the cache lacks about the real images."""
    recorder, model = track.recorder, herd.model(track.state, next(track.numbers))
    evaluator, samples = recorder.evaluator, config.scores.samples
    if evaluator is None:
        return Repeated(0, 0.0)
    score_round(recorder.record, model, evaluator, min(FEW_IMAGES, samples), ignore)
    seconds = _seconds(lambda: score_round(recorder.record, model, evaluator, samples, ignore))
    return Repeated(_times(config.scores.every, config.run.rounds), seconds)


def _times(every: int, rounds: int) -> int:
    """Return how often something is due that is due every few rounds and after the last one."""
    return -(-rounds // every) if every else 0


def _repeat(work: Callable[[], object], times: int) -> Repeated:
    """Time work once, and again unless it is slow."""
    seconds = [_seconds(work)]
    while len(seconds) <= REPEATS and sum(seconds) < QUICK:
        seconds.append(_seconds(work))
    each = statistics.median(seconds[1:] or seconds)
    return Repeated(times, each, max(0.0, seconds[0] - each))


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


# Memory


def _memory(device: torch.device) -> int:
    """Return the peak of the GPU's memory since the last reset, or of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

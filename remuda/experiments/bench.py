"""Measure a few short rounds of a run on this machine, and predict the cost of the whole run.

A round of n steps takes a + b * n seconds: some work, such as the fitness and the mixture of a
cell, does not depend on the number of steps. Rounds of two lengths give a and b. Starting, saving
and drawing samples are measured by doing them in a temporary run folder.
"""

import itertools
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from remuda.config import RunConfig
from remuda.engines import Metered
from remuda.errors import UserError
from remuda.experiments.expectation import Expectation, Repeated
from remuda.model.samples import write_grid
from remuda.model.scoring import score_round
from remuda.record import Record
from remuda.system.text import Notify, ignore
from remuda.tensors import trees
from remuda.training.assemble import assemble, make_engine, pytorch_settings
from remuda.training.herd import Herd
from remuda.training.progress import Progress
from remuda.training.recorder import Recorder

REPEATS = 3  # timed repetitions, of which the median counts, after one to warm up
ENOUGH = 1.0  # seconds: a longer round must take this much more than a round of one step
GROWTH = 3  # how many times as many steps the next longer round has
FEW_IMAGES = 500  # for a first evaluation that only fills caches
AFFORDABLE = 20.0  # seconds that the steps of a timed, compiled round may take if uncompiled


class Timing(NamedTuple):
    """The seconds of rounds."""

    per_round: float  # of the work that does not depend on the number of steps
    per_step: float
    per_exchange: float = 0.0  # additional seconds of the rounds that end with an exchange
    warm_up: float = 0.0  # additional seconds of the first round


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


class Track:
    """Runs rounds of any length, one after the other, and records and times them."""

    def __init__(self, state: Any, recorder: Recorder):
        self.state, self.recorder = state, recorder
        self.numbers = itertools.count(1)

    def time(self, herd: Herd, t: int) -> float:
        """Run round t of a herd, and return its seconds."""
        began = time.perf_counter()
        self.state, metrics = herd.round(self.state, t)
        spent = time.perf_counter() - began
        self.recorder.round(next(self.numbers), metrics, spent)
        return time.perf_counter() - began


def _measure(herd: Herd, config: RunConfig, track: Track, start: float) -> Expectation:
    device, rounds = herd.engine.device, config.run.rounds
    exchange_every = rounds_per_exchange(herd)
    if config.engine.compile and device.type == "cuda":
        # Each length of a round is a program of its own, so compile only one.
        timing = time_rounds(track, _uncompiled(herd, config), exchange_every)
        _reset_memory(device)
        timing = time_compiled_rounds(track, herd, timing, exchange_every)
    else:
        _reset_memory(device)
        timing = time_rounds(track, herd, exchange_every)
    memory = _memory(device)  # before scores, which the device computes between rounds
    return Expectation(
        device=str(device),
        start=start,
        warm_up=timing.warm_up,
        per_step=timing.per_step,
        per_round=timing.per_round + timing.per_exchange / exchange_every,
        num_steps=herd.num_steps,
        rounds=rounds,
        images_per_round=herd.images_per_round,
        saves=_time_saves(herd, config, track),
        samples=_time_samples(herd, config, track),
        scores=_time_scores(herd, config, track),
        end=_seconds(track.recorder.end),
        state=trees.num_bytes(track.state),
        memory=memory,
    )


# Rounds


def time_rounds(track: Track, herd: Herd, exchange_every: int) -> Timing:
    """Time rounds of two lengths in turns, and separate the work per round and per step."""
    plain, exchange = exchange_every + 1, exchange_every
    short = shorten(herd, 1)
    first = track.time(short, plain)
    long = _longer(track, herd, short, plain)
    times: dict[str, list[float]] = {"short": [], "long": [], "exchange": []}
    for _ in range(REPEATS):
        times["short"].append(track.time(short, plain))
        times["long"].append(track.time(long, plain))
        if exchange_every > 1:
            times["exchange"].append(track.time(short, exchange))
    medians = {name: statistics.median(values) for name, values in times.items() if values}
    per_round, per_step = solve(
        (short.num_steps, medians["short"]), (long.num_steps, medians["long"])
    )
    per_exchange = max(0.0, medians.get("exchange", 0.0) - medians["short"])
    return Timing(per_round, per_step, per_exchange, max(0.0, first - medians["short"]))


def _longer(track: Track, herd: Herd, short: Herd, t: int) -> Herd:
    """Return the herd with rounds that take clearly more time than short ones, or with its own."""
    enough, long = track.time(short, t) + ENOUGH, short
    while long.num_batches < herd.num_batches:
        long = shorten(herd, GROWTH * long.num_steps)
        if track.time(long, t) >= enough:
            break
    return long


def solve(short: tuple[int, float], long: tuple[int, float]) -> tuple[float, float]:
    """Return the seconds per round and per step of two rounds, each (number of steps, seconds).

    If both rounds have the same length, all work counts as steps.
    """
    (few, quick), (many, slow) = short, long
    if few == many:
        return 0.0, slow / many
    per_step = max(0.0, slow - quick) / (many - few)
    # The longer round is closer to a real one, so the result must give exactly its time.
    per_round = max(0.0, slow - many * per_step)
    return per_round, (slow - per_round) / many


def time_compiled_rounds(
    track: Track, herd: Herd, uncompiled: Timing, exchange_every: int
) -> Timing:
    """Time compiled rounds of one length; take the work per round from uncompiled ones.

    The rounds are whole unless they have very many steps.
    """
    affordable = int(AFFORDABLE / max(uncompiled.per_step, 1e-9))
    long = shorten(herd, max(1, affordable))
    plain = exchange_every + 1
    first = track.time(long, plain)
    seconds = statistics.median(track.time(long, plain) for _ in range(REPEATS))
    per_round = min(uncompiled.per_round, seconds)
    return Timing(
        per_round,
        (seconds - per_round) / long.num_steps,
        uncompiled.per_exchange,
        max(0.0, first - seconds),
    )


def rounds_per_exchange(herd: Herd) -> int:
    """Return after how many rounds the members exchange rows again."""
    plan = herd.strategy.traffic_plan(herd.engine.size)
    return max(1, plan.epochs // plan.epochs_per_round)


def shorten(herd: Herd, num_steps: int) -> Herd:
    """Return the herd with rounds of about ``num_steps`` generator updates.

    If a strategy repeats a fixed pattern of updates, the round completes the last pattern. Rounds
    never become longer than those of the given herd.
    """
    num_batches = herd.strategy.batches_for(min(num_steps, herd.num_steps))
    return replace(herd, num_batches=min(num_batches, herd.num_batches))


def _uncompiled(herd: Herd, config: RunConfig) -> Herd:
    config = replace(config, engine=replace(config.engine, compile=False))
    device, size = herd.engine.device, herd.engine.size
    engine = make_engine(config, size, device, herd.communicator, ignore)
    return replace(herd, engine=Metered(engine))


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


def _time_saves(herd: Herd, config: RunConfig, track: Track) -> Repeated:
    whole = herd.collect(track.state)
    times = _times(config.run.checkpoint_every, config.run.rounds)
    return _repeat(lambda: track.recorder.save(next(track.numbers), whole), times)


def _time_samples(herd: Herd, config: RunConfig, track: Track) -> Repeated:
    whole, record = herd.collect(track.state), track.recorder.record

    def draw() -> None:
        t = next(track.numbers)
        write_grid(herd.model(whole, t), record.sample_path(t))

    return _repeat(draw, _times(config.run.sample_every, config.run.rounds))


def _time_scores(herd: Herd, config: RunConfig, track: Track) -> Repeated:
    """Time an evaluation, after one that computes what the cache lacks about the real images."""
    recorder, model = track.recorder, herd.model(herd.collect(track.state), next(track.numbers))
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
    while len(seconds) <= REPEATS and sum(seconds) < ENOUGH:
        seconds.append(_seconds(work))
    each = statistics.median(seconds[1:] or seconds)
    return Repeated(times, each, max(0.0, seconds[0] - each))


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


# Memory


def _reset_memory(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def _memory(device: torch.device) -> int:
    """Return the peak of the GPU's memory since the last reset, or of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

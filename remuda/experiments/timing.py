"""Time short rounds, and separate the work per step from the other work of a round.

A round of n steps takes a + b * n seconds: some work, such as the fitness and the mixture of a
cell, does not depend on the number of steps. Rounds of two lengths give a and b.
"""

import gc
import itertools
import statistics
import time
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from remuda.config import RunConfig
from remuda.engines import Metered
from remuda.engines.upgrades import WORTH
from remuda.experiments.expectation import Switch
from remuda.system.text import ignore
from remuda.training.assemble import make_engine, when_to_compile
from remuda.training.herd import Herd
from remuda.training.recorder import Recorder

REPEATS = 3  # timed rounds of each length, of which the median counts
ENOUGH = 1.0  # seconds: a longer round must take this much more than a round of one step
GROWTH = 3  # how many times as many steps the next longer round has
AFFORDABLE = 20.0  # seconds that the steps of a timed, compiled round may take if uncompiled


class Timing(NamedTuple):
    """The seconds of rounds."""

    per_round: float  # of the work that does not depend on the number of steps
    per_step: float
    per_exchange: float = 0.0  # additional seconds of the rounds that end with an exchange
    warm_up: float = 0.0  # additional seconds of the first round
    switch: Switch | None = None


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


# Programs on a GPU


def time_programs(track: Track, herd: Herd, config: RunConfig, exchange_every: int) -> Timing:
    """Time rounds on a GPU, where each length of a round is a program of its own.

    Compiling is slow, so rounds of two lengths run uncompiled, and one length runs as in the run.
    If the run compiles while it trains, it uses uncompiled steps for as long as compiling takes.
    """
    uncompiled = time_rounds(track, _with_engine(herd, config, compile=False), exchange_every)
    _reset_memory(herd.engine.device)
    when = when_to_compile(config.engine, herd.engine.device)
    first = uncompiled.per_round + herd.num_steps * uncompiled.per_step
    is_switched = when == "auto" and (config.run.rounds - 1) * first > WORTH
    is_compiled = when is True or is_switched
    own = _with_engine(herd, config, compile=is_compiled)
    timing = time_one_length(track, own, uncompiled, exchange_every)
    compiling = timing.warm_up if is_compiled else 0.0
    if not is_switched:
        return timing._replace(warm_up=uncompiled.warm_up + compiling)
    switch = Switch(first + compiling, uncompiled.per_step)  # compiling starts after round 1
    return timing._replace(warm_up=uncompiled.warm_up, switch=switch)


def time_one_length(track: Track, herd: Herd, uncompiled: Timing, exchange_every: int) -> Timing:
    """Time rounds of one length; take the work per round from uncompiled rounds.

    The rounds are whole unless they have very many steps.
    """
    affordable = int(AFFORDABLE / max(uncompiled.per_step, 1e-9))
    long, plain = shorten(herd, max(1, affordable)), exchange_every + 1
    first = track.time(long, plain)
    seconds = statistics.median(track.time(long, plain) for _ in range(REPEATS))
    per_round = min(uncompiled.per_round, seconds)
    return uncompiled._replace(
        per_round=per_round,
        per_step=(seconds - per_round) / long.num_steps,
        warm_up=max(0.0, first - seconds),
    )


def _with_engine(herd: Herd, config: RunConfig, *, compile: bool) -> Herd:
    """Return the herd with a new engine, which has no programs yet."""
    config = replace(config, engine=replace(config.engine, compile=compile))
    engine = make_engine(config, herd.spans, herd.engine.device, herd.communicator, ignore)
    return replace(herd, engine=Metered(engine))


def _reset_memory(device: torch.device) -> None:
    """Free the memory of earlier programs, and start a new peak."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)

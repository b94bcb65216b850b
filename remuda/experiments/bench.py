"""Measure a few steps of a run on this machine, and extrapolate the cost of the whole run."""

import resource
import statistics
import sys
import time
from dataclasses import dataclass, replace

import torch

from remuda.config import RunConfig
from remuda.system.text import Notify, count, duration, ignore
from remuda.training.assemble import assemble, pytorch_settings
from remuda.training.herd import Herd

REPEATS = 3  # timed stretches, of which the median counts, after one to compile


@dataclass(frozen=True)
class Expectation:
    """The cost of a run, extrapolated from a few of its steps."""

    device: str
    first: float  # seconds of the first stretch of steps, including compilation
    step: float  # seconds of one generator update of every member
    num_steps: int  # generator updates per round
    rounds: int
    images_per_second: float
    memory: int  # bytes, of the GPU or of the process

    @property
    def total(self) -> float:
        """Seconds of the whole run."""
        return self.first + self.step * self.num_steps * self.rounds


def measure(config: RunConfig, num_steps: int = 4, notify: Notify = ignore) -> Expectation:
    """Time stretches of about ``num_steps`` generator updates, and extrapolate to the whole run."""
    with pytorch_settings(config.engine):
        return _measure(assemble(config, notify=notify), config, num_steps)


def _measure(whole: Herd, config: RunConfig, num_steps: int) -> Expectation:
    herd = shorten(whole, num_steps)
    state, seconds = herd.start(), []
    for t in range(1, REPEATS + 2):
        started = time.perf_counter()
        state, _ = herd.round(state, t)
        seconds.append(time.perf_counter() - started)
    stretch = statistics.median(seconds[1:])
    return Expectation(
        device=str(herd.engine.device),
        first=seconds[0],
        step=stretch / herd.num_steps,
        num_steps=whole.num_steps,
        rounds=config.run.rounds,
        images_per_second=herd.images_per_round / stretch,
        memory=_memory(herd),
    )


def shorten(herd: Herd, num_steps: int) -> Herd:
    """Return the herd with rounds of about ``num_steps`` generator updates.

    If a strategy repeats a fixed pattern of updates, the round completes the last pattern. Rounds
    never become longer than those of the given herd.
    """
    num_batches = herd.strategy.batches_for(min(num_steps, herd.num_steps))
    return replace(herd, num_batches=min(num_batches, herd.num_batches))


def _memory(herd: Herd) -> int:
    if herd.engine.device.type == "cuda":
        return torch.cuda.max_memory_allocated(herd.engine.device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def describe(expected: Expectation) -> str:
    """Return the expectation as one line of text."""
    step, pace, memory = expected.step * 1e3, expected.images_per_second, expected.memory / 2**30
    rounds = f"{count(expected.rounds, 'round')} of {count(expected.num_steps, 'step')}"
    verb = "takes" if expected.rounds == 1 else "take"
    return (
        f"on {expected.device}: {step:.1f} ms per step, {pace:,.0f} images/s; "
        f"{rounds} {verb} {duration(expected.total)}, "
        f"including {duration(expected.first)} to start; memory {memory:.1f} GiB"
    )

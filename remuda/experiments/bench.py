"""What to expect of a run on this machine: a few steps of it, measured and multiplied."""

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from remuda.config import RunConfig
from remuda.system.text import duration
from remuda.training.assemble import Herd, assemble

REPEATS = 3  # timed stretches; the median counts


@dataclass(frozen=True)
class Expectation:
    """A run's cost, extrapolated from a few of its steps."""

    device: str
    first: float  # seconds of the first stretch, compilation included
    step: float  # seconds for one generator update of every member
    num_steps: int  # generator updates in a round
    rounds: int
    images_per_second: float
    memory: int  # bytes: of the GPU, or of the process

    @property
    def total(self) -> float:
        return self.first + self.step * self.num_steps * self.rounds


def measure(
    config: RunConfig, num_steps: int = 4, say: Callable[[str], None] = lambda text: None
) -> Expectation:
    """Run some stretches of num_steps steps of a configuration, and multiply."""
    whole = assemble(config)
    num_steps = min(num_steps, whole.num_steps)
    herd = replace(whole, num_batches=num_steps * whole.strategy.discriminator_steps)
    herd.engine.say = say
    state, seconds = herd.start(), []
    for t in range(1, REPEATS + 2):
        began = time.perf_counter()
        state, _ = herd.round(state, t)
        seconds.append(time.perf_counter() - began)
    stretch = sorted(seconds[1:])[REPEATS // 2]
    return Expectation(
        device=str(herd.engine.device),
        first=seconds[0],
        step=stretch / num_steps,
        num_steps=whole.num_steps,
        rounds=config.run.rounds,
        images_per_second=herd.images_per_round / stretch,
        memory=_memory(herd),
    )


def _memory(herd: Herd) -> int:
    if herd.engine.device.type == "cuda":
        return torch.cuda.max_memory_allocated(herd.engine.device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def describe(expected: Expectation) -> str:
    return (
        f"on {expected.device}: {expected.step * 1e3:.1f} ms a step, {expected.images_per_second:,.0f} images/s; "
        f"{expected.rounds:,} rounds of {expected.num_steps:,} steps take {duration(expected.total)}, "
        f"of which the start {duration(expected.first)}; memory {expected.memory / 2**30:.1f} GiB"
    )

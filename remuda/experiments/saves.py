"""Measure how long saving blocks training."""

import statistics
import time
from pathlib import Path
from typing import Any

from remuda.config import RunConfig
from remuda.experiments.expectation import Repeated
from remuda.system.text import ignore
from remuda.training import pace
from remuda.training.herd import Herd
from remuda.training.saving import Saver

REPEATS = 3  # checkpoints to write, after one that allocates memory


def time_saves(
    herd: Herd, config: RunConfig, folder: Path, state: Any, per_round: float
) -> tuple[Repeated, float]:
    """Save a state several times, if each round of the run takes ``per_round`` seconds.

    Return the checkpoints of the run, and the seconds that the run waits at its end for the last
    one. All others are written in the background.
    """
    blocked, written = [], []
    with Saver(folder, config, herd, ignore) as saver:
        saver.begin(state)
        saver.wait()
        for t in range(REPEATS + 1):
            began = time.perf_counter()
            saver.save(t, state)
            submitted = time.perf_counter()
            saver.wait()
            blocked.append(submitted - began + saver.copying)
            written.append(time.perf_counter() - submitted)
    each = statistics.median(blocked[1:])
    times = pace.num_checkpoints(config, per_round, each)
    return Repeated(times, each, max(0.0, blocked[0] - each)), statistics.median(written[1:])

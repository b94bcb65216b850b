"""Limit and unlimit the links of hosts in turns while a run trains on them, and time its rounds."""

import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from remuda.experiments.scaling.measure import Measured, summary
from remuda.experiments.scaling.model import Link, costs_of, time_messages
from remuda.experiments.scaling.plan import Case
from remuda.record import Reader, Record
from tests.hosts.network import Network

ONLY_ROUNDS = (
    "run.sample_every=1000000",
    "run.checkpoint_minutes=inf",
    "scores.every=0",
    "engine.device=cpu",
    "engine.threads=1",
    "engine.balance=false",
)


class Comparison(NamedTuple):
    """Median seconds per round of ranks on several hosts."""

    free: float  # measured without limits
    limited: float  # measured over limited links
    predicted: float  # for the limited links: the time without limits, plus that of the messages


def compare(
    network: Network, folder: Path, recipe: str, rate: str, *settings: str, each: int = 3
) -> Comparison:
    """Train on all hosts, limit all links in turns for ``each`` rounds, and predict their time."""
    flags = [word for text in (*ONLY_ROUNDS, *settings) for word in ("--set", text)]
    hosts = ("--engine", "mpi", "--hosts", ",".join(network.names))
    words = (sys.executable, "-m", "remuda", "train", recipe, *hosts, *flags, "--out", folder)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = network.popen(network.names[0], *words, **quiet)
    try:
        chosen = alternate(network, folder / "rounds.jsonl", process, rate, each)
        _, errors = process.communicate()
    finally:
        process.kill()
    if process.returncode:
        raise RuntimeError(errors)
    config, lines = Record.open(folder).config, Reader.open(folder).rounds()
    case = Case(len(network.names), config.run.members, config)
    free, limited = (
        summary(case, [[lines[0], *(lines[t - 1] for t in chosen[is_limited])]])
        for is_limited in (False, True)
    )
    table = config.strategy.exchange_table(case.members, config.run.seed)
    return Comparison(free.median, limited.median, predicted(free, table, rate))


def predicted(free: Measured, table, rate: str) -> float:
    """Return the seconds of a round over limited links, from rounds over links without limits.

    The messages take hardly any time without limits, so the whole time counts as work.
    """
    messages = time_messages(costs_of(free, table), Link.read(rate), free.ranks, table)
    return free.median + sum(messages.values())


def alternate(
    network: Network, path: Path, process: subprocess.Popen[str], rate: str, each: int
) -> dict[bool, list[int]]:
    """Limit all links after every few rounds, and remove the limits after as many again.

    Return the rounds that had no limit, and those that had limited links all the time.
    """
    chosen: dict[bool, list[int]] = {False: [], True: []}
    is_limited, first = False, 2  # the first round includes the start
    while process.poll() is None:
        done = _num_rounds(path)
        if done - first + 1 >= each:
            chosen[is_limited] += range(first, done + 1)
            is_limited = not is_limited
            for host in network.names:
                network.limit(host, rate if is_limited else None)
            first = _num_rounds(path) + 2  # the next round has started already
        time.sleep(0.02)
    return chosen


def _num_rounds(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0

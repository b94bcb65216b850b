"""Ranks on several hosts compute at the same time, and slow links take the predicted time."""

import sys

import pytest

from tests.hosts.exchanging import WORK
from tests.hosts.links import compare

# Six members on three hosts: an iteration moves 1 MB down and 0.5 MB up at the server, which take
# 130 ms at 100 Mbit/s. The networks are small, so that the network dominates on busy machines too.
SETTINGS = (
    "run.members=6",
    "run.rounds=21",
    "networks.hidden=16",
    "strategy.batch_size=500",
    "strategy.steps_per_round=3",
    "strategy.swap_every=1",
)


def test_the_server_sends_before_it_computes(hosts):
    """Otherwise, MPI sends large messages only when the server's own work is over."""
    words = (sys.executable, "-m", "tests.hosts.exchanging", ",".join(hosts.names))
    result = hosts.run("h1", *words)
    assert result.returncode == 0, result.stderr
    assert WORK < float(result.stdout) < 1.6 * WORK


@pytest.mark.soak
def test_slow_links_take_the_predicted_time(hosts, tmp_path):
    found = compare(hosts, tmp_path / "run", "md-gan-digits", "100mbit", *SETTINGS)
    assert found.limited > 1.5 * found.free, found
    assert 0.65 < found.predicted / found.limited < 1.35, found

"""A host joins a run that trains on other hosts."""

import signal
import sys
import time

import pytest

from remuda.record import Record
from remuda.reports import status
from tests.hosts.test_start import RANKS

RECIPE = (
    "md-gan-digits",
    *("--members", 2, "--rounds", 100_000, "--set", "run.sample_every=100000"),
    *("--set", "strategy.steps_per_round=2", "--set", "strategy.batch_size=4"),
)
PATIENCE = 120.0  # seconds; usually a few


def await_round(process, folder, t):
    end = time.monotonic() + PATIENCE
    while not folder.exists() or Record(folder).num_rounds() < t:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "the run takes too long"
        time.sleep(0.1)


def await_members(process, folder, wanted):
    """Wait until the ranks report these members; their heartbeats arrive about once a second."""
    end = time.monotonic() + PATIENCE
    while (found := [(rank["host"], rank["members"]) for rank in ranks_of(folder)]) != wanted:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, found
        time.sleep(0.1)


def ranks_of(folder):
    now = status.read(folder)
    return now.ranks if now else []


@pytest.mark.soak
def test_a_third_host_joins(hosts, tmp_path):
    """The command may run on any host; a host that is cut off does not disturb the run."""
    folder = tmp_path / "run"
    words = ("train", *RECIPE, *RANKS, "--hosts", "h1:1,h2:1", "--out", folder)
    process = hosts.popen("h1", sys.executable, "-m", "remuda", *words)
    await_round(process, folder, 3)
    hosts.cut("h3")
    refused = hosts.remuda("h2", "join", folder, "--hosts", "h3:1")
    assert refused.returncode == 2 and "h3 does not answer by ssh" in refused.stderr
    hosts.mend("h3")
    joined = hosts.remuda("h2", "join", folder, "--hosts", "h3:1")
    assert joined.returncode == 0, joined.stdout + joined.stderr
    assert "1 rank on h3 joined" in joined.stdout
    await_members(process, folder, [("h1", [0]), ("h2", [1]), ("h3", [2])])
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, printed + errors
    assert "1 rank on h3 joins: restarting from round " in printed
    assert errors.startswith("stopped after round ") and errors.count("\n") == 1, errors
    assert Record.open(folder).config.engine.hosts == "h1:1,h2:1,h3:1"

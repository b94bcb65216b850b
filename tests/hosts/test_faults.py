"""Break hosts while a run trains on them.

The run continues or restarts, the command returns, and a host that comes back does no harm.
`pytest -s` shows the times from the fault to the next finished round and to the end of the command.
"""

import random
import time

import pytest

from remuda.record import Record
from tests.hosts.faults import ROUNDS, Run, cut, freeze, kill_daemon, kill_rank
from tests.mpi.killing import SETTINGS, assert_complete
from tests.mpi.test_failures import DROPS
from tests.training.test_run import assert_same_run

# The fault, the host that it hits, and the host of the command. Rank 0 runs on h1.
FAULTS = {
    "cut": (cut, "h3", "h1"),
    "frozen": (freeze, "h3", "h1"),
    "daemon killed": (kill_daemon, "h3", "h1"),
    "rank 0 killed": (kill_rank, "h1", "h1"),
    "host of rank 0 cut": (cut, "h1", "h2"),
    "host of rank 0 frozen": (freeze, "h1", "h2"),
}
SURVIVED = ("cut", "frozen")  # without a restart


@pytest.fixture(scope="module")
def whole(network, tmp_path_factory):
    """Return the folder of a run of class-parallel on three hosts without faults."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    status, printed, errors = Run(network, folder, "class-parallel").end(time.monotonic())
    assert (status, errors) == (0, ""), printed + errors
    return folder


def break_host(hosts, folder, strategy, name, seed):
    """Break a host at a random moment, and check the end of the run."""
    fault, host, launched_on = FAULTS[name]
    draw = random.Random(f"{strategy} {name} {seed}")
    run = Run(hosts, folder, strategy, launched_on)
    run.wait_for_round(draw.randint(3, 20))
    time.sleep(draw.uniform(0, 0.2))
    fault_at = time.monotonic()
    fault(run, host)
    status, printed, errors = run.end(fault_at)
    print(printed, errors)
    assert status == 0, printed + errors
    assert_complete(folder, ROUNDS)
    is_restarted = "restarting the run from its newest checkpoint on " in printed
    assert is_restarted == (name not in SURVIVED), printed
    run.check_return(host)
    return Record.open(folder), printed


def check_members(record, strategy, name):
    """Check that members are lost only where a strategy continues without them."""
    engine, lost = record.config.engine, record.config.run.lost
    assert lost == ((4,) if strategy in DROPS and name in SURVIVED else ())
    if strategy in DROPS and name in SURVIVED:
        assert engine.hosts == "h1:1,h2:1"
    elif name.startswith("host of rank 0"):
        assert engine.hosts == "h2:1,h3:1"


@pytest.mark.parametrize(
    "strategy, name",
    [
        ("md-gan", "cut"),
        pytest.param("class-parallel", "frozen", marks=pytest.mark.soak),
        pytest.param("class-parallel", "daemon killed", marks=pytest.mark.soak),
        ("md-gan", "rank 0 killed"),
        pytest.param("class-parallel", "host of rank 0 cut", marks=pytest.mark.soak),
    ],
)
def test_a_run_survives_a_broken_host(hosts, tmp_path, strategy, name, request):
    is_exact = strategy == "class-parallel"
    whole = request.getfixturevalue("whole") if is_exact else None
    record, _ = break_host(hosts, tmp_path / "run", strategy, name, 0)
    check_members(record, strategy, name)
    if is_exact:
        assert_same_run(whole, tmp_path / "run")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 21))
@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("strategy", SETTINGS)
def test_a_run_survives_a_broken_host_at_many_moments(hosts, tmp_path, strategy, name, seed, whole):
    record, _ = break_host(hosts, tmp_path / "run", strategy, name, seed)
    check_members(record, strategy, name)
    if strategy == "class-parallel":
        assert_same_run(whole, record.folder)

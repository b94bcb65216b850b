"""Kill ranks at random moments.

The run either continues, or ends with one sentence and can be resumed.
"""

import random
import shutil
import signal
import time

import pytest

import remuda as library
from remuda.record import Record
from remuda.reports.status import read as read_status
from tests.mpi.killing import SETTINGS, Victim, assert_complete, configured
from tests.mpi.starting import remuda
from tests.mpi.test_training import assert_close_runs
from tests.training.test_run import assert_same_run

DROPS = ("md-gan", "md-gan-visits", "fl-gan")
NO_RESTART = ("--restarts", 0)


@pytest.fixture(scope="module")
def on_three_ranks(tmp_path_factory):
    """Return the folder of a run of fl-gan on three ranks that lost none of them."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert Victim(folder, "fl-gan").end()[0] == 0
    return folder


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return a function that makes a run to compare with, once per strategy."""
    folder = tmp_path_factory.mktemp("undisturbed")

    def find(strategy):
        if not (folder / strategy).exists():
            library.run(configured(strategy), folder / strategy)
        return folder / strategy

    return find


def lose_a_rank(folder, strategy, seed, undisturbed):
    """Kill rank 1 or 2 at a random moment between the start of the record and the last round."""
    draw = random.Random(f"{strategy} {seed}")
    victim = Victim(folder, strategy)
    t = draw.randint(0, 28)
    victim.wait(lambda: victim.has_reached(t))
    time.sleep(draw.uniform(0, 0.2))
    victim.kill(draw.choice([1, 2]))
    status, _, errors = victim.end()
    assert (status, errors) == (0, ""), errors
    assert_complete(folder)
    library.load(folder).sample(2)
    check_members(folder, strategy, undisturbed)


def check_members(folder, strategy, undisturbed):
    """Check the remaining members. A failure at the very end may cost none of them."""
    record, failures = Record.open(folder), Record.open(folder).failures()
    if strategy not in DROPS:
        assert_close_runs(undisturbed(strategy), folder)
        assert all(failure["action"] == "move" for failure in failures)
        return
    lost = [member for failure in failures for member in failure["members"]]
    assert all(failure["action"] == "drop" for failure in failures)
    config = record.config
    num_members = config.strategy.num_members(config.run.members, len(record.facts.classes))
    assert list(config.run.lost) == lost and num_members == 5 - len(lost)
    for line in record.rounds():
        earlier = [failure for failure in failures if failure["round"] < line["round"]]
        num_lost = sum(len(failure["members"]) for failure in earlier)
        assert len(line["generator_loss"]) == 5 - num_lost


# Members are lost, or move. The other strategies are below.
@pytest.mark.parametrize("strategy", ["md-gan", "class-parallel-shared"])
def test_a_run_survives_a_lost_rank(tmp_path, strategy, undisturbed):
    lose_a_rank(tmp_path / "run", strategy, 0, undisturbed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(21))
@pytest.mark.parametrize("strategy", SETTINGS)
def test_a_run_survives_a_lost_rank_at_many_moments(tmp_path, strategy, seed, undisturbed):
    lose_a_rank(tmp_path / "run", strategy, seed, undisturbed)


def test_a_rank_is_lost_before_the_first_round(tmp_path, undisturbed):
    """No member was trained yet, so none is lost."""
    victim = Victim(tmp_path / "run", "md-gan")
    victim.wait(victim.is_loading)
    victim.kill(2)
    status, printed, errors = victim.end()
    assert (status, errors) == (0, ""), errors
    assert "rank 2 on " in printed and "no member was lost" in printed
    assert_close_runs(undisturbed("md-gan"), tmp_path / "run")
    (failure,) = Record.open(tmp_path / "run").failures()
    assert (failure["round"], failure["ranks"], failure["members"]) == (0, [2], [])


def test_a_rank_is_lost_before_mpi_has_started(tmp_path):
    """The other ranks cannot notice that, so the launcher starts all of them again."""
    victim = Victim(tmp_path / "run", "md-gan")
    victim.wait(lambda: 1 in victim.processes().values())
    victim.kill(1)
    status, printed, errors = victim.end()
    assert (status, errors) == (0, ""), errors
    assert printed.count("MPI did not start on all ranks; starting them again") == 1
    assert_complete(tmp_path / "run")
    record = Record.open(tmp_path / "run")
    assert not record.failures() and record.config.run.members == 5


@pytest.mark.parametrize("is_stop", [True, False], ids=["stopped", "killed"])
def test_all_ranks_end_while_they_start(tmp_path, is_stop):
    """Ranks cannot report it yet, and an mpirun that survives failures exits with status 0."""
    victim = Victim(tmp_path / "run", "md-gan", *NO_RESTART)
    victim.wait(victim.is_loading)
    if is_stop:
        victim.process.terminate()
    else:
        victim.kill(0, 1, 2)
    status, _, errors = victim.end()
    expected = (75, "remuda: all ranks died: start the run again\n")
    if is_stop:
        expected = (130, "stopped; start the run again\n")
    assert (status, errors) == expected and not (tmp_path / "run").exists()


@pytest.mark.soak
def test_all_ranks_are_lost_between_the_last_round_and_its_checkpoint(tmp_path):
    run = tmp_path / "run"
    settings = ["scores.every=4", "scores.kinds=fid", "scores.samples=50000"]
    flags = [word for setting in settings for word in ("--set", setting)]
    victim = Victim(run, "fl-gan", "--rounds", 4, *flags, *NO_RESTART)
    victim.wait(lambda: victim.has_reached(4))
    victim.kill(0, 1, 2)
    status, _, errors = victim.end()
    assert (status, errors) == (75, f"remuda: all ranks died: resume with: remuda resume {run}\n")
    library.resume(run, engine="stacked")
    assert_complete(run, rounds=4)
    assert Record.open(run).has_scores(4)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 21))
def test_a_rank_is_lost_while_the_ranks_start(tmp_path, seed):
    """The moment lies anywhere from the start of MPI to the first rounds."""
    draw = random.Random(seed)
    victim = Victim(tmp_path / "run", draw.choice(list(SETTINGS)))
    victim.wait(lambda: {0, 1, 2} <= set(victim.processes().values()))
    time.sleep(draw.uniform(0, 3))
    victim.kill(draw.choice([1, 2]))
    status, _, errors = victim.end()
    assert (status, errors) == (0, ""), errors
    assert_complete(tmp_path / "run")


def lose_two(folder, strategy, seed, pause):
    victim = Victim(folder, strategy, ranks=4)
    t = random.Random(seed).randint(3, 25)
    victim.wait(lambda: victim.has_reached(t))
    victim.kill(1)
    time.sleep(pause)
    victim.kill(3)
    status, _, errors = victim.end()
    assert (status, errors) == (0, "")
    assert_complete(folder)
    failures = Record.open(folder).failures()
    assert sorted(rank for failure in failures for rank in failure["ranks"]) == [1, 3]


@pytest.mark.soak  # one lost rank is tested above, for each strategy
def test_a_run_survives_two_lost_ranks(tmp_path, undisturbed):
    lose_two(tmp_path / "run", "cellular", 0, 0)
    assert_close_runs(undisturbed("cellular"), tmp_path / "run")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 11))
@pytest.mark.parametrize("strategy", ["md-gan", "class-parallel"])
def test_a_second_rank_is_lost_soon_after_the_first(tmp_path, strategy, seed):
    """The second rank may fail while the remaining ones recover."""
    lose_two(tmp_path / "run", strategy, seed, random.Random(seed).uniform(0, 0.1))


def test_a_rank_is_lost_during_a_checkpoint(tmp_path):
    victim = Victim(tmp_path / "run", "md-gan")
    victim.wait(lambda: victim.has_reached(5) and victim.is_saving)
    victim.kill(2)
    assert victim.end()[0] == 0
    assert_complete(tmp_path / "run")


@pytest.mark.soak
def test_rank_0_is_lost_during_a_checkpoint(tmp_path, on_three_ranks, undisturbed):
    """The checkpoints stay intact, and a resume on the same number of ranks is exact."""
    run = tmp_path / "run"
    victim = Victim(run, "fl-gan", *NO_RESTART)
    victim.wait(lambda: victim.has_reached(5) and victim.is_saving)
    victim.kill(0)
    status, _, errors = victim.end()
    assert status == 75 and errors.startswith("remuda: rank 0 on ")
    assert f"remuda resume {run}" in errors
    assert len(errors.strip().splitlines()) == 1
    shutil.copytree(run, tmp_path / "stacked")
    result = remuda("resume", run)
    assert result.returncode == 0, result.stderr
    assert_same_run(on_three_ranks, run)
    library.resume(tmp_path / "stacked", engine="stacked")
    assert_close_runs(undisturbed("fl-gan"), tmp_path / "stacked")


def test_without_ulfm_the_run_ends_with_one_sentence(tmp_path, undisturbed):
    run = tmp_path / "run"
    victim = Victim(run, "class-parallel", *NO_RESTART, environment={"REMUDA_ULFM": "0"})
    victim.wait(lambda: victim.has_reached(8))
    victim.kill(1)
    status, _, errors = victim.end()
    assert status == 75 and errors.startswith("remuda: rank 1 on ")
    assert f"remuda resume {run}" in errors
    assert len(errors.strip().splitlines()) == 1, errors
    library.resume(run, engine="stacked")
    assert_close_runs(undisturbed("class-parallel"), run)


def test_all_processes_are_killed(tmp_path, on_three_ranks, undisturbed):
    """A resume on as many ranks is exact; on fewer ranks, only rounding differs."""
    run = tmp_path / "run"
    victim = Victim(run, "fl-gan")
    victim.wait(lambda: victim.has_reached(10))
    victim.kill_all()
    shutil.copytree(run, tmp_path / "fewer")
    assert remuda("resume", run).returncode == 0
    assert_same_run(on_three_ranks, run)
    assert remuda("resume", tmp_path / "fewer", "--ranks", 2).returncode == 0
    assert_close_runs(undisturbed("fl-gan"), tmp_path / "fewer")


@pytest.mark.parametrize(
    "ranks",
    [pytest.param((0,), marks=pytest.mark.soak), (0, 1, 2)],  # tests/hosts kills rank 0 as well
    ids=["rank 0", "all ranks"],
)
def test_a_run_restarts(tmp_path, on_three_ranks, ranks):
    """It continues from its newest checkpoint, as if nothing had happened."""
    run = tmp_path / "run"
    victim = Victim(run, "fl-gan")
    victim.wait(lambda: victim.has_reached(5))
    victim.kill(*ranks)
    status, printed, errors = victim.end()
    assert status == 0, errors
    event = "rank 0 was lost" if len(ranks) == 1 else "all ranks died"
    restart = f"{event}; restarting the run from its newest checkpoint (restart 1 of 3)"
    assert printed.count("restarting") == 1 and restart in printed
    assert_same_run(on_three_ranks, run)


@pytest.mark.soak
def test_a_run_without_ulfm_restarts(tmp_path, undisturbed):
    run = tmp_path / "run"
    victim = Victim(run, "class-parallel", environment={"REMUDA_ULFM": "0"})
    victim.wait(lambda: victim.has_reached(8))
    victim.kill(1)
    status, printed, errors = victim.end()
    assert (status, errors) == (0, ""), errors
    assert printed.count("(Killed); restarting the run from its newest checkpoint") == 1
    assert_close_runs(undisturbed("class-parallel"), run)


@pytest.mark.soak
def test_all_ranks_are_killed(tmp_path):
    """The launcher survives and reports it."""
    victim = Victim(tmp_path / "run", "fl-gan", *NO_RESTART)
    victim.wait(lambda: victim.has_reached(5))
    victim.kill(0, 1, 2)
    status, _, errors = victim.end()
    assert status == 75 and f"remuda resume {tmp_path / 'run'}" in errors
    assert len(errors.strip().splitlines()) == 1


@pytest.mark.soak
def test_a_suspended_job_keeps_all_members(tmp_path):
    """Its ranks may seem lost to each other when it continues; then it restarts with all."""
    victim = Victim(tmp_path / "run", "md-gan", "--set", "engine.failure_timeout=3")
    victim.wait(lambda: victim.has_reached(5))
    victim.signal_all(signal.SIGSTOP)
    time.sleep(6)
    victim.signal_all(signal.SIGCONT)
    status, printed, errors = victim.end()
    assert status == 0, printed + errors
    assert_complete(tmp_path / "run")
    assert Record.open(tmp_path / "run").config.run.lost == (), printed


def test_a_lost_rank_can_stop_the_run(tmp_path):
    run = tmp_path / "run"
    victim = Victim(run, "fl-gan", "--set", "engine.on_failure=stop", *NO_RESTART)
    victim.wait(lambda: victim.has_reached(5))
    victim.kill(2)
    status, _, errors = victim.end()
    assert status == 75 and errors.startswith("remuda: rank 2 on ")
    assert f"remuda resume {run}" in errors
    assert len(errors.strip().splitlines()) == 1
    (failure,) = Record.open(run).failures()
    assert (failure["ranks"], failure["members"], failure["action"]) == ([2], [4], "stop")
    assert failure["round"] >= 5
    library.resume(run, engine="stacked")
    assert_complete(run)
    assert len(Record.open(run).rounds()[-1]["generator_loss"]) == 5


def test_a_resume_after_a_failure_is_exact(tmp_path):
    """The record knows the ids and the data of the remaining members."""
    run, again = tmp_path / "run", tmp_path / "again"
    victim = Victim(run, "md-gan")
    victim.wait(lambda: victim.has_reached(5))
    victim.kill(1)
    status, printed, _ = victim.end()
    assert status == 0 and "rank 1 on " in printed
    assert "continuing without members 2 and 3" in printed
    remaining = Record.open(run).config.run
    assert remaining.lost == (2, 3) and remaining.members == 3
    shutil.copytree(run, again)
    shutil.rmtree(again / "checkpoints" / "round-000030")
    assert remuda("resume", again, "--ranks", 2).returncode == 0
    assert_same_run(run, again)
    for folder in (run, again):  # ids are those from before the failure
        ranks = [rank for rank in read_status(folder).ranks if rank["contact"] == "on time"]
        assert sorted(member for rank in ranks for member in rank["members"]) == [0, 1, 4]
    library.resume(again, rounds=31, engine="stacked", members=4)
    assert len(Record.open(again).rounds()[-1]["generator_loss"]) == 4
    assert Record.open(again).config.run.lost == ()

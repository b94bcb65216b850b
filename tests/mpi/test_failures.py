"""Ranks that die: kill -9 at random moments, and the run goes on, or ends with a sentence and can be resumed."""

import random
import shutil
import time

import pytest

import remuda as library
from remuda.record import Record
from remuda.reports.status import read as read_status
from tests.mpi.killing import SETTINGS, Victim, assert_complete, configured
from tests.mpi.starting import remuda
from tests.mpi.test_training import assert_close_runs
from tests.training.test_run import assert_same_run

DROPS = ("md-gan", "fl-gan")


@pytest.fixture(scope="module")
def on_three_ranks(tmp_path_factory):
    """What a run of fl-gan on three ranks leaves that nobody disturbs."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert Victim(folder, "fl-gan").end()[0] == 0
    return folder


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Runs to compare with, made when they are asked for."""
    folder = tmp_path_factory.mktemp("undisturbed")

    def find(strategy):
        if not (folder / strategy).exists():
            library.run(configured(strategy), folder / strategy)
        return folder / strategy

    return find


def lose_a_rank(folder, strategy, seed, undisturbed):
    """A random worker at a random moment, from the beginning of the record to the last round."""
    draw = random.Random(f"{strategy} {seed}")
    victim = Victim(folder, strategy)
    t = draw.randint(0, 28)
    victim.wait(lambda: victim.has_reached(t))
    time.sleep(draw.uniform(0, 0.2))
    victim.kill(draw.choice([1, 2]))
    status, _, words = victim.end()
    assert (status, words) == (0, ""), words
    assert_complete(folder)
    library.load(folder).sample(2)
    check_members(folder, strategy, undisturbed)


def check_members(folder, strategy, undisturbed):
    """A loss that comes at the very end is nobody's."""
    record, losses = Record.open(folder), Record.open(folder).failures()
    if strategy not in DROPS:
        assert_close_runs(undisturbed(strategy), folder)
        assert all(loss["action"] == "move" for loss in losses)
        return
    gone = [member for loss in losses for member in loss["members"]]
    assert all(loss["action"] == "drop" for loss in losses)
    assert list(record.config.run.lost) == gone and record.config.run.members == 5 - len(gone)
    for line in record.rounds():
        left = 5 - sum(len(loss["members"]) for loss in losses if loss["round"] < line["round"])
        assert len(line["generator_loss"]) == left


@pytest.mark.parametrize("strategy", SETTINGS)
def test_a_rank_is_lost(tmp_path, strategy, undisturbed):
    lose_a_rank(tmp_path / "run", strategy, 0, undisturbed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 21))
@pytest.mark.parametrize("strategy", SETTINGS)
def test_a_rank_is_lost_again_and_again(tmp_path, strategy, seed, undisturbed):
    lose_a_rank(tmp_path / "run", strategy, seed, undisturbed)


def test_a_rank_is_lost_before_the_first_round(tmp_path, undisturbed):
    """Nothing was trained, so nothing is lost but the rank."""
    victim = Victim(tmp_path / "run", "md-gan")
    victim.wait(victim.is_loading)
    victim.kill(2)
    status, printed, words = victim.end()
    assert (status, words) == (0, ""), words
    assert "rank 2 on " in printed and "no member was lost" in printed
    assert_close_runs(undisturbed("md-gan"), tmp_path / "run")
    (loss,) = Record.open(tmp_path / "run").failures()
    assert (loss["round"], loss["ranks"], loss["members"]) == (0, [2], [])


def test_a_rank_is_lost_before_mpi_has_started(tmp_path):
    """The others could not miss it, so all are started again."""
    victim = Victim(tmp_path / "run", "md-gan")
    victim.wait(lambda: 1 in victim.processes().values())
    victim.kill(1)
    status, printed, words = victim.end()
    assert (status, words) == (0, ""), words
    assert printed.count("MPI did not start on all ranks; starting them again") == 1
    assert_complete(tmp_path / "run")
    assert (
        not Record.open(tmp_path / "run").failures()
        and Record.open(tmp_path / "run").config.run.members == 5
    )


@pytest.mark.parametrize("is_stop", [True, False], ids=["stopped", "killed"])
def test_all_end_while_they_start(tmp_path, is_stop):
    """They cannot say anything yet, and an mpirun that survives losses calls that a success."""
    victim = Victim(tmp_path / "run", "md-gan")
    victim.wait(victim.is_loading)
    if is_stop:
        victim.process.terminate()
    else:
        victim.kill(0, 1, 2)
    status, _, words = victim.end()
    expected = (2, "remuda: all ranks died: start the run again\n")
    if is_stop:
        expected = (130, "stopped; start the run again\n")
    assert (status, words) == expected and not (tmp_path / "run").exists()


def test_all_are_lost_between_the_last_round_and_its_checkpoint(tmp_path):
    run = tmp_path / "run"
    settings = (
        "--rounds",
        4,
        "--set",
        "scores.every=4",
        "--set",
        "scores.kinds=fid",
        "--set",
        "scores.samples=50000",
    )
    victim = Victim(run, "fl-gan", *settings)
    victim.wait(lambda: victim.has_reached(4))
    victim.kill(0, 1, 2)
    status, _, words = victim.end()
    assert (status, words) == (2, f"remuda: all ranks died: resume with: remuda resume {run}\n")
    library.resume(run, engine="stacked")
    assert_complete(run, rounds=4)
    assert Record.open(run).has_scores(4)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 21))
def test_a_rank_is_lost_while_they_start(tmp_path, seed):
    """Before, while or after MPI starts, the program is loaded, and the record is made."""
    draw = random.Random(seed)
    victim = Victim(tmp_path / "run", draw.choice(list(SETTINGS)))
    victim.wait(lambda: {0, 1, 2} <= set(victim.processes().values()))
    time.sleep(draw.uniform(0, 3))
    victim.kill(draw.choice([1, 2]))
    status, _, words = victim.end()
    assert (status, words) == (0, ""), words
    assert_complete(tmp_path / "run")


def lose_two(folder, strategy, seed, pause):
    victim = Victim(folder, strategy, ranks=4)
    t = random.Random(seed).randint(3, 25)
    victim.wait(lambda: victim.has_reached(t))
    victim.kill(1)
    time.sleep(pause)
    victim.kill(3)
    status, _, words = victim.end()
    assert (status, words) == (0, "")
    assert_complete(folder)
    assert sorted(rank for loss in Record.open(folder).failures() for rank in loss["ranks"]) == [
        1,
        3,
    ]


def test_two_ranks_are_lost_at_once(tmp_path, undisturbed):
    lose_two(tmp_path / "run", "cellular", 0, 0)
    assert_close_runs(undisturbed("cellular"), tmp_path / "run")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 11))
@pytest.mark.parametrize("strategy", ["md-gan", "class-parallel"])
def test_two_ranks_are_lost_one_soon_after_the_other(tmp_path, strategy, seed):
    """Also while those that are left regroup."""
    lose_two(tmp_path / "run", strategy, seed, random.Random(seed).uniform(0, 0.1))


def test_a_rank_is_lost_during_a_checkpoint(tmp_path):
    victim = Victim(tmp_path / "run", "md-gan")
    victim.wait(lambda: victim.has_reached(5) and victim.is_saving)
    victim.kill(2)
    assert victim.end()[0] == 0
    assert_complete(tmp_path / "run")


def test_rank_0_is_lost_during_a_checkpoint(tmp_path, on_three_ranks, undisturbed):
    """What is there is intact; on the same number of ranks the rest is the same to the bit."""
    run = tmp_path / "run"
    victim = Victim(run, "fl-gan")
    victim.wait(lambda: victim.has_reached(5) and victim.is_saving)
    victim.kill(0)
    status, _, words = victim.end()
    assert (
        status == 2 and words.startswith("remuda: rank 0 on ") and f"remuda resume {run}" in words
    )
    assert len(words.strip().splitlines()) == 1
    shutil.copytree(run, tmp_path / "alone")
    result = remuda("resume", run)
    assert result.returncode == 0, result.stderr
    assert_same_run(on_three_ranks, run)
    library.resume(tmp_path / "alone", engine="stacked")
    assert_close_runs(undisturbed("fl-gan"), tmp_path / "alone")


def test_without_ulfm_the_run_ends_with_a_sentence(tmp_path, undisturbed):
    run = tmp_path / "run"
    victim = Victim(run, "class-parallel", environment={"REMUDA_ULFM": "0"})
    victim.wait(lambda: victim.has_reached(8))
    victim.kill(1)
    status, _, words = victim.end()
    assert (
        status == 2 and words.startswith("remuda: rank 1 on ") and f"remuda resume {run}" in words
    )
    assert len(words.strip().splitlines()) == 1, words
    library.resume(run, engine="stacked")
    assert_close_runs(undisturbed("class-parallel"), run)


def test_all_are_killed(tmp_path, on_three_ranks, undisturbed):
    """The ranks and what has started them; resumed on as many ranks it is exact, on fewer the same to rounding."""
    run = tmp_path / "run"
    victim = Victim(run, "fl-gan")
    victim.wait(lambda: victim.has_reached(10))
    victim.kill_all()
    shutil.copytree(run, tmp_path / "fewer")
    assert remuda("resume", run).returncode == 0
    assert_same_run(on_three_ranks, run)
    assert remuda("resume", tmp_path / "fewer", "--ranks", 2).returncode == 0
    assert_close_runs(undisturbed("fl-gan"), tmp_path / "fewer")


def test_all_ranks_are_killed(tmp_path):
    """But not what has started them, which says so."""
    victim = Victim(tmp_path / "run", "fl-gan")
    victim.wait(lambda: victim.has_reached(5))
    victim.kill(0, 1, 2)
    status, _, words = victim.end()
    assert (
        status == 2
        and f"remuda resume {tmp_path / 'run'}" in words
        and len(words.strip().splitlines()) == 1
    )


def test_stopping_at_a_loss(tmp_path):
    run = tmp_path / "run"
    victim = Victim(run, "fl-gan", "--set", "engine.on_failure=stop")
    victim.wait(lambda: victim.has_reached(5))
    victim.kill(2)
    status, _, words = victim.end()
    assert (
        status == 2 and words.startswith("remuda: rank 2 on ") and f"remuda resume {run}" in words
    )
    assert len(words.strip().splitlines()) == 1
    (loss,) = Record.open(run).failures()
    assert (loss["ranks"], loss["members"], loss["action"]) == ([2], [4], "stop") and loss[
        "round"
    ] >= 5
    library.resume(run, engine="stacked")
    assert_complete(run)
    assert len(Record.open(run).rounds()[-1]["generator_loss"]) == 5


def test_a_resume_after_a_loss_is_exact(tmp_path):
    """The members that are left, their data and their numbers are known to the record."""
    run, again = tmp_path / "run", tmp_path / "again"
    victim = Victim(run, "md-gan")
    victim.wait(lambda: victim.has_reached(5))
    victim.kill(1)
    status, printed, _ = victim.end()
    assert status == 0 and "rank 1 on " in printed and "going on without members 2 and 3" in printed
    assert Record.open(run).config.run.lost == (2, 3) and Record.open(run).config.run.members == 3
    shutil.copytree(run, again)
    shutil.rmtree(again / "checkpoints" / "round-000030")
    assert remuda("resume", again, "--ranks", 2).returncode == 0
    assert_same_run(run, again)
    for folder in (run, again):  # numbers are those from before the loss
        ranks = [rank for rank in read_status(folder).ranks if rank["contact"] == "on time"]
        assert sorted(member for rank in ranks for member in rank["members"]) == [0, 1, 4]
    library.resume(again, rounds=31, engine="stacked", members=4)
    assert (
        len(Record.open(again).rounds()[-1]["generator_loss"]) == 4
        and Record.open(again).config.run.lost == ()
    )

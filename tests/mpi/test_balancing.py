"""Members move from a slow rank to faster ones, and the results stay the same."""

import re

import pytest

import remuda as library
from remuda import config
from remuda.record import Record, manifests
from remuda.reports.status import read as read_status
from tests.mpi.balancing import EQUAL, VALUES
from tests.mpi.starting import on_ranks
from tests.training.test_run import assert_same_run

ROUNDS = 17


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return the folder of a run of class-parallel in one process."""
    settings = ["engine.name=stacked", "strategy.name=class-parallel", f"run.rounds={ROUNDS}"]
    values = config.from_dict(config.override(VALUES, settings))
    return library.run(values, tmp_path_factory.mktemp("undisturbed") / "run")


def train(folder, strategy, event="none"):
    result = on_ranks(3, "tests.mpi.balancing", event, folder, strategy, ROUNDS)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "moving members to faster ranks: " in result.stdout
    return result.stdout


def lengths(folder):
    """Return the number of members in each shard of the newest checkpoint."""
    checkpoint, problems = Record.open(folder).newest()
    assert checkpoint.round == ROUNDS and not problems
    return [stop - start for start, stop in manifests.describe(checkpoint)["rows"]]


def assert_moved(found):
    assert sum(found) == 8 and found[2] == 1, f"{found} instead of {EQUAL}"


@pytest.mark.parametrize("event", ["none", pytest.param("remote", marks=pytest.mark.soak)])
def test_a_slow_rank_gets_fewer_members_and_results_stay_the_same(tmp_path, undisturbed, event):
    """Members of class-parallel share nothing, so even rounding is the same."""
    train(tmp_path / "run", "class-parallel", event)
    assert_moved(lengths(tmp_path / "run"))
    assert_same_run(undisturbed, tmp_path / "run")
    ranks = read_status(tmp_path / "run").ranks
    assert_moved([len(rank["members"]) for rank in ranks])
    assert [member for rank in ranks for member in rank["members"]] == list(range(8))
    assert 0 < ranks[2]["speed"] < min(1 / 0.12, 0.5 * ranks[0]["speed"])


def test_a_rank_that_dies_after_a_move_takes_its_present_members_along(tmp_path):
    run = tmp_path / "run"
    printed = train(run, "fl-gan", "round")
    (words,) = re.findall(r"rank 1 dies with members (.*)", printed)
    dead = [int(word) for word in words.split()]
    (failure,) = Record.open(run).failures()
    assert failure["members"] == dead != [3, 4, 5], "not those of the start"
    assert Record.open(run).config.run.lost == tuple(dead)
    left = lengths(run)
    assert sum(left) == 8 - len(dead) and left[1] == 1
    assert [len(line["generator_loss"]) for line in Record.open(run).rounds()][-1] == sum(left)


def test_members_of_a_rank_that_dies_after_a_move_can_move_again(tmp_path, undisturbed):
    train(tmp_path / "run", "class-parallel", "round")
    (failure,) = Record.open(tmp_path / "run").failures()
    assert failure["action"] == "move" and failure["round"] in (7, 14)
    found = lengths(tmp_path / "run")
    assert sum(found) == 8 and found[0] > found[1], "the speeds of the other ranks are known"
    assert_same_run(undisturbed, tmp_path / "run")


def test_a_rank_dies_while_members_move(tmp_path):
    """All members are in the checkpoint, so none is lost."""
    printed = train(tmp_path / "run", "fl-gan", "assembly")
    assert "no member was lost" in printed
    (failure,) = Record.open(tmp_path / "run").failures()
    assert (failure["ranks"], failure["members"]) == ([1], [])
    assert failure["round"] in (7, 14), "the last checkpoint"
    assert sum(lengths(tmp_path / "run")) == 8
    assert [line["round"] for line in Record.open(tmp_path / "run").rounds()] == [
        t + 1 for t in range(ROUNDS)
    ]

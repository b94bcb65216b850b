"""After a failure: the lost members, and the data and rows of the remaining ones."""

import pytest
import torch

import remuda
from remuda import config
from remuda.config import LoopConfig
from remuda.engines.communicator import LostRank
from remuda.engines.mpi.spans import spans
from remuda.errors import UserError
from remuda.model.sources import data_ranks
from remuda.record import Record, checkpoints
from remuda.training import failures
from remuda.training.assemble import assemble
from tests.record.reading import tensors

RANKED = {"data": {"name": "folder:/data/{rank}"}, "engine": {"name": "mpi"}}


def make(strategy, on_failure="auto", **sections):
    engine = {**sections.pop("engine", {}), "on_failure": on_failure}
    return config.from_dict({"engine": engine, **sections, "strategy": {"name": strategy}})


@pytest.mark.parametrize(
    "strategy, action",
    [("md-gan", "drop"), ("fl-gan", "drop"), ("class-parallel", "move"), ("cellular", "move")],
)
def test_auto_chooses_the_action_that_suits_the_strategy(strategy, action):
    assert failures.suitable_action(make(strategy)) == action
    assert failures.suitable_action(make(strategy, "move")) == "move"
    assert failures.suitable_action(make(strategy, "stop")) == "stop"


def test_a_strategy_that_needs_all_members_cannot_drop_any():
    sentence = "does not suit this strategy, which needs all its members: use move or stop"
    with pytest.raises(UserError, match=sentence):
        failures.suitable_action(make("cellular", "drop"))


def test_members_with_data_of_their_own_rank_cannot_move():
    moving, staying = make("class-parallel", **RANKED), make("md-gan", **RANKED)
    assert failures.suitable_action(moving) == "stop", "the rank takes its data with it"
    assert failures.suitable_action(staying) == "drop"
    with pytest.raises(UserError, match="cannot move the data of the members"):
        failures.suitable_action(make("md-gan", "move", **RANKED))


def test_ids_of_the_members_on_lost_ranks():
    """Three ranks host 3, 2 and 2 of seven members; an eighth, member 1, was lost earlier."""
    before = config.from_dict({"run": {"members": 7, "lost": [1]}, "strategy": {"name": "fl-gan"}})
    hosted = spans(7, 3)
    assert failures.hosted_ids(before, dict(enumerate(hosted)), [1]) == [4, 5]
    # After a failure, ranks keep the numbers that they had at the start.
    later = dict(zip([0, 2, 5], hosted, strict=True))
    assert failures.hosted_ids(before, later, [2, 5]) == [4, 5, 6, 7]
    unequal = {0: range(4), 1: range(4, 5), 2: range(5, 7)}
    assert failures.hosted_ids(before, unequal, [1, 2]) == [5, 6, 7]
    after = failures.without(before, 7, [4, 5])
    assert after.run.members == 5 and after.run.lost == (1, 4, 5)
    assert after.run.member_ids(5) == [0, 2, 3, 6, 7]
    again = config.from_dict(config.to_dict(after))
    assert again.run == after.run, "the record keeps the lost members"


def test_ranks_whose_data_remain_in_use():
    """Seven members use the data of ranks 0, 2 and 5, and keep them when others are lost."""
    run = config.from_dict({**RANKED, "run": {"members": 7}, "strategy": {"name": "fl-gan"}})
    assert data_ranks(run) == [], "not yet divided"
    run = failures.with_data_ranks(run, [0, 2, 5])
    assert data_ranks(run) == [0, 2, 5]
    assert data_ranks(failures.without(run, 7, [3, 4])) == [0, 5]
    assert data_ranks(failures.without(run, 7, [3, 4, 5, 6])) == [0]
    shared = config.from_dict({"run": {"members": 6, "lost": [3]}, "strategy": {"name": "fl-gan"}})
    assert failures.with_data_ranks(shared, [0, 1]) == shared and data_ranks(shared) == []


@pytest.mark.parametrize(
    "run", [{"lost": (1,)}, {"members": 3, "lost": (4,)}, {"members": 3, "lost": (-1,)}], ids=str
)
def test_impossible_lost_members_are_refused(run):
    with pytest.raises(UserError, match=r"run\.lost="):
        LoopConfig(**run)


def test_sentences_about_failures():
    one, other = LostRank(1, "a"), LostRank(4, "b")
    assert failures.names([one]) == "rank 1 on a was lost"
    assert failures.names([one, other]) == "rank 1 on a and rank 4 on b were lost"
    assert failures.fate([2], "drop") == "continuing without member 2"
    moved = failures.fate([2, 3, 4], "move")
    assert moved.startswith("members 2, 3 and 4 move to the remaining ranks")
    assert failures.fate([], "drop") == "no member was lost"


def test_remaining_members_keep_their_data_and_rows(tiny, tmp_path):
    """This holds even if the newest checkpoint is older than the failure.

    A resume with another number of members divides the data again.
    """
    tiny["strategy"]["name"], tiny["run"]["members"] = "fl-gan", 4
    whole = config.from_dict(tiny)
    folder = remuda.run(whole, tmp_path / "run")
    reduced = failures.without(whole, 4, [1])
    before, after = assemble(whole), assemble(reduced)
    every, remaining = before.batches.draw(5, 2), after.batches.draw(5, 2)
    assert torch.equal(remaining.images, every.images[[0, 2, 3]])
    shares = before.context.shares
    assert list(after.context.shares) == [shares[0], shares[2], shares[3]]
    record = Record.open(folder)
    record.replace_config(reduced)
    checkpoint, _ = record.newest()
    weights = tensors(checkpoint)
    state = after.restore(checkpoint)
    name = "layers.0.weight"
    assert torch.equal(state.generator.params[name], weights[f"generator/params/{name}"][[0, 2, 3]])
    assert remuda.load(folder).sample(2).shape[0] == 2, "a checkpoint knows how many members it has"
    remuda.resume(folder, rounds=6)
    assert checkpoints.members(record.newest()[0]) == [0, 2, 3]
    assert "4, 1 of them lost" in (folder / "index.html").read_text()
    assert [len(line["generator_loss"]) for line in record.rounds()] == [4, 4, 4, 4, 3, 3]
    per_round = whole.strategy.batch_size * whole.strategy.steps_per_round
    images = [line["images"] for line in record.rounds()]
    assert images[-3:] == [16 * per_round, 19 * per_round, 22 * per_round]
    remuda.resume(folder, rounds=7, members=5)
    assert record.config.run.lost == () and len(record.rounds()[-1]["generator_loss"]) == 5

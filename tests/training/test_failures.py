"""What becomes of lost members: who they are, which data are left, and which rows."""

import pytest
import torch

import remuda
from remuda import config
from remuda.config import LoopConfig
from remuda.engines.communicator import LostRank
from remuda.errors import UserError
from remuda.record import Record, checkpoints
from remuda.training import failures
from remuda.training.assemble import assemble

RANKED = {"data": {"name": "folder:/data/{rank}"}, "engine": {"name": "mpi"}}


def make(strategy, on_failure="auto", **sections):
    return config.from_dict(
        {"engine": {"on_failure": on_failure}, **sections, "strategy": {"name": strategy}}
    )


@pytest.mark.parametrize(
    "strategy, action",
    [("md-gan", "drop"), ("fl-gan", "drop"), ("class-parallel", "move"), ("cellular", "move")],
)
def test_what_suits_a_strategy(strategy, action):
    assert failures.suitable_action(make(strategy)) == action
    assert failures.suitable_action(make(strategy, "move")) == "move"
    assert failures.suitable_action(make(strategy, "stop")) == "stop"


def test_what_cannot_be_is_said():
    with pytest.raises(
        UserError,
        match="this strategy cannot continue without some of its members: use move or stop",
    ):
        failures.suitable_action(make("cellular", "drop"))
    assert failures.suitable_action(make("class-parallel", **RANKED)) == "stop", (
        "the data are gone with the rank"
    )
    assert failures.suitable_action(make("md-gan", **RANKED)) == "drop"
    with pytest.raises(UserError, match="cannot take their data along"):
        failures.suitable_action(
            make("md-gan", data=RANKED["data"], engine={"name": "mpi", "on_failure": "move"})
        )


def test_who_is_lost_with_which_rank():
    """Seven members on three ranks are 3, 2 and 2; of eight that there were, number 1 was lost before."""
    before = config.from_dict({"run": {"members": 7, "lost": [1]}, "strategy": {"name": "fl-gan"}})
    assert failures.hosted_ids(before, 7, [0, 1, 2], [1]) == [4, 5]
    assert failures.hosted_ids(before, 7, [0, 2, 5], [2, 5]) == [4, 5, 6, 7], (
        "ranks by their first numbers"
    )
    after = failures.without(before, 7, [4, 5])
    assert after.run.members == 5 and after.run.lost == (1, 4, 5)
    assert after.run.member_ids(5) == [0, 2, 3, 6, 7]
    again = config.from_dict(config.to_dict(after))
    assert again.run == after.run, "as the record keeps it"


def test_whose_data_are_left():
    """Seven members on ranks 0, 2 and 5 have the data of their rank, and keep them when others are lost."""
    run = config.from_dict({**RANKED, "run": {"members": 7}, "strategy": {"name": "fl-gan"}})
    assert failures.data_ranks(run) == [], "not yet divided"
    run = failures.with_data_ranks(run, [0, 2, 5])
    assert failures.data_ranks(run) == [0, 2, 5]
    assert failures.data_ranks(failures.without(run, 7, [3, 4])) == [0, 5]
    assert failures.data_ranks(failures.without(run, 7, [3, 4, 5, 6])) == [0]
    shared = config.from_dict({"run": {"members": 6, "lost": [3]}, "strategy": {"name": "fl-gan"}})
    assert failures.with_data_ranks(shared, [0, 1]) == shared and failures.data_ranks(shared) == []


@pytest.mark.parametrize(
    "run", [{"lost": (1,)}, {"members": 3, "lost": (4,)}, {"members": 3, "lost": (-1,)}], ids=str
)
def test_losses_that_cannot_be(run):
    with pytest.raises(UserError, match=r"run\.lost="):
        LoopConfig(**run)


def test_the_words():
    assert failures.names([LostRank(1, "a")]) == "rank 1 on a was lost"
    assert (
        failures.names([LostRank(1, "a"), LostRank(4, "b")])
        == "rank 1 on a and rank 4 on b were lost"
    )
    assert failures.fate([2], "drop") == "continuing without member 2"
    assert failures.fate([2, 3, 4], "move").startswith(
        "members 2, 3 and 4 move to the remaining ranks"
    )
    assert failures.fate([], "drop") == "no member was lost"


def test_those_that_are_left_keep_their_data_and_rows(tiny, tmp_path):
    """Also if the newest checkpoint is older than the loss; and with another number of members all is shared anew."""
    tiny["strategy"]["name"], tiny["run"]["members"] = "fl-gan", 4
    whole = config.from_dict(tiny)
    folder = remuda.run(whole, tmp_path / "run")
    reduced = failures.without(whole, 4, [1])
    before, after = assemble(whole), assemble(reduced)
    real, left = before.batches.draw(5, 2), after.batches.draw(5, 2)
    assert torch.equal(left.images, real.images[[0, 2, 3]])
    assert [after.context.shares[i] for i in range(3)] == [
        before.context.shares[i] for i in (0, 2, 3)
    ]
    record = Record.open(folder)
    record.replace_config(reduced)
    checkpoint, _ = record.newest()
    weights = checkpoints.load_file(checkpoint.folder / checkpoints.TENSORS)
    state = after.restore(checkpoint)
    name = "layers.0.weight"
    assert torch.equal(state.generator.params[name], weights[f"generator/params/{name}"][[0, 2, 3]])
    assert remuda.load(folder).sample(2).shape[0] == 2, "a checkpoint knows how many members it has"
    remuda.resume(folder, rounds=6)
    assert checkpoints.members(record.newest()[0]) == [0, 2, 3]
    assert "4, 1 of them lost" in (folder / "index.html").read_text()
    assert [len(line["generator_loss"]) for line in record.rounds()] == [4, 4, 4, 4, 3, 3]
    per_round = whole.strategy.batch_size * whole.strategy.steps_per_round
    assert [line["images"] for line in record.rounds()][-3:] == [
        16 * per_round,
        19 * per_round,
        22 * per_round,
    ]
    remuda.resume(folder, rounds=7, members=5)
    assert record.config.run.lost == () and len(record.rounds()[-1]["generator_loss"]) == 5

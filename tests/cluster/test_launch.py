"""Test when ranks are started, when they are joined, and what users read if neither works."""

import importlib.util
import sys

import pytest

from remuda.cluster import launch
from remuda.cluster.environment import RANK_VARIABLES, rank_from_environment
from remuda.config import EngineConfig, from_dict
from remuda.engines import SingleProcess
from remuda.errors import UserError
from remuda.training.assemble import assemble, pytorch_settings
from tests.cli.test_cli import in_process

DIGITS = ("train", "class-parallel-digits", "--device", "cpu", "--out", "/nowhere/run")


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for names in RANK_VARIABLES:
        for name in names:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("SLURM_NTASKS", raising=False)


@pytest.mark.parametrize(
    "variables",
    [
        {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"},
        {"PMI_RANK": "2", "PMI_SIZE": "4"},
        {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4"},
    ],
    ids=lambda variables: next(iter(variables)),
)
def test_ranks_that_a_launcher_has_started_are_joined(monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert rank_from_environment() == (2, 4)
    assert launch.num_to_start(EngineConfig(name="mpi", ranks=4)) == 0


def test_missing_ranks_are_started(monkeypatch):
    assert rank_from_environment() == (0, 1)
    assert launch.num_to_start(EngineConfig(name="mpi", ranks=4)) == 4
    assert launch.num_to_start(EngineConfig(name="mpi")) == 0
    assert launch.num_to_start(EngineConfig(name="mpi", ranks=1)) == 0
    assert launch.num_to_start(EngineConfig()) == 0
    monkeypatch.setenv("SLURM_PROCID", "0")  # a batch script is not a step
    monkeypatch.setenv("SLURM_NTASKS", "8")
    assert launch.num_to_start(EngineConfig(name="mpi")) == 8
    assert launch.num_to_start(EngineConfig(name="mpi", ranks=3)) == 3


def test_the_stacked_engine_joins_no_other_process():
    with launch.join(EngineConfig()) as world:
        assert type(world) is SingleProcess and world.is_root
        assert world.all_gather({"a": 1}) == [{"a": 1}] and world.max_over_ranks(7) == 7


def test_a_missing_mpi4py_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.delitem(sys.modules, "remuda.engines.mpi.communicator", raising=False)
    status, words = in_process(*DIGITS, "--engine", "mpi")
    assert status == 2 and len(words.strip().splitlines()) == 1
    assert "needs mpi4py" in words and "remuda[mpi]" in words
    monkeypatch.delitem(sys.modules, "mpi4py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    status, words = in_process(*DIGITS, "--engine", "mpi", "--ranks", 2)
    assert status == 2 and "needs mpi4py" in words


@pytest.mark.parametrize(
    "words, sentence",
    [
        ((*DIGITS, "--ranks", "2"), "add --engine mpi"),
        ((*DIGITS, "--engine", "mpi", "--ranks", "-1"), "engine.ranks must be at least 0"),
        ((*DIGITS, "--set", "data.path=/data/{rank}"), "use --engine mpi"),
        (("bench", "class-parallel-digits", "--set", "engine.name=mpi"), "needs ranks"),
        (
            ("repeat", "class-parallel-digits", "--set", "engine.name=mpi"),
            "repeat trains in one process",
        ),
    ],
)
def test_impossible_requests_fail_with_one_sentence(words, sentence):
    status, said = in_process(*words)
    assert status == 2 and sentence in said and len(said.strip().splitlines()) == 1, said


def test_a_dry_run_needs_no_ranks():
    assert in_process(*DIGITS, "--engine", "mpi", "--ranks", "3", "--dry-run")[0] == 0


def test_threads_are_divided_among_the_ranks_of_a_host(monkeypatch):
    import torch

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(8)
        monkeypatch.setattr("remuda.training.assemble.usable_cores", lambda: 8)
        communicator = SingleProcess()
        communicator.num_sharing = 3
        with pytorch_settings(EngineConfig(), communicator):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 8, "the caller's setting is restored"
    finally:
        torch.set_num_threads(before)


def test_more_ranks_than_members_are_refused():
    from remuda.engines.mpi.spans import spans

    message = "6 ranks are more than the 5 members they would host: start at most 5 ranks"
    with pytest.raises(UserError, match=message):
        spans(5, 6)


class Pretended(SingleProcess):
    """Rank 1 of two; rank 0 reports the same facts, except for those given."""

    def __init__(self, **facts):
        super().__init__()
        self.rank, self.num_ranks, self.original_ranks = 1, 2, (0, 1)
        self.facts = facts

    def all_gather(self, facts):
        return [{**facts, **self.facts}, facts]


@pytest.mark.parametrize("facts", [{"shape": [3, 8, 8]}, {"classes": ["cat", "dog"]}], ids=str)
def test_ranks_with_different_kinds_of_data_are_refused(tiny, facts):
    with pytest.raises(
        UserError, match=f"rank 1 differ from those of rank 0 in {next(iter(facts))}"
    ):
        assemble(from_dict(tiny), Pretended(**facts))


def test_members_share_the_data_of_their_rank(toy_data, tmp_path, tiny):
    """Rank 1 hosts the last of three members; the images of rank 0 are counted too."""
    from remuda.training.shares import divide, gather_facts

    tiny["strategy"]["name"], tiny["data"] = "fl-gan", {"name": "folder:/data/{host}"}
    tiny["engine"] = {"name": "mpi"}
    config, hosts = from_dict(tiny), [range(0, 2), range(2, 3)]
    world = Pretended(counts=[1, 2, 3], sizes=[4, 2])
    shares = divide(config, toy_data, hosts, world)
    assert [len(share) for share in shares] == [0, 0, 19]
    sizes, _, facts = gather_facts(config, toy_data, shares, hosts, world)
    assert sizes == [4, 2, 19] and facts.counts == [13, 7, 5]
    assert facts.name == "folder:/data/{host}", "not the folder of one rank"
    tiny["strategy"]["weights"] = "distances"
    world = Pretended(counts=[1, 2, 3], sizes=[4, 2], class_counts=[[1, 1, 2], [0, 1, 1]])
    _, class_counts, _ = gather_facts(from_dict(tiny), toy_data, shares, hosts, world)
    assert class_counts == [[1, 1, 2], [0, 1, 1], [12, 5, 2]]
    del tiny["strategy"]["weights"]
    tiny["strategy"]["name"] = "class-parallel"
    shares = divide(from_dict(tiny), toy_data, hosts, world)
    assert shares[2].tolist() == [17, 18], "the images of its class"

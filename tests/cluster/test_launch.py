"""Who starts ranks, who joins them, and what is said where neither works."""

import sys

import pytest

from remuda.cluster import launch, mpirun
from remuda.config import EngineConfig, from_dict
from remuda.engines import World
from remuda.errors import UserError
from remuda.training.assemble import assemble
from tests.cli.test_cli import in_process

DIGITS = ("train", "class-parallel-digits", "--device", "cpu", "--out", "/nowhere/run")


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for names in launch.VARIABLES:
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
    assert launch.place() == (2, 4)
    assert launch.num_to_start(EngineConfig(name="mpi", ranks=4)) == 0


def test_ranks_that_are_not_there_are_started(monkeypatch):
    assert launch.place() == (0, 1)
    assert launch.num_to_start(EngineConfig(name="mpi", ranks=4)) == 4
    assert (
        launch.num_to_start(EngineConfig(name="mpi"))
        == launch.num_to_start(EngineConfig(name="mpi", ranks=1))
        == 0
    )
    assert launch.num_to_start(EngineConfig()) == 0
    monkeypatch.setenv("SLURM_PROCID", "0")  # a batch script, which is no step
    monkeypatch.setenv("SLURM_NTASKS", "8")
    assert launch.num_to_start(EngineConfig(name="mpi")) == 8
    assert launch.num_to_start(EngineConfig(name="mpi", ranks=3)) == 3


def test_alone():
    with launch.join(EngineConfig()) as world:
        assert (
            type(world) is World
            and world.is_root
            and world.share({"a": 1}) == [{"a": 1}]
            and world.agree(7) == 7
        )


def test_options_suit_the_launcher(tmp_path, monkeypatch):
    path = tmp_path / "mpirun"

    def version(text):
        path.write_text(f"#!/bin/sh\necho '{text}'\n")
        path.chmod(0o755)
        return mpirun.options(str(path), 2)

    monkeypatch.setattr(mpirun, "usable_cores", lambda: 2)
    assert "--with-ft" in version("mpirun (Open MPI) 5.0.11") and "--with-ft" not in version(
        "mpirun (Open MPI) 4.1.2"
    )
    assert "mpi_yield_when_idle" not in version("mpirun (Open MPI) 4.1.2")
    monkeypatch.setattr(mpirun, "usable_cores", lambda: 1)
    assert "mpi_yield_when_idle" in version("mpirun (Open MPI) 4.1.2")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "--allow-run-as-root" not in version("mpirun (Open MPI) 5.0.11")
    assert version("HYDRA build details: Version: 4.2") == []


def test_no_mpirun(monkeypatch, tmp_path):
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    status, words = in_process(*DIGITS, "--engine", "mpi", "--ranks", 2)
    assert status == 2 and "there is no mpirun" in words and len(words.strip().splitlines()) == 1


def test_no_mpi4py(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.delitem(sys.modules, "remuda.engines.mpi.communicator", raising=False)
    status, words = in_process(*DIGITS, "--engine", "mpi")
    assert (
        status == 2
        and "needs mpi4py" in words
        and "remuda[mpi]" in words
        and len(words.strip().splitlines()) == 1
    )
    monkeypatch.delitem(sys.modules, "mpi4py")
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: None)
    status, words = in_process(*DIGITS, "--engine", "mpi", "--ranks", 2)
    assert status == 2 and "needs mpi4py" in words


@pytest.mark.parametrize(
    "words, sentence",
    [
        ((*DIGITS, "--ranks", "2"), "add --engine mpi"),
        ((*DIGITS, "--engine", "mpi", "--ranks", "-1"), "engine.ranks must be at least 0"),
        ((*DIGITS, "--set", "data.path=/data/{rank}"), "use --engine mpi"),
        (("bench", "class-parallel-digits", "--set", "engine.name=mpi"), "world of ranks"),
        (
            ("repeat", "class-parallel-digits", "--set", "engine.name=mpi"),
            "repeat trains in one process",
        ),
    ],
)
def test_what_cannot_be_is_said(words, sentence):
    status, said = in_process(*words)
    assert status == 2 and sentence in said and len(said.strip().splitlines()) == 1, said


def test_a_dry_run_needs_no_ranks():
    assert in_process(*DIGITS, "--engine", "mpi", "--ranks", "3", "--dry-run")[0] == 0


def test_threads_are_divided_among_the_ranks_of_a_host(tiny, monkeypatch):
    import torch

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(8)
        monkeypatch.setattr("remuda.training.assemble.usable_cores", lambda: 8)
        world = World()
        world.num_sharing = 3
        assemble(from_dict(tiny), world)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_no_more_ranks_than_members():
    from remuda.engines.mpi.spans import spans

    with pytest.raises(
        UserError, match="6 ranks are more than the 5 members they would host: start 5 or fewer"
    ):
        spans(5, 6)


class Pretended(World):
    """Rank 1 of two, whose rank 0 says the same but for some facts."""

    rank, num_ranks, origins = 1, 2, (0, 1)

    def __init__(self, **facts):
        self.facts = facts

    def share(self, facts):
        return [{**facts, **self.facts}, facts]


@pytest.mark.parametrize("facts", [{"shape": [3, 8, 8]}, {"classes": ["cat", "dog"]}], ids=str)
def test_data_of_another_kind_are_refused(tiny, facts):
    with pytest.raises(
        UserError, match=f"rank 1 are of another kind than those of rank 0, {next(iter(facts))}"
    ):
        assemble(from_dict(tiny), Pretended(**facts))


def test_data_of_a_rank_are_shared_among_its_members(toy_data, tmp_path, tiny):
    """Rank 1 hosts the last member of three, and what rank 0 has is counted too."""
    from remuda.training.assemble import _facts, _shares

    tiny["strategy"]["name"], tiny["data"] = "fl-gan", {"name": "folder:/data/{host}"}
    tiny["engine"] = {"name": "mpi"}
    config, world, hosts = (
        from_dict(tiny),
        Pretended(counts=[1, 2, 3], sizes=[4, 2]),
        [range(0, 2), range(2, 3)],
    )
    shares = _shares(config, toy_data, hosts, world)
    assert [len(share) for share in shares] == [0, 0, 19]
    sizes, facts = _facts(config, toy_data, shares, hosts, world)
    assert sizes == [4, 2, 19] and facts.counts == [13, 7, 5]
    tiny["strategy"]["name"] = "class-parallel"
    shares = _shares(from_dict(tiny), toy_data, hosts, world)
    assert shares[2].tolist() == [17, 18], "the images of its class"

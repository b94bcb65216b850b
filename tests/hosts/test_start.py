"""Runs start on several hosts by ssh, and give the same results as on one host."""

import pytest
from safetensors.torch import load_file

from remuda.record import Record

RECIPE = ("md-gan-digits", "--members", 3, "--set", "run.sample_every=100")
RANKS = ("--engine", "mpi", "--device", "cpu")
THREE = "h1:1,h2:1,h3:1"


def checkpoint(folder, t):
    """Return the bytes of all tensors in the shards of a checkpoint."""
    shards = sorted((folder / "checkpoints" / f"round-{t:06}").iterdir())
    return {
        (shard.name, name): tensor.numpy().tobytes()
        for shard in shards
        for name, tensor in load_file(shard).items()
    }


@pytest.fixture(scope="module")
def on_one_host(network, tmp_path_factory):
    """Train on three ranks of one host."""
    folder = tmp_path_factory.mktemp("one") / "run"
    words = ("train", *RECIPE, *RANKS, "--ranks", 3, "--rounds", 2, "--out", folder)
    result = network.remuda("h1", *words)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def test_three_hosts_give_the_results_of_one(hosts, on_one_host, tmp_path):
    listed, folder = tmp_path / "nodes", tmp_path / "run"
    listed.write_text("# three machines\nh1\nh2 slots=1\nh3:1\n")
    words = ("train", *RECIPE, *RANKS, "--hosts", listed, "--rounds", 1, "--out", folder)
    result = hosts.remuda("h1", *words)
    assert result.returncode == 0 and not result.stderr, result.stdout + result.stderr
    listed.unlink()
    record = Record.open(folder)
    assert record.config.engine.hosts == THREE
    assert [rank["host"] for rank in record.status()["ranks"]] == ["h1", "h2", "h3"]
    # The resumed run starts on the same hosts, also from a host that is not the first.
    result = hosts.remuda("h2", "resume", folder, "--rounds", 2)
    assert result.returncode == 0 and not result.stderr, result.stdout + result.stderr
    assert [rank["host"] for rank in Record.open(folder).status()["ranks"]] == ["h1", "h2", "h3"]
    assert checkpoint(folder, 2) == checkpoint(on_one_host, 2)
    # --hosts changes them. All of them may be other machines.
    result = hosts.remuda("h1", "resume", folder, "--rounds", 3, "--hosts", "h3:2,h2")
    assert result.returncode == 0, result.stdout + result.stderr
    record = Record.open(folder)
    assert record.config.engine.hosts == "h3:2,h2:1"
    assert [rank["host"] for rank in record.status()["ranks"]] == ["h3", "h3", "h2"]


def test_a_single_rank_can_run_on_another_host(hosts, tmp_path):
    words = ("train", *RECIPE, *RANKS, "--hosts", "h2", "--rounds", 1, "--out", tmp_path / "run")
    result = hosts.remuda("h1", *words)
    assert result.returncode == 0 and not result.stderr, result.stdout + result.stderr
    assert "\nround 1/1 " in result.stdout, "plain lines, not a progress bar"
    assert [rank["host"] for rank in Record.open(tmp_path / "run").status()["ranks"]] == ["h2"]

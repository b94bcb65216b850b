"""Every rank saves and reads its own rows; no rank holds the whole state."""

import re
import shutil

import pytest

import remuda as library
from remuda import config
from remuda.record import Record
from tests.mpi.saving import VALUES
from tests.mpi.starting import on_ranks, remuda
from tests.training.test_growth import add_class
from tests.training.test_run import assert_same_run, final_tensors


def values(*settings):
    stacked = {**VALUES, "engine": {"device": "cpu", "threads": 1}}
    return config.from_dict(config.override(stacked, settings))


def shard_names(folder):
    return [path.name for path in Record.open(folder).newest()[0].files]


def test_a_resume_on_any_number_of_ranks_is_exact(tmp_path):
    """Members of class-parallel share nothing, so even rounding is the same."""
    settings = ["strategy.name=class-parallel", "run.checkpoint_every=0", "run.sample_every=2"]
    whole = library.run(values(*settings, "run.rounds=8"), tmp_path / "whole")
    run = library.run(values(*settings, "run.rounds=2"), tmp_path / "run")
    for rounds, ranks in ((4, 2), (6, 3)):
        words = ["--rounds", rounds, "--engine", "mpi", "--ranks", ranks]
        result = remuda("resume", run, *words)
        assert result.returncode == 0, result.stderr
        names = [f"shard-{rank:03d}-of-{ranks:03d}.safetensors" for rank in range(ranks)]
        assert shard_names(run) == names
    assert library.load(run).round == 6
    library.resume(run, rounds=8, engine="stacked")
    assert_same_run(whole, run)
    rounds = [checkpoint.round for checkpoint in Record.open(run).checkpoints()]
    assert rounds == [4, 6, 8]


def test_a_failed_write_on_one_rank_ends_all_ranks_with_one_sentence(tmp_path):
    result = on_ranks(3, "tests.mpi.saving", "fail", tmp_path / "run", 400)
    assert result.returncode == 2, result.stderr
    (sentence,) = [line for line in result.stderr.splitlines() if line.startswith("remuda: ")]
    assert "the checkpoint of round 4 could not be written" in sentence
    assert "No space left on device" in sentence and "(rank 1 on " in sentence
    assert "Traceback" not in result.stderr
    found, problems = Record.open(tmp_path / "run").newest()
    assert found.round == 2 and not problems, "round 4 is incomplete, not damaged"
    library.resume(tmp_path / "run", rounds=6, engine="stacked")
    assert Record.open(tmp_path / "run").newest()[0].round == 6


def test_ranks_that_cannot_see_the_folder_take_part(tmp_path):
    run, again = tmp_path / "run", tmp_path / "again"
    result = on_ranks(3, "tests.mpi.saving", "remote", run, 4)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("cannot see") == 1 and "(1 and 2)" in result.stdout
    assert len(shard_names(run)) == 3
    shutil.copytree(run, again)
    for folder, words in (
        (run, ["tests.mpi.saving", "remote", run, 7]),
        (again, ["remuda", "resume", again, "--rounds", 7]),
    ):
        result = on_ranks(3, *words)
        assert result.returncode == 0, result.stderr
        assert Record.open(folder).newest()[0].round == 7
    assert_same_run(run, again)
    assert final_tensors(run)


@pytest.mark.soak
def test_no_rank_needs_memory_for_more_than_its_own_rows(tmp_path):
    """Sixteen members on four ranks: the whole state is four times the rows of a rank.

    Saving needs no additional memory. Restoring needs as much as starting: the own rows, and two
    single members while they are created.
    """
    growths = {"save": [], "restore": []}
    for rounds in (1, 2):
        result = on_ranks(4, "tests.mpi.saving", "memory", tmp_path / "run", rounds)
        assert result.returncode == 0, result.stderr
        for name, growth, size in re.findall(r"(\w+): (\S+) of (\d+) MiB", result.stdout):
            growths[name].append(float(growth))
            assert int(size) > 60, "large enough to see it"
    assert len(growths["save"]) == 8 and len(growths["restore"]) == 4
    assert max(growths["save"]) < 0.2, growths
    assert max(growths["restore"]) < 1.8, growths


def test_a_class_joins_on_ranks_that_cannot_see_the_folder(tiny, tmp_path, empty_pages):
    """Ranks 1 and 2 receive the rows of the old member from rank 0, and create the new one."""
    images = tmp_path / "images"
    for name in ("cats", "dogs", "mice"):
        add_class(images, name)
    tiny["data"] = {"name": f"folder:{images}"}
    whole = library.run(config.from_dict(config.override(tiny, ["run.members=0"])), tmp_path / "a")
    run = shutil.copytree(whole, tmp_path / "run")
    add_class(images, "bears")
    library.resume(whole, rounds=6, members=4)
    result = on_ranks(3, "tests.mpi.saving", "remote", run, 6, 4)
    assert result.returncode == 0, result.stderr
    assert Record.open(run).facts.classes == ["cats", "dogs", "mice", "bears"]
    assert_same_run(whole, run)

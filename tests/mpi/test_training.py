"""Training on ranks from the command line, also stopped and resumed.

The record must equal that of ``stacked``.
"""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import remuda as library
from remuda import config
from remuda.record import Record
from tests.mpi.starting import ENVIRONMENT, on_ranks, remuda
from tests.training.test_run import assert_same_run, final_tensors, losses, write_toy_images

VALUES = {
    "data": {"name": "digits"},
    "networks": {"name": "mlp", "latent": 8, "hidden": 16},
    "strategy": {"name": "md-gan", "batch_size": 4, "steps_per_round": 3},
    "engine": {"device": "cpu", "threads": 1},
    "run": {"rounds": 6, "members": 5, "checkpoint_every": 3, "sample_every": 4},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Train on two ranks, on two ranks with a stop and a resume, and with ``stacked``."""
    folder = tmp_path_factory.mktemp("mpi")
    (folder / "small.toml").write_text(config.to_toml(config.from_dict(VALUES)))
    reached = stop_a_run(folder)
    rounds = ["--rounds", reached + 3]
    result = on_ranks(2, "remuda", "resume", folder / "parts", *rounds)
    assert result.returncode == 0, result.stderr
    assert f"from round {reached + 1} to {reached + 3}" in result.stdout
    result = remuda(*train_on_two_ranks(folder), *rounds, "--out", folder / "ranks")
    assert result.returncode == 0, result.stderr
    (folder / "printed").write_text(result.stdout)
    values = config.override(VALUES, [f"run.rounds={reached + 3}"])
    library.run(config.from_dict(values), folder / "stacked")
    return folder


def train_on_two_ranks(folder):
    return ["train", str(folder / "small.toml"), "--engine", "mpi", "--ranks", "2"]


def stop_a_run(folder):
    """Stop a run with several signals, as time limits may send them; return its last round."""
    run = folder / "parts"
    words = [*train_on_two_ranks(folder), "--rounds", "2000", "--out", str(run)]
    process = subprocess.Popen(
        [sys.executable, "-m", "remuda", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    while not (run / "rounds.jsonl").exists() or len(Record.open(run).rounds()) < 4:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
        process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert len(errors.strip().splitlines()) == 1 and f"remuda resume {run}" in errors
    reached = Record.open(run).rounds()[-1]["round"]
    assert Record.open(run).newest()[0].round == reached, "no whole round is lost"
    assert not processes_of(run), "no rank is left behind"
    return reached


def processes_of(run):
    """Return the command lines of all processes that name the run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return [line for line in found if str(run) in line]


def assert_close(a, b, name):
    """Compare numbers within rounding, also in nested lists and dicts."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), name
        a, b = list(a.values()), list(b.values())
    if isinstance(a, list):
        for one, other in zip(a, b, strict=True):
            assert_close(one, other, name)
    else:
        assert a == pytest.approx(b, abs=1e-3), name


def assert_close_runs(one, other):
    for a, b in zip(losses(one), losses(other), strict=True):
        assert a.keys() == b.keys()
        for name in a:
            assert_close(a[name], b[name], name)
    a, b = final_tensors(one), final_tensors(other)
    assert a.keys() == b.keys() and all(a[name].shape == b[name].shape for name in a)
    assert all((a[name].double() - b[name].double()).abs().max() < 2e-3 for name in a)


def test_the_record_is_complete_and_equals_that_of_stacked(folder):
    assert_close_runs(folder / "stacked", folder / "ranks")
    record, expected = Record.open(folder / "ranks"), Record.open(folder / "stacked")
    grids, expected_grids = record.sample_grids(), expected.sample_grids()
    assert [path.name for path in grids] == [path.name for path in expected_grids]
    assert (folder / "ranks" / "index.html").exists()
    assert record.config.engine.name == "mpi" and record.config.engine.ranks == 2
    assert library.load(folder / "ranks").sample(3).shape == (3, 1, 8, 8)


def test_only_one_rank_prints(folder):
    printed = (folder / "printed").read_text()
    assert printed.count("training 5 members from round 1 to") == 1 and "\x1b" not in printed
    assert printed.count("page:") == 1


def test_a_resume_on_the_same_number_of_ranks_is_exact(folder):
    assert_same_run(folder / "ranks", folder / "parts")


def test_a_resume_may_change_the_ranks_and_the_engine(folder):
    """Resume from stacked to three ranks under the user's own mpirun, to one rank, and back."""
    run, whole = folder / "wandering", library.run(config.from_dict(VALUES), folder / "six")
    values = config.override(VALUES, ["run.rounds=2"])
    library.run(config.from_dict(values), run)
    result = on_ranks(3, "remuda", "resume", run, "--rounds", 3, "--engine", "mpi")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("page:") == 1
    assert remuda("resume", run, "--rounds", 4, "--ranks", 1).returncode == 0
    assert Record.open(run).config.engine.ranks == 1
    library.resume(run, rounds=6, engine="stacked")
    assert Record.open(run).config.engine == config.from_dict(VALUES).engine
    assert_close_runs(whole, run)


def test_rank_0_sends_the_run_to_trackers(folder):
    pytest.importorskip("tensorboard")
    words = [*train_on_two_ranks(folder), "--rounds", 2, "--set", 'run.trackers=["tensorboard"]']
    result = remuda(*words, "--out", folder / "tracked")
    assert result.returncode == 0, result.stderr
    assert Record.open(folder / "tracked").trackers()["tensorboard"].rounds == 2
    assert len(list((folder / "tracked" / "tensorboard").iterdir())) == 1  # one process wrote


def test_divergence_ends_all_ranks_with_one_sentence(folder):
    words = ["remuda", "train", folder / "small.toml", "--engine", "mpi"]
    settings = ["--set", "strategy.loss=least-squares", "--set", "strategy.discriminator_lr=1e30"]
    result = on_ranks(2, *words, "--out", folder / "diverged", *settings)
    assert result.returncode == 2, result.stderr
    assert re.search(r"_loss of member \d became (nan|inf|-inf) in round \d", result.stderr)
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr


def test_each_rank_may_have_its_own_data(folder, toy_data):
    """If a rank has no images, the message names the rank."""
    for rank in range(2):  # 19 and 15 images
        write_toy_images(toy_data, folder / f"images-{rank}", first=4 * rank)
    (folder / "images-1" / "dark" / "broken.png").write_bytes(b"")
    data = f"data.name=folder:{folder}/images-{{rank}}"
    settings = ["--set", data, "--set", "run.members=3", "--rounds", 2]
    settings += ["--set", "data.storage=disk", "--skip-broken"]
    words = ["remuda", "train", folder / "small.toml", *settings, "--engine", "mpi"]
    result = on_ranks(2, *words, "--out", folder / "own", "--set", "strategy.name=fl-gan")
    assert result.returncode == 0, result.stderr
    facts = Record.open(folder / "own").facts
    assert facts.counts == [20, 10, 4] and facts.skipped == 1
    refused = remuda("resume", folder / "own", "--rounds", 3, "--ranks", 1)
    assert refused.returncode == 2
    assert "belong to ranks 0, 1, but this job has 1 rank: use --ranks 2" in refused.stderr
    for rounds in (3, 4):  # the second resume uses as many ranks as the first
        more = [] if rounds == 4 else ["--ranks", 2]
        assert remuda("resume", folder / "own", "--rounds", rounds, *more).returncode == 0
    starts = json.loads((folder / "own" / "environment.json").read_text())
    assert [start["ranks"] for start in starts] == [2, 2, 2]
    (folder / "images-1").rename(folder / "elsewhere")
    result = on_ranks(2, *words, "--out", folder / "never")
    assert result.returncode == 2
    assert "images-1" in result.stderr and "(rank 1 on " in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1 and not (folder / "never").exists()

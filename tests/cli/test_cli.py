"""Run the commands as a user types them, and check what they say to bad input."""

import contextlib
import io
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
import typer
from PIL import Image

import remuda
from remuda import cli, config, data, recipes
from remuda.cli import app
from remuda.model import scoring
from tests import own as own_parts


def call(*words, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "remuda", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "120", **environment},
        timeout=300,
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a small configuration, trained once."""
    folder = tmp_path_factory.mktemp("cli")
    values = {
        "networks": {"name": "mlp", "hidden": 8},
        "strategy": {"name": "class-parallel", "batch_size": 4, "steps_per_round": 1},
        "engine": {"device": "cpu"},
        "run": {"rounds": 2},
    }
    (folder / "small.toml").write_text(config.to_toml(config.from_dict(values)))
    result = call(
        "train", "small.toml", "--members", 3, "--seed", 5, "--set", "run.rounds=3", cwd=folder
    )
    assert result.returncode == 0, result.stderr
    return folder, result.stdout


def test_a_pipe_gets_whole_tables():
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    words = [sys.executable, "-m", "remuda", "list", "--all"]
    result = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=300)
    for name in recipes.names():
        about = re.escape(recipes.read(name)[1]["about"])
        assert re.search(rf"^{name} .* {about} *$", result.stdout, re.MULTILINE), name


def test_the_set_of_commands_and_flags_is_frozen():
    """Few flags; the rest is --set. Changing this set is a decision, not an accident."""
    group = typer.main.get_command(app)
    assert {option for parameter in group.params for option in parameter.opts} == {
        "--version",
        "--install-completion",
        "--show-completion",
    }
    commands = group.commands  # type: ignore[attr-defined]
    flags = {name: {option for p in c.params for option in p.opts} for name, c in commands.items()}
    assert flags == {
        "train": {
            "recipe",
            "--out",
            "--members",
            "--rounds",
            "--engine",
            "--ranks",
            "--hosts",
            "--restarts",
            "--device",
            "--seed",
            "--data",
            "--set",
            "--dry-run",
            "--skip-broken",
            "--trust",
        },
        "resume": {
            "run",
            "--rounds",
            "--device",
            "--members",
            "--engine",
            "--ranks",
            "--hosts",
            "--restarts",
            "--set",
            "--trust",
        },
        "join": {"run", "--hosts", "--ranks", "--members", "--trust"},
        "sample": {
            "run",
            "--n",
            "--label",
            "--walk",
            "--frames",
            "--out",
            "--seed",
            "--checkpoint",
            "--best",
            "--device",
            "--trust",
        },
        "export": {
            "run",
            "--to",
            "--label",
            "--member",
            "--out",
            "--checkpoint",
            "--best",
            "--trust",
        },
        "data": {"name", "--anova", "--data", "--set"},
        "bench": {"recipe", "--device", "--data", "--set", "--trust"},
        "score": {
            "run",
            "--with",
            "--n",
            "--checkpoint",
            "--best",
            "--reference",
            "--classifier",
            "--seed",
            "--device",
            "--data",
            "--site",
            "--ranks",
            "--hosts",
            "--set",
            "--trust",
        },
        "compare": {"runs", "--round", "--format", "--out"},
        "repeat": {
            "recipe",
            "--seeds",
            "--first-seed",
            "--out",
            "--device",
            "--data",
            "--set",
            "--trust",
        },
        "reproduce": {
            "name",
            "--short",
            "--out",
            "--seeds",
            "--data",
            "--device",
            "--set",
            "--from",
            "--dry-run",
            "--markdown",
        },
        "traffic": {"recipe", "--members", "--out", "--data", "--set", "--trust"},
        "scaling": {
            "recipe",
            "--ranks",
            "--strong",
            "--weak",
            "--repeats",
            "--rounds",
            "--link",
            "--out",
            "--data",
            "--set",
            "--trust",
        },
        "mixture": {"run", "--checkpoint", "--n", "--optimise", "--device", "--data", "--trust"},
        "profile": {"run"},
        "report": {"run"},
        "watch": {"folder", "--host", "--port"},
        "status": {"run", "--watch"},
        "doctor": {"--ranks", "--hosts"},
        "check": {"part", "--set"},
        "list": {"part", "--all", "--papers"},
        "show": {"recipe"},
    }


def test_train_names_what_it_made(trained):
    folder, printed = trained
    assert "training 3 members from round 1 to 3 in runs/small-001" in printed
    assert "round 3/3" in printed and "images/s" in printed
    for name in ("samples/round-000003.png", "index.html"):
        assert f"runs/small-001/{name}" in printed and (folder / "runs/small-001" / name).exists()


def test_the_next_run_gets_the_next_number(trained):
    folder, _ = trained
    result = call("train", "small.toml", "--rounds", 1, cwd=folder)
    assert result.returncode == 0 and "runs/small-002" in result.stdout


def test_a_dry_run_writes_nothing(tmp_path):
    result = call("train", "class-parallel-digits", "--dry-run", "--device", "cpu", cwd=tmp_path)
    assert result.returncode == 0 and not list(tmp_path.iterdir())
    for text in ("10 members", "parameters", "batch_size = 32"):
        assert text in result.stdout


def test_sample_to_a_grid_a_row_per_label_and_a_folder(trained, tmp_path):
    run = trained[0] / "runs/small-001"

    def sample(*words):
        assert call("sample", run, *words).returncode == 0

    sample("--n", 20, "--out", tmp_path / "a.png")
    sample("--n", 5, "--label", "all", "--out", tmp_path / "b.png")
    side = 35  # images enlarged to 32 pixels, and a margin of 3
    assert Image.open(tmp_path / "a.png").size == (8 * side + 3, 3 * side + 3)
    width, height = Image.open(tmp_path / "b.png").size  # with the names of the classes
    assert height == 3 * side + 3 and 5 < width - (5 * side + 3) < 20
    sample("--n", 4, "--label", "all", "--out", tmp_path / "images")
    again = data.load(data.DataConfig(name=f"folder:{tmp_path / 'images'}"))
    assert again.counts == [4, 4, 4] and again.shape == (1, 8, 8)
    assert again.classes == ("0", "1", "2")


def test_walk_between_points(trained, tmp_path, capsys):
    run = trained[0] / "runs/small-001"

    def walk(*words):
        status, complaints = in_process("sample", run, "--walk", *words)
        assert status == 0, complaints
        return capsys.readouterr().out

    printed = walk("0", "2:1").splitlines()
    assert "were trained independently" in printed[0] and len(printed) == 2
    assert printed[1] == f"walk of round 3: {run / 'walk.png'}"
    assert Image.open(run / "walk.png").size == (8 * 35 + 3, 35 + 3)
    walk("1:0", "1:1", "--n", 2, "--frames", 3, "--out", tmp_path / "walk.gif")
    picture = Image.open(tmp_path / "walk.gif")
    assert picture.size == (2 * 35 + 3, 35 + 3) and picture.n_frames == 3


def test_export_writes_a_folder_that_works_by_itself(trained, tmp_path, capsys):
    run = trained[0] / "runs/small-001"
    assert in_process("export", run, "--to", "hub") == (0, "")
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"model of round 3: {run / 'export-hub'}",
        f"upload: hf upload USER/small-001 {run / 'export-hub'} .",
    ]
    out = tmp_path / "my model"
    moved = tmp_path / "first ~ run #1.5"
    shutil.copytree(run, moved)
    assert in_process("export", moved, "--to", "hub", "--out", out) == (0, "")
    upload = f"upload: hf upload USER/first-run-1.5 '{out}' ."
    assert capsys.readouterr().out.splitlines()[1:] == [upload]
    model = runpy.run_path(str(run / "export-hub" / "load.py"))["load"]()
    noise = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    expected = remuda.load(run).sample(4, labels=[0, 1, 2, 2], noise=noise)
    assert torch.equal(model.sample(4, labels=[0, 1, 2, 2], noise=noise), expected)


def test_the_other_commands(trained, monkeypatch, capsys):
    folder, _ = trained
    monkeypatch.chdir(folder)

    def printed(*words):
        status, complaints = in_process(*words)
        assert status == 0, complaints
        return capsys.readouterr().out

    listed = printed("list")
    assert "class-parallel-digits" in listed and "runs/small-001" in listed
    shown = printed("data", "digits", "--anova")
    assert "1,501" in shown or "1501" in shown
    printed("report", "runs/small-001")
    expected = printed("bench", "small.toml", "--set", "run.rounds=2000")
    pattern = r"(?s)small.toml on cpu: .* images/s\n.* 2,000 rounds with 1 step of [\d.]+ ms"
    assert re.search(pattern, expected), expected
    printed("resume", "runs/small-001", "--rounds", 4)
    assert remuda.load(folder / "runs/small-001").round == 4


def test_bench_measures_each_recipe_in_its_own_process(monkeypatch):
    """Otherwise the second recipe would find everything imported, and seem to start faster."""
    commands = []

    def run(command, **_):
        commands.append(command[1:])
        return subprocess.CompletedProcess(command, 3 if len(commands) == 2 else 0)

    monkeypatch.setattr(subprocess, "run", run)
    status, _ = in_process("bench", "--set", "run.rounds=2")
    assert status == 3  # the status of the second recipe, after which no other is measured
    more = ["--set", "run.rounds=2"]
    assert commands == [
        ["-m", "remuda", "bench", "cellular-async-digits", *more],
        ["-m", "remuda", "bench", "cellular-digits", *more],
    ]


def bad(tmp_path) -> dict[tuple, str]:
    """Return command lines that cannot work, each with a part of the sentence that says why."""
    run = tmp_path / "runs/small-001"
    empty, corrupt, idx, flat = (tmp_path / name for name in ("empty", "corrupt", "idx", "flat"))
    empty.mkdir(exist_ok=True)
    (corrupt / "a").mkdir(parents=True, exist_ok=True)
    (corrupt / "a" / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    (idx / "mnist").mkdir(parents=True, exist_ok=True)
    for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
        (idx / "mnist" / name).write_bytes(b"\x00\x00\x08\x03\x00\x00")
    flat.write_text("a file")
    into = ("train", "class-parallel-digits", "--device", "cpu", "--out")
    digits = (*into, tmp_path / "never")
    return {
        ("train", "class-parallel-digts"): "did you mean class-parallel-digits",
        ("train", tmp_path / "none.toml"): "no such file",
        (*digits, "--set", "strategy.batchsize=3"): "did you mean batch_size?",
        (*digits, "--set", "data.sise=3"): "did you mean size?",
        (*digits, "--set", "strategy.batch_size=none"): "expected a whole number, not 'none'",
        (*digits, "--rounds", "0"): "run.rounds must be at least 1",
        (*digits, "--members", "11"): "10 classes",
        (*digits, "--engine", "stackd"): "did you mean stacked?",
        (*digits, "--device", "cuda:77"): "engine.device=cuda:77",
        (*digits, "--set", "data.name=cifar11"): "did you mean cifar10",
        (*digits, "--set", "networks.name=dcgan", "--set", "data.size=9"): "data.size",
        (*digits, "--set", f"data.name=folder:{empty}"): str(empty),
        (*digits, "--set", f"data.name=folder:{corrupt}"): "x.png",
        (*digits, "--set", f"data.name=folder:{tmp_path / 'nowhere'}"): "nowhere",
        (*digits, "--set", "data.name=mnist", "--data", idx): "train-",
        (*into, flat / "run"): "choose another --out",
        (*into, "/proc/run"): "choose another --out",
        (*into, run): "not empty: remuda resume",
        ("resume", empty): "not a run",
        ("resume", tmp_path / "nowhere"): "not a run",
        ("sample", run, "--label", "12"): "labels are 0 to 2",
        ("sample", run, "--label", "cat"): "labels are 0 to 2",
        ("sample", run, "--n", "0"): "at least 1",
        ("sample", run, "--checkpoint", "77"): "no checkpoint of round 77",
        ("sample", run, "--out", "x.gif"): "use a name that ends in .png",
        ("sample", run, "--device", "tpu"): "engine.device=tpu is unknown",
        ("sample", run, "--device", "cuda:77"): "engine.device=cuda:77",
        ("sample", run, "--frames", "3"): "--frames requires --walk",
        ("sample", run, "--best"): "keeps no best checkpoint: choose a round with --checkpoint",
        ("score", run, "--best", "--checkpoint", "2"): "--best cannot be combined",
        ("sample", run, "--walk", "0"): "option '--walk' requires 2 arguments",
        ("sample", run, "--walk", "0", "1", "--label", "all"): "--label cannot be combined with",
        ("sample", run, "--walk", "0", "9"): "labels are 0 to 2",
        ("sample", run, "--walk", "0", "1", "--n", "0"): "not 8 frames and 0 rows",
        ("sample", run, "--walk", "0", "1", "--out", "x.mp4"): "use a name that ends in .png",
        ("sample", empty): "not a run",
        ("export", run, "--to", "pickle"): "format pickle is unknown",
        ("export", run, "--label", "12"): "labels are 0 to 2",
        ("export", run, "--member", "1"): "select one with --label",
        ("export", run, "--out", tmp_path): "export overwrites nothing",
        ("export", run, "--checkpoint", "77"): "no checkpoint of round 77",
        ("report", empty): "",
        ("data", "mnits"): "did you mean mnist",
        (*digits, "--ranks", "2"): "engine.ranks=2 requires MPI: add --engine mpi",
        ("train",): "missing argument 'RECIPE|FILE.toml'; see remuda train --help",
        ("trian",): "no such command 'trian'; did you mean remuda train?",
        ("train", "class-parallel-digits", "--no-such-flag"): "no such option: --no-such-flag",
        (*digits, "--rounds", "many"): "invalid value for '--rounds'",
        ("compare", run, "--format", "pdf"): "choose from text, csv, markdown, latex",
        ("compare", run, "--out", flat / "x.csv"): "choose another file with --out",
        ("reproduce", "cellular-table-3", "--short", "--out", flat): "is a file",
    }


def test_bad_input_gets_one_sentence_and_status_2(trained):
    """All commands run in this process, which is faster; ``main`` catches the same errors."""
    folder, _ = trained
    for words, sentence in bad(folder).items():
        result = in_process(*words)
        assert result[0] == 2, (words, result)
        assert "Traceback" not in result[1] and sentence in result[1], (words, result)
        if sentence:
            assert len(result[1].strip().splitlines()) == 1, (words, result)
    assert not (folder / "never").exists(), "nothing is created for a run that cannot start"


def in_process(*words):
    """Return the status and stderr of a command without starting a new interpreter."""
    stderr = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["remuda", *map(str, words)]),
        contextlib.redirect_stderr(stderr),
        mock.patch("signal.signal"),
    ):
        try:
            cli.main()
        except SystemExit as stop:
            return stop.code, re.sub(r"\x1b\[[0-9;]*m", "", stderr.getvalue())
    return 0, stderr.getvalue()


def test_a_stop_outside_of_the_loop_is_reported(trained, monkeypatch):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(scoring, "score", stop)
    assert in_process("score", trained[0] / "run") == (130, "stopped\n")


def test_a_refused_resume_leaves_the_record_alone(trained, tmp_path):
    run = tmp_path / "a run"
    assert in_process("train", trained[0] / "small.toml", "--out", run)[0] == 0
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    for words, why in (
        (["--rounds", 1], "already reached round 2"),
        (["--rounds", 4, "--members", 1], "cannot continue"),
    ):
        status, said = in_process("resume", run, *words)
        assert status == 2 and why in said, said
        assert {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()} == before
    refused = in_process("train", trained[0] / "small.toml", "--out", run)[1]
    assert f"remuda resume '{run}', or choose" in refused


def test_a_nan_ends_a_run_with_a_sentence(trained, tmp_path):
    result = call(
        "train", trained[0] / "small.toml", "--out", tmp_path / "run", "--rounds", 9,
        "--set", "strategy.loss=least-squares", "--set", "strategy.discriminator_lr=1e30",
        "--set", "run.checkpoint_every=1",
    )  # fmt: skip
    assert result.returncode == 2
    pattern = r"_loss of member \d became (nan|inf|-inf) in round \d"
    assert re.search(pattern, result.stderr), result.stderr
    assert "Traceback" not in result.stderr and len(result.stderr.strip().splitlines()) == 1


def test_a_disk_that_fills_up_ends_a_run_with_a_sentence(trained, tmp_path):
    """A limit on the size of files stands in for a full disk; earlier checkpoints stay intact."""
    run = tmp_path / "run"
    assert in_process("train", trained[0] / "small.toml", "--out", run)[0] == 0
    script = f"ulimit -f 10; exec {sys.executable} -m remuda resume {run} --rounds 9"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=300)
    assert result.returncode == 2 and "Traceback" not in result.stderr, result.stderr
    assert "cannot write" in result.stderr and "remuda resume" in result.stderr
    assert remuda.load(run).round == 2
    assert in_process("resume", run)[0] == 0 and remuda.load(run).round == 9


def test_python_m_and_the_installed_command_are_the_same():
    assert Path(sys.executable).with_name("remuda").exists() or "remuda" in call("--help").stdout


def test_brackets_in_a_path_are_no_markup(trained):
    folder, _ = trained
    result = call(
        "train", "small.toml", "--rounds", 1, "--out", "a[/b]", "--members", 1, cwd=folder
    )
    assert result.returncode == 0, result.stderr
    assert " in a[/b]" in result.stdout and "page:    a[/b]/index.html" in result.stdout
    result = call("compare", "a[/b]", cwd=folder, PYTHONIOENCODING="latin-1")
    assert result.returncode == 0, result.stderr


def test_a_full_memory_gets_a_sentence(trained, tmp_path):
    folder, _ = trained
    result = call(
        "train", "small.toml", "--out", tmp_path, "--set", "networks.hidden=99999999", cwd=folder
    )
    assert result.returncode == 2
    assert result.stderr.startswith("remuda: the memory is full: lower"), result.stderr


@pytest.fixture
def own(tmp_path):
    """A folder with a recipe that names the user's own networks, and a run of it."""
    (tmp_path / "mine.py").write_text(own_parts.TEXT + f"# {tmp_path}\n")
    (tmp_path / "mine.toml").write_text(
        '[networks]\nname = "mine.py:Tiny"\n'
        '[strategy]\nname = "md-gan"\nbatch_size = 4\nsteps_per_round = 1\n'
        '[run]\nmembers = 2\nrounds = 1\n[engine]\ndevice = "cpu"\n'
    )
    folder = tmp_path / "run"
    result = call("train", tmp_path / "mine.toml", "--out", folder, cwd=tmp_path.parent)
    assert result.returncode == 0, result.stderr
    return folder


def test_code_of_a_run_needs_trust(own):
    for words in (["resume", own], ["sample", own], ["score", own], ["join", own, "--ranks", 1]):
        result = call(*words)
        assert result.returncode == 2 and len(result.stderr.splitlines()) == 1, result.stderr
        assert "brings its own code" in result.stderr and "add --trust" in result.stderr
    result = call("train", own / "config.toml", "--out", own.parent / "again")
    assert result.returncode == 2 and "add --trust" in result.stderr
    (own.parent / "mine.py").write_text("# changed\n")
    result = call("resume", own, "--rounds", 2, "--trust", "--set", "run.sample_every=1")
    assert result.returncode == 0, result.stderr
    assert "mine.py has changed since the run started" in result.stdout
    assert (own / "samples" / "round-000002.png").exists()
    result = call("sample", own, "--trust")
    assert result.returncode == 0 and (own / "sample.png").exists(), result.stderr


def test_parts_and_recipes_are_shown(own, tmp_path):
    printed = call("list", own.parent / "mine.py").stdout
    assert re.search(r'^networks.name = ".*mine.py:Tiny": Two small perceptrons.$', printed, re.M)
    assert re.search(r"^hidden +whole number +16 +neurons in the hidden layer, >= 1", printed, re.M)
    assert re.search(r"^latent +whole number +8 +length of the noise vector", printed, re.M)
    assert re.search(r"^factor +number +2.0 +Multiplies nothing", printed, re.M)
    assert 'strategy.loss = "' in printed and 'data.name = "' in printed
    assert 'scores.kinds = "' in printed
    shown = call("show", own.parent / "mine.toml").stdout
    (tmp_path / "elsewhere").mkdir()
    copy = tmp_path / "elsewhere" / "copy.toml"
    copy.write_text(shown)
    assert recipes.recipe(str(copy)).networks.latent == 8, "paths are absolute"
    text = (recipes.FOLDER / "md-gan-digits.toml").read_text()
    assert call("show", "md-gan-digits").stdout == text
    for words in (["list", "mlpp"], ["show", "md-gan-digit"], ["list", "nothing.py"]):
        result = call(*words)
        assert result.returncode == 2 and len(result.stderr.splitlines()) == 1


def test_settings_change_at_a_resume(own):
    result = call("resume", own, "--trust", "--rounds", 2, "--set", "networks.hidden=9")
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1, result.stderr
    result = call("resume", own, "--trust", "--set", "strategy.batch=9")
    assert result.returncode == 2 and "did you mean" in result.stderr
    result = call("resume", own, "--trust", "--rounds", 2, "--set", "data.name=folder:/nowhere")
    assert result.returncode == 2 and "/nowhere" in result.stderr


LAZY = """
from remuda.strategies import Standalone
class Lazy(Standalone):
    def round(self, context, engine, state, real, t):
        return state.nothing
"""


@pytest.mark.parametrize(("variable", "status"), [("", 2), ("1", 1)])
def test_an_error_in_users_code_is_one_sentence(tmp_path, variable, status):
    """The message names the line; REMUDA_TRACEBACK shows how the code was called."""
    (tmp_path / "mine.py").write_text(LAZY)
    words = ["train", "standalone-digits", "--device", "cpu", "--set", "strategy.name=mine.py:Lazy"]
    done = call(*words, "--out", "run", cwd=tmp_path, REMUDA_TRACEBACK=variable)
    assert done.returncode == status and ("Traceback" in done.stderr) == (status == 1)
    if status == 2:
        sentence = f"{tmp_path / 'mine.py'}, line 5, failed (AttributeError: 'Pair' object"
        assert sentence in done.stderr and done.stderr.count("\n") == 1

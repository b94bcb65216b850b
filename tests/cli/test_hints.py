"""Hints for near misses work when they are typed."""

import shlex
from pathlib import Path

import pytest
import typer

from remuda.cli import app, hints
from remuda.config import from_dict, override
from remuda.errors import UserError
from tests.cli.test_cli import in_process

GROUP = typer.main.get_command(app)
COMMANDS = GROUP.commands  # type: ignore[attr-defined]
TRAIN = ["train", "class-parallel-digits"]
CASES = {
    "--epochs 5": "use --rounds 5",
    "--num_epochs=5": "use --rounds 5",
    "--lr 0.001": "use --set strategy.generator_lr=0.001 --set strategy.discriminator_lr=0.001",
    "--batch-size 16": "use --set strategy.batch_size=16",
    "--batch_size 16": "use --set strategy.batch_size=16",
    "--gpu": "use --device cuda",
    "--gpu 1": "use --device cuda:1",
    "--cuda": "use --device cuda",
    "--cpu": "use --device cpu",
    "--output 'my run'": "use --out 'my run'",
    "--name first": "use --out runs/first",
    "--dataset mnist": "use --set data.name=mnist",
    "--np 4": "use --engine mpi --ranks 4",
    "--round 3": "did you mean --rounds?",
    "--resume": "use the command remuda resume RUN",
    "--no-such-flag": "see remuda train --help",
}


@pytest.mark.parametrize(("typed", "hint"), CASES.items())
def test_options_of_other_tools(typed, hint):
    status, said = in_process(*TRAIN, *shlex.split(typed))
    option = typed.partition(" ")[0].partition("=")[0]
    assert (status, said) == (2, f"remuda: no such option: {option}; {hint}\n")


@pytest.mark.parametrize("template", hints.OPTIONS)
def test_replacements_exist(template):
    """A command has all flags of a replacement, and every --set names a setting."""
    words = template.replace("{}", "8").split()
    flags = {word for word in words if word.startswith("--")}
    known = [
        {option for one in command.params for option in one.opts} for command in COMMANDS.values()
    ]
    assert any(flags <= options for options in known)
    numbers = [word for word in words if "=" in word and "name" not in word and "loss" not in word]
    from_dict(override({}, numbers))


def test_the_same_option_means_different_things():
    assert in_process("sample", "a", "--epoch", 3)[1].endswith("use --checkpoint 3\n")
    assert "strategy" not in in_process("score", "a", "--batch-size", 3)[1]
    assert in_process("score", "a", "--num-samples", 3)[1].endswith("use --n 3\n")


@pytest.mark.parametrize(
    ("typed", "hint"),
    {
        "trian": "did you mean remuda train?",
        "Resume": "did you mean remuda resume?",
        "fit": "use remuda train",
        "generate": "use remuda sample",
        "eval": "use remuda score",
        "xyzzy": "see remuda --help",
    }.items(),
)
def test_commands_of_other_tools(typed, hint):
    assert in_process(typed) == (2, f"remuda: no such command '{typed}'; {hint}\n")


def test_every_replacement_is_a_command_and_no_command_is_replaced():
    assert set(hints.COMMANDS) <= set(COMMANDS)
    assert not {word for words in hints.COMMANDS.values() for word in words} & set(COMMANDS)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    for name in ("runs/cats-001", "runs/cats-002", "mine"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.toml").write_text("[run]\nrounds = 3\n")
    monkeypatch.chdir(tmp_path)


def test_a_name_stands_for_a_run_in_runs(runs, capsys):
    assert hints.found_run(Path("cats-001")) == Path("runs/cats-001")
    assert hints.found_run(Path("mine")) == Path("mine")
    assert hints.found_run(Path("runs/cats-002")) == Path("runs/cats-002")
    assert hints.found_run(Path("nothing")) == Path("nothing")
    both = [Path("cats-001"), Path("mine")]
    assert hints.found_runs(both) == [Path("runs/cats-001"), Path("mine")]
    with pytest.raises(UserError, match=r"^cats-01 is not a run: did you mean runs/cats-001\?$"):
        hints.found_run(Path("cats-01"))
    for command in ("resume", "sample", "score", "report", "export", "mixture", "profile", "join"):
        assert in_process(command, "cts-001")[1].endswith("did you mean runs/cats-001?\n"), command


def test_a_run_is_no_recipe(runs):
    for typed in ("runs/cats-001", "cats-001"):
        for command in ("train", "bench", "repeat", "show"):
            status, said = in_process(command, typed)
            assert status == 2 and "continue it with remuda resume runs/cats-001, or" in said


def test_a_run_does_not_hide_the_recipe_of_its_name(runs):
    assert in_process("show", TRAIN[1])[0] == 0
    for folder in (Path("runs") / TRAIN[1], Path(TRAIN[1])):
        folder.mkdir()
        (folder / "config.toml").write_text("")
        assert in_process("show", TRAIN[1])[0] == 0, f"the run is {folder}"


def test_classes_in_another_case():
    names = ["Cat", "dog", "DOG", "a:b"]
    found = [hints.found_class(name, names) for name in ("cat", "Cat", "dog", "Dog", "bird", "3")]
    assert found == ["Cat", "Cat", "dog", "Dog", "bird", "3"], "Dog could be dog or DOG"
    points = [hints.found_point(name, names) for name in ("cat:1", "CAT", ":3", "A:B", "A:B:2")]
    assert points == ["Cat:1", "Cat", ":3", "a:b", "a:b:2"]

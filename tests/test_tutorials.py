"""Run every command and program of the tutorials in order, with shorter training."""

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from remuda import recipes
from remuda.cli import app
from tests import test_docs
from tests.test_docs import COMMANDS, blocks

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ["getting-started.md", "choosing.md", "tutorials/own-images.md"]
RANKS = ["tutorials/several-sites.md", "tutorials/cluster.md"]  # see tests/mpi/test_tutorials.py
BRIEF = ["--set", "strategy.steps_per_round=2"]
SHORTER = {  # what is added to commands that take long
    "train": ["--rounds", "2", *BRIEF],
    "resume": ["--rounds", "3"],
    "repeat": [
        "--set",
        "run.rounds=1",
        *BRIEF,
        "--set",
        "scores.samples=50",
        "--set",
        "scores.kinds=fid",
    ],
    "bench": BRIEF,
    "score": ["--n", "100"],
}
SMALLER = ["--set", "data.size=16", "--set", "networks.width=8", "--set", "strategy.batch_size=4"]
# Other tests run these: test_release.py installs remuda, slurm/ submits the batch scripts, and
# experiments/test_scaling.py measures on one and two ranks.
ELSEWHERE = ("python3 ", ". ", "pip ", "sbatch ", "remuda scaling ")


def steps(page: Path) -> Iterator[tuple[str, str]]:
    """Return the commands and programs of a page in order, as a language and a text."""
    pattern = r"^```(sh|python)\n(.*?)^```"
    for language, text in re.findall(pattern, page.read_text(), re.MULTILINE | re.DOTALL):
        if language == "python":
            yield language, text
            continue
        for line in text.replace("\\\n", " ").splitlines():
            yield language, line


def shortened(line: str) -> list[str]:
    """Return the words of a command after remuda, so that it takes only a moment."""
    program, command, *rest = shlex.split(line, comments=True)
    assert program == "remuda", line
    smaller = SMALLER if "standalone-folder-64" in rest else []
    return [command, *rest, *SHORTER.get(command, []), *smaller]


def follow(page: Path, call: Callable[[list[str]], None]) -> int:
    """Do what a page says, and return the number of commands."""
    count = 0
    for language, text in steps(page):
        if language == "python":
            exec(compile(text, page.name, "exec"), {})
        elif not text.startswith(ELSEWHERE):
            call(shortened(text))
            count += 1
    return count


def shown(path: Path) -> list[list[str]]:
    """Return the words of all commands in the blocks of a page."""
    text = "\n".join(blocks(path, r"\w*")).replace("\\\n", " ")
    lines = re.findall(r"^(?:\$ )?remuda ([a-z][^>&\n]*)", text, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines if "..." not in line]


def test_commands_of_all_pages_are_valid(tmp_path, monkeypatch):
    """Flags have values of the right type, and the settings of a recipe fit together."""
    monkeypatch.chdir(tmp_path)  # in a checkout, `make demo` leaves runs, which commands refer to
    count = 0
    for path in test_docs.PAGES:
        for name, *words in shown(path):
            context = COMMANDS[name].make_context(name, list(words))
            recipe, settings = context.params.get("recipe"), context.params.get("settings")
            own = any(".py:" in word for word in words)  # parts that other tests define
            if recipe in recipes.names() and not own:
                recipes.recipe(recipe, *(settings or []))
                count += 1
    assert count > 100


def test_every_tutorial_is_tested():
    found = {str(path.relative_to(DOCS)) for path in (DOCS / "tutorials").glob("*.md")}
    assert found == {page for page in [*PAGES, *RANKS] if page.startswith("tutorials/")}


def in_process(words: list[str]) -> None:
    """Run a command in this process, which has imported PyTorch already."""
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, f"{words}: {result.output}{result.exception}"


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_a_tutorial_work(name, tmp_path, monkeypatch, empty_pages):
    monkeypatch.chdir(tmp_path)
    assert follow(DOCS / name, in_process) > 4

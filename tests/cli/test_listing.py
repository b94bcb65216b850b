"""``remuda list`` is short, and leads to everything else."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from remuda import recipes
from remuda.cli import listing
from tests.cli.test_cli import in_process

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def printed(monkeypatch, capsys):
    def call(*words, width=80):
        monkeypatch.setattr(listing.console, "width", width, raising=False)
        status, complaints = in_process("list", *words)
        assert status == 0, complaints
        return capsys.readouterr().out

    return call


def test_the_short_list_has_one_line_per_recipe(printed, monkeypatch):
    shown = [name for names in listing.GROUPS.values() for name in names]
    assert len(shown) == len(set(shown)) and set(shown) <= set(recipes.names())
    console = Console(width=80, file=io.StringIO())
    monkeypatch.setattr(listing, "console", console)
    listing._print_groups()
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 1 + len(shown) + len(listing.GROUPS)
    assert all(len(line) <= 80 for line in lines)


def test_the_readme_shows_the_list(printed):
    """Lines may be left out, and the reader has other runs."""
    block = re.search(r"^\$ remuda list\n(.*?)^```", README.read_text(), re.M | re.S)
    assert block is not None
    lines = iter([line.rstrip() for line in printed(width=200).splitlines()])
    for line in block[1].splitlines():
        if line != "..." and not line.startswith("runs "):
            assert line in lines, f"{line}: missing, or in another order"


def test_all_recipes_and_those_of_papers(printed):
    everything, papers = printed("--all"), printed("--papers")
    for name in recipes.names():
        assert f"\n{name} " in everything
        assert (f" {name} " in papers) == bool(recipes.read(name)[1].get("paper")), name
    assert "  table III  cellular-mnist-2x2" in papers
    assert in_process("list", "mlp", "--all")[0] == 2


def test_only_the_newest_runs_are_listed(printed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for i in range(7):
        (tmp_path / f"runs/a-{i}").mkdir(parents=True)
        (tmp_path / f"runs/a-{i}/config.toml").write_text("")
    assert "runs/a-5, runs/a-6, and 2 more (remuda status runs)" in " ".join(printed().split())
    assert "runs/a-0" in printed("--all")

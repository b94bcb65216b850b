"""The command `remuda reproduce`, and the page that it writes."""

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from remuda import recipes
from remuda.cli import app
from remuda.errors import UserError
from remuda.experiments.papers import RESULTS, Options, as_markdown, plan

PAGE = Path(__file__).parents[3] / "docs" / "papers.md"


def call(*arguments):
    result = CliRunner().invoke(app, ["reproduce", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_the_list_has_every_name_and_state():
    text = call()
    for name, result in RESULTS.items():
        if result.form is not None:
            line = next(line for line in text.splitlines() if line.startswith(f"{name} "))
            assert result.state in line
    assert "needs data: CelebA" in text and "Not a result: figure 1" in text


def test_a_paper_is_listed_by_its_name():
    text = call("w-cgan")
    assert "w-cgan-table-3" in text and "cellular-table-3" not in text


@pytest.mark.parametrize("name", [[], ["w-cgan"]])
def test_options_for_runs_need_the_name_of_a_result(name):
    with pytest.raises(UserError, match=r"--short, --seeds needs the name of a table or figure"):
        call(*name, "--short", "--seeds", 2)


def test_the_page_shows_the_list_of_the_command():
    """If this fails, replace the list in the page by the output of the command."""
    shown = PAGE.read_text().partition("<!-- list -->\n\n")[2].partition("\n<!-- end -->")[0]
    assert shown == call("--markdown") == as_markdown()


def test_a_dry_run_trains_nothing(tmp_path):
    text = call("md-gan-figure-3", "--dry-run", "--out", tmp_path / "a", "--device", "cpu")
    assert "18 runs; nothing was trained" in text and not (tmp_path / "a").exists()
    assert "remuda train md-gan-mnist-mlp --set 'engine.device=\"cpu\"' --seed 0" in text
    assert "md-gan-figure-3-mlp/fl-gan-b-100/seed-000: 833 rounds, new" in text


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("data", [None, Path("/some data")])
def test_the_commands_of_a_dry_run_train_the_same(short, data):
    options = Options(out=Path("my runs"), short=short, seeds=2, data=data)
    for result in RESULTS.values():
        wanted = [run for work in result.works for run in work.plan(options, 2)]
        for (folder, config), run in zip(wanted, plan(result, options), strict=True):
            recipe, typed = typed_options(run.command)
            assert typed["--out"] == [str(folder)]
            changes = [*typed["--set"], f"run.seed={typed['--seed'][0]}"]
            if "--ranks" in typed:
                changes += [
                    f"engine.name={typed['--engine'][0]}",
                    f"engine.ranks={typed['--ranks'][0]}",
                ]
            assert recipes.recipe(recipe, *changes) == config, run.command


def typed_options(command):
    """Return the recipe of a train command, and the values of its options."""
    remuda, train, recipe, *words = shlex.split(command)
    assert (remuda, train) == ("remuda", "train")
    typed = {"--set": []}
    for name, value in zip(words[::2], words[1::2], strict=True):
        typed.setdefault(name, []).append(value)
    return recipe, typed


def test_wrong_arguments():
    with pytest.raises(UserError, match="did you mean md-gan-figure-3"):
        call("mdgan-figure-3")
    with pytest.raises(UserError, match="--seeds must be at least 1"):
        call("md-gan-figure-3", "--seeds", "0")
    with pytest.raises(UserError, match="is not a run"):
        call("md-gan-figure-3-mlp", "--from", "nowhere")
    with pytest.raises(UserError, match="leave one of them out"):
        call("md-gan-figure-3-mlp", "--from", "nowhere", "--dry-run")


def test_a_short_reproduction(tmp_path, empty_pages):
    tiny = {
        "data.name": "digits",
        "data.size": "0",
        "networks.name": "mlp",
        "networks.hidden": "8",
        "strategy.batch_size": "4",
        "scores.every": "0",
    }
    settings = [word for key, value in tiny.items() for word in ("--set", f"{key}={value}")]
    arguments = "class-parallel-table-6", "--short", "--device", "cpu", "--out", tmp_path
    text = call(*arguments, *settings)
    place = tmp_path / "class-parallel-table-6-short"
    assert f"class-parallel-table-6: {place / 'class-parallel-table-6-short.png'}" in text
    assert (tmp_path / "class-parallel-table-5-short/dc-gan/seed-000/config.toml").is_file()
    assert "**short**" in (place / "class-parallel-table-6-short.md").read_text()

"""The descriptions are complete, their settings are valid, and their numbers are the papers'."""

import math
import re
from pathlib import Path

import pytest

from remuda import recipes
from remuda.errors import UserError
from remuda.experiments.papers import PAPERS, RESULTS, Options, find
from remuda.experiments.papers.works import Study

REAL = [result for result in RESULTS.values() if result.form is not None]
by_name = pytest.mark.parametrize("result", REAL, ids=lambda result: result.name)
# The numbers of tables and figures in each paper.
PRINTED = {
    "cellular": {"table": range(1, 5), "figure": range(1, 5)},
    "md-gan": {"table": range(1, 5), "figure": range(1, 7)},
    "class-parallel": {"table": range(1, 21), "figure": range(1, 5)},
    "w-cgan": {"table": range(1, 5), "figure": range(1, 7)},
}


def test_no_table_and_no_figure_is_missing():
    wanted = {
        f"{paper}-{kind}-{number}"
        for paper, kinds in PRINTED.items()
        for kind, numbers in kinds.items()
        for number in numbers
    }
    found = {re.match(r".*-(table|figure)-\d+", name)[0] for name in RESULTS}
    assert found == wanted and {paper.name for paper in PAPERS} == set(PRINTED)


@by_name
@pytest.mark.parametrize("short", [False, True])
def test_runs_are_valid(result, short):
    options = Options(short=short)
    assert len({work.name for work in result.works}) == len(result.works)
    for work in result.works:
        assert work.home in RESULTS and work.recipe in recipes.names()
        config = work.config(options)
        assert config.run.rounds >= (2 if isinstance(work, Study) else 1)
        if not isinstance(work, Study) and "samples of" not in result.caption:
            assert config.scores.every, f"{work.name} is not scored"


@by_name
def test_a_result_says_everything_that_users_need(result):
    assert result.form.names == {work.name for work in result.works}
    assert all(math.isfinite(number) for number in result.form.numbers)
    assert result.protocol and result.caption
    assert bool(result.needs) == (result.state == "needs data")
    assert bool(result.page) == (result.state in ("measured", "analytic"))
    assert (not result.works) == (result.state == "analytic")


def test_runs_that_several_results_share_are_the_same():
    known = {}
    for result in REAL:
        for work in result.works:
            assert known.setdefault((work.home, work.name), work) == work


def test_short_runs_are_short():
    for result in REAL:
        for work in result.works:
            config = work.config(Options(short=True))
            assert config.strategy.steps_per_round <= 50
            if not isinstance(work, Study):
                assert config.run.rounds <= 5 and config.scores.samples <= 500


def test_the_papers_numbers_are_those_of_the_recipes():
    """The numbers in recipes were typed independently."""
    checked = 0
    for result in REAL:
        numbers = set(result.form.numbers)
        for work in result.works:
            paper = recipes.recipe(work.recipe).paper
            known = {value for value in paper.values() if isinstance(value, float)}
            table = str(paper.get("table", "")) in (result.number.split()[-1], result.name[-1])
            if (
                known
                and numbers
                and table
                and result.name.startswith(("cellular-table-3", work.home))
            ):
                assert known <= numbers, (result.name, work.recipe)
                checked += 1
    assert checked >= 9 + 6


def test_names_of_figures_stand_for_their_parts():
    assert [one.name for one in find("md-gan-figure-3")] == [
        "md-gan-figure-3-mlp",
        "md-gan-figure-3-cnn",
        "md-gan-figure-3-cifar10",
    ]
    assert [one.name for one in find("class-parallel-table-1x".replace("1x", "13"))] == [
        "class-parallel-table-13"
    ]


@pytest.mark.parametrize(
    "name, message",
    [
        ("celular-table-3", "did you mean cellular-table-3"),
        ("md-gan-figure-7", "did you mean md-gan-figure-"),
        ("md-gan", "no table or figure"),
        ("nonsense", "without a name to see all names"),
        ("md-gan-table-1", "shows no result"),
    ],
)
def test_unknown_names(name, message):
    with pytest.raises(UserError, match=message):
        find(name)


def test_folders_say_what_they_are():
    work = RESULTS["md-gan-figure-5-mlp"].works[0]
    assert work.folder(Options()) == Path("runs/reproduce/md-gan-figure-3-mlp/standalone-b-10")
    short = work.folder(Options(short=True, out=Path("a")))
    assert short == Path("a/md-gan-figure-3-mlp-short/standalone-b-10")


def test_folders_of_images_are_inside_the_data_folder():
    (work, *_) = RESULTS["md-gan-figure-6"].works
    config = work.config(Options(data=Path("/images")))
    assert config.data.name == "folder:/images/celeba" and config.data.path == ""
    (work, *_) = RESULTS["md-gan-figure-4"].works
    assert work.config(Options(data=Path("/images"))).data.path == "/images"

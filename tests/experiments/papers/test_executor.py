"""Train the runs of a result: new, finished, interrupted and failed ones; the command."""

import re
from dataclasses import replace

import pytest

from remuda.errors import Interrupted, UserError
from remuda.experiments.papers import RESULTS, Options, plan, refuse_gaps, reproduce
from remuda.experiments.papers.tables import Column, Row, Table
from remuda.experiments.papers.values import minutes_of_training
from remuda.experiments.papers.works import Training
from remuda.record import Reader
from tests.experiments.test_repeats import Listener
from tests.reports.page.records import make_record
from tests.training.test_run import StopAfter

TINY = (
    "strategy.batch_size=4",
    "strategy.steps_per_round=2",
    "networks.hidden=8",
    "engine.device=cpu",
    "run.rounds=3",
    "run.checkpoint_every=1",
)


@pytest.fixture
def result():
    """Return a table of two runs on digits."""
    works = tuple(
        Training(name=name, home="cellular-table-3", recipe="standalone-digits", settings=TINY)
        for name in ("one", "two")
    )
    column = Column(title="minutes", extract=minutes_of_training)
    rows = tuple(Row(title=work.name, key=work.name, paper={"minutes": 7.5}) for work in works)
    form = Table(corner="run", columns=(column,), rows=rows)
    return replace(RESULTS["cellular-table-3"], works=works, form=form, seeds=2)


@pytest.fixture(autouse=True)
def fast(empty_pages):
    """Do not draw pages."""


def test_runs_are_trained_once(result, tmp_path):
    listener = Listener()
    options = Options(out=tmp_path, short=True, new_progress=lambda: listener)
    outcome = reproduce(result, options)
    place = tmp_path / "cellular-table-3-short"
    assert outcome.files[0] == place / "cellular-table-3-short.md" and not outcome.gaps
    assert [name for name, _ in listener.begun] == ["seed-000"] * 2
    assert (place / "two/seed-000/config.toml").is_file()
    assert all(run.state == "finished" for run in plan(result, options))
    before = outcome.files[0].read_text()
    assert reproduce(result, options).files[0].read_text() == before
    assert len(listener.begun) == 2 and len(listener.notes) == 2
    assert "| run | minutes, paper | minutes, here |" in before and "| one | 7.5 |" in before


def test_an_interrupted_run_is_resumed(result, tmp_path):
    options = Options(out=tmp_path, seeds=1, new_progress=lambda: StopAfter(2))
    with pytest.raises(Interrupted, match="run the same command again"):
        reproduce(result, options)
    assert not (tmp_path / "cellular-table-3/cellular-table-3.md").exists()
    first, second = plan(result, options)
    assert first.state.startswith("resume at round 2, about ") and second.state == "new"
    assert f"--out {second.folder}" in second.command
    assert first.command == f"remuda resume {first.folder} --rounds 3"
    listener = Listener()
    reproduce(result, replace(options, new_progress=lambda: listener))
    assert [reached for _, reached in listener.begun] == [2, 0]
    assert Reader.open(first.folder).num_rounds() == 3


def test_an_interrupted_measurement_starts_again(tmp_path):
    """A resumed run would include a second start-up, so reproduce removes its folder."""
    result, options = RESULTS["cellular-table-3"], Options(out=tmp_path, short=True)
    folder = plan(result, options)[0].folder
    make_record(folder, rounds=1, planned=2)
    again = plan(result, options)[0]
    assert again.state.startswith("new")
    assert again.command.startswith(f"rm -r {folder} && remuda train cellular-mnist-2x2 ")


def test_a_failed_run_leaves_a_gap(result, tmp_path):
    broken = replace(
        result.works[0], settings=(*TINY, "data.name=mnist", f'data.path="{tmp_path}"')
    )
    result = replace(result, works=(broken, result.works[1]))
    notes = []
    missing = {"REMUDA_DATA_URL": f"file://{tmp_path}/nothing"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in missing.items():
            patch.setenv(name, value)
        outcome = reproduce(result, Options(out=tmp_path / "out", seeds=1, notify=notes.append))
    text = outcome.files[0].read_text()
    assert "| one | 7.5 | gap (1) |" in text and "gap (1): " in text and "mnist" in text
    assert re.search(r"\| two \| 7\.5 \| [\d.]+ \|", text)
    assert any("one failed: " in note for note in notes)
    with pytest.raises(UserError, match="1 run failed, so the result has gaps: one: "):
        refuse_gaps([outcome])


def test_another_length_needs_another_folder(result, tmp_path):
    reproduce(result, Options(out=tmp_path, seeds=1))
    shorter = Options(out=tmp_path, seeds=1, settings=("run.rounds=2",))
    outcome = reproduce(result, shorter)
    assert "choose another --out" in outcome.gaps["one"]

"""A run ends early by time or by patience, as it would end after its last round."""

import json
from dataclasses import replace

import pytest

import remuda
from remuda import config
from remuda.errors import UserError
from remuda.experiments.repeats import repeat
from remuda.record import Reader, Record
from remuda.reports import page, status
from remuda.reports.compare import compare
from remuda.training import recorder
from remuda.training.state import Phase
from tests.training.driving import Driver
from tests.training.grading import NAME, Grader, with_scores
from tests.training.test_run import StopAfter, assert_same_run, make

VALUES = {2: 5, 4: 3, 6: 4, 8: 6, 9: 1, 10: 7, 12: 8}
TINY_BUDGET = 1e-6  # minutes; any round takes longer


class Notes(remuda.Progress):
    def __init__(self):
        self.notes, self.started = [], None

    def start(self, folder, rounds, reached, num_members):
        self.started = rounds, reached

    def note(self, text):
        self.notes.append(text)


def reached(folder):
    return Reader.open(folder).rounds()[-1]["round"]


def extended(folder, **run):
    recorded = Record.open(folder).config
    return replace(recorded, run=replace(recorded.run, **run))


def test_a_time_budget_ends_a_run_like_its_last_round(tiny, tmp_path):
    tiny["scores"] = {"every": 100, "samples": 50, "kinds": "fid"}
    tiny["run"] |= {"checkpoint_every": 100, "sample_every": 100}
    notes = Notes()
    run = make(tiny, rounds=50, max_minutes=TINY_BUDGET)
    folder = remuda.run(run, tmp_path / "run", notes)
    reader = Reader.open(folder)
    assert reached(folder) == 1 and reader.newest()[0].round == 1
    assert reader.has_scores(1) and len(reader.sample_grids()) == 1
    why = json.loads((folder / "status.json").read_text())["why"]
    assert why.startswith("stopped after ") and why.endswith(" of 1e-06 minutes")
    assert f"{why}, with round 1" in notes.notes
    found = status.read(folder)
    assert found.state == "finished" and found.remarks == [why]
    assert why in (folder / "index.html").read_text() and page.run.read(folder).ending.why == why
    assert f"{folder}: reached round 1 of 50, {why}." in compare([folder]).notes


def test_an_ended_run_says_how_to_train_longer(tiny, tmp_path, empty_pages):
    whole = remuda.run(make(tiny), tmp_path / "whole")
    folder = remuda.run(make(tiny, max_minutes=TINY_BUDGET), tmp_path / "run")
    notes = Notes()
    remuda.resume(folder, progress=notes)
    (note,) = notes.notes
    assert notes.started == (1, 1)
    assert "nothing is left to train; to train longer, run remuda resume" in note
    remedy = note.split("--set run.max_minutes=")[1]
    assert 60 * float(remedy) > Reader.open(folder).rounds()[0]["seconds"]
    assert reached(folder) == 1
    remuda.resume(folder, config=extended(folder, max_minutes=0.0))
    # The round that ended the run has a picture that the other run does not have.
    Reader.open(folder).sample_path(1).unlink()
    assert_same_run(whole, folder)


def test_minutes_are_those_of_all_rounds_of_all_sessions(tiny, tmp_path, empty_pages):
    with pytest.raises(remuda.Interrupted):
        remuda.run(make(tiny, rounds=50), tmp_path / "run", StopAfter(3))
    seconds = sum(line["seconds"] for line in Reader.open(tmp_path / "run").rounds())
    budget = (seconds + 1e-4) / 60
    remuda.resume(tmp_path / "run", config=extended(tmp_path / "run", max_minutes=budget))
    assert reached(tmp_path / "run") == 4


def test_a_budget_that_is_not_used_up_changes_nothing(tiny, tmp_path, empty_pages):
    one = remuda.run(make(tiny), tmp_path / "one")
    other = remuda.run(make(tiny, max_minutes=60.0), tmp_path / "other")
    assert_same_run(one, other)
    assert json.loads((other / "status.json").read_text())["why"] == ""


@pytest.mark.parametrize("is_overlapped", [False, True])
def test_patience_ends_a_run(tiny, tmp_path, monkeypatch, empty_pages, is_overlapped):
    """Rounds 6 and 8 are not better than round 4. This is known after round 9, the next one."""
    monkeypatch.setattr(recorder, "is_overlapped", lambda device: is_overlapped)
    grader = Grader(VALUES, seconds=0.1 if is_overlapped else 0.0)
    monkeypatch.setattr(recorder, "score_round", grader)
    values = with_scores(tiny, every=2, rounds=12, patience=2, keep_checkpoints=1)
    notes = Notes()
    folder = remuda.run(config.from_dict(values), tmp_path / "run", notes)
    why = f"stopped because {NAME} has not improved in 2 scorings since round 4 (3)"
    assert notes.notes == [f"{why}, with round 9"]
    assert grader.rounds == [2, 4, 6, 8, 9]
    saved = [checkpoint.round for checkpoint in Reader.open(folder).checkpoints()]
    assert saved == [9], "the last round turned out to be the best"
    remuda.resume(folder, progress=notes)
    assert notes.notes[-1].endswith("--set run.patience=4") and reached(folder) == 9
    remuda.resume(folder, config=extended(folder, patience=4))
    assert reached(folder) == 12 and grader.rounds[5:] == [10, 12]


def test_a_run_that_improves_is_not_stopped(tiny, tmp_path, monkeypatch, empty_pages):
    monkeypatch.setattr(recorder, "score_round", Grader({t: 10 - t for t in range(1, 9)}))
    values = with_scores(tiny, rounds=8, patience=1)
    assert reached(remuda.run(config.from_dict(values), tmp_path / "run")) == 8


def test_all_ranks_end_with_the_same_round(tiny, tmp_path):
    driver = Driver({**tiny, "run": {**tiny["run"], "max_minutes": TINY_BUDGET}}, tmp_path / "run")
    driver.run_until(Phase.RECORD)
    driver.advance()
    assert driver.training.is_last and driver.training.reached.round == 1
    driver.run()
    assert driver.phases[-4:] == [Phase.COMPUTE, Phase.RECORD, Phase.KEEP, Phase.FINISH]
    driver.close()


def test_ranks_that_meet_again_know_that_the_run_is_over(tiny, tmp_path):
    """A failure may come when only rank 0 knows it. The others learn it when they meet."""
    driver = Driver({**tiny, "run": {**tiny["run"], "max_minutes": TINY_BUDGET}}, tmp_path / "run")
    driver.run_until(Phase.KEEP, after=1)
    driver.training = replace(driver.training, phase=Phase.MEET, is_last=False)
    driver.advance()
    assert driver.training.is_last
    driver.close()


def test_finished_repeats_are_kept_and_may_train_longer(tiny, tmp_path, empty_pages):
    short = make(tiny, rounds=3, max_minutes=TINY_BUDGET)
    folder = tmp_path / "repeats"
    repeat(short, folder, 2)
    notes = []

    class Seen(Notes):
        def note(self, text):
            notes.append(text)

    repeat(short, folder, 2, progress=Seen)
    assert notes == [f"{folder / f'seed-00{seed}'} is finished" for seed in range(2)]
    repeat(make(tiny, rounds=3), folder, 2)
    assert [reached(folder / f"seed-00{seed}") for seed in range(2)] == [3, 3]


@pytest.mark.parametrize(
    "setting, sentence",
    [
        ({"max_minutes": -1}, r"run\.max_minutes must be a number of minutes, or 0 .*not -1"),
        ({"max_minutes": float("nan")}, r"run\.max_minutes must be a number of minutes"),
        ({"patience": -1}, r"run\.patience must be at least 0, not -1"),
        ({"patience": 3}, r"run\.patience=3 needs a score to watch: set run\.keep_best"),
    ],
)
def test_impossible_settings_are_refused(setting, sentence):
    with pytest.raises(UserError, match=sentence):
        config.from_dict({"run": setting})

"""Trackers receive a whole run, each round once, and never stop the training."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest

import remuda
from remuda import config
from remuda.errors import Interrupted, UserError
from remuda.record import Record
from remuda.reports import status
from remuda.reports.page.facts import facts
from remuda.reports.page.run import read as read_page
from remuda.system.trackers import TRACKERS, Link, Tracker
from remuda.system.trackers.base import picture_name
from remuda.training.progress import Progress
from remuda.training.tracking import MOST_MEMBERS, Tracking, values_of
from tests.conftest import TINY
from tests.training.test_run import StopAfter
from tests.training.tracked import pictures, read

NAMES = list(TRACKERS)
ENDED = {"tensorboard": "finished", "wandb": "finished", "mlflow": "FINISHED"}

# Trains a run and kills itself after round 3, when the newest checkpoint has round 2.
KILLED = """
import os, signal, sys, time
import remuda
from remuda.record import Record

class KillAfter(remuda.Progress):
    def round(self, line):
        if line["round"] == 3:
            record = Record(sys.argv[2])
            while [entry.rounds for entry in record.trackers().values()] != [3, 3, 3]:
                time.sleep(0.01)
            while not (record.newest()[0] and record.newest()[0].round == 2):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)

remuda.run(remuda.recipe(sys.argv[1]), sys.argv[2], progress=KillAfter())
"""


@pytest.fixture(autouse=True, scope="module")
def offline(tmp_path_factory):
    """Use no account, no server and no settings of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("WANDB_MODE", "offline")
        for name in [*os.environ]:
            if name.startswith(("WANDB_", "MLFLOW_")) and name != "WANDB_MODE":
                patch.delenv(name)
        yield


def make(**run) -> config.RunConfig:
    return config.from_dict({**TINY, "run": {**TINY["run"], **run}})


# The trackers themselves


@pytest.fixture(scope="module")
def resumed(tmp_path_factory) -> tuple[Path, dict]:
    """A run that was killed after round 3 and resumed, and its links before the resume."""
    for package in ("tensorboard", "wandb", "mlflow", "sqlalchemy", "alembic"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("tracked")
    values = {**TINY, "run": {**TINY["run"], "trackers": NAMES, "sample_every": 1}}
    values["scores"] = {"every": 2, "samples": 50, "kinds": "fid"}
    (folder / "tracked.toml").write_text(config.to_toml(config.from_dict(values)))
    words = [sys.executable, "-c", KILLED, str(folder / "tracked.toml"), str(folder / "run")]
    done = subprocess.run(words, timeout=120, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    before = Record.open(folder / "run").trackers()
    remuda.resume(folder / "run", rounds=5)
    return folder / "run", before


@pytest.mark.parametrize("name", NAMES)
def test_a_tracker_receives_every_round_once(resumed, name):
    folder, _ = resumed
    seen, lines = read(folder, name), Record.open(folder).rounds()
    assert [line["round"] for line in lines] == [1, 2, 3, 4, 5]
    for metric in ("generator_loss", "discriminator_loss"):
        for member in range(3):
            expected = [(line["round"], pytest.approx(line[metric][member])) for line in lines]
            assert sorted(seen.values[f"{metric}/member {member}"]) == expected
        means = [(line["round"], pytest.approx(sum(line[metric]) / 3)) for line in lines]
        assert sorted(seen.values[f"{metric}/mean"]) == means
    for counter in ("images_per_second", "memory"):
        assert [t for t, _ in seen.values[counter]] == [1, 2, 3, 4, 5]
    assert seen.values["memory"][-1][1] == pytest.approx(lines[-1]["memory"], rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_tracker_receives_scores_pictures_settings_and_the_state(resumed, name):
    folder, _ = resumed
    seen, scores = read(folder, name), Record.open(folder).scores()
    assert [score.round for score in scores] == [2, 4, 5]
    expected = [(score.round, pytest.approx(score.value)) for score in scores]
    assert seen.values[f"scores/{scores[0].name}"] == expected
    floors = [(score.round, pytest.approx(score.floor)) for score in scores]
    assert seen.values[f"floors/{scores[0].name}"] == floors
    assert seen.pictures == [1, 2, 3, 4, 5]
    assert seen.state == ENDED[name]
    assert "class-parallel" in str(seen.settings) and "batch_size" in str(seen.settings)


def test_tensorboard_compares_runs_by_their_settings(resumed):
    """Its tab HPARAMS shows them next to all scalars of a run."""
    folder, _ = resumed
    parameters = read(folder, "tensorboard").parameters
    assert parameters["strategy.name"].string_value == "class-parallel"
    assert parameters["strategy.batch_size"].number_value == 4
    assert parameters["networks.conditional"].bool_value is False
    assert parameters["run.trackers"].string_value == str(NAMES)


def test_cells_are_pictures_of_their_own(tmp_path, fake):
    pytest.importorskip("tensorboard")
    cells = {"name": "cellular", "height": 1, "mixture_samples": 8, "batch_size": 4}
    run = {**TINY["run"], "members": 0, "trackers": ["fake", "tensorboard"], "rounds": 2}
    values = {**TINY, "strategy": {**cells, "steps_per_round": 2}, "run": run}
    folder = remuda.run(config.from_dict(values), tmp_path / "run")
    assert of_kind(fake, "cells") == of_kind(fake, "picture") == [2]
    for kind in ("cells", "samples"):
        assert pictures(folder, "tensorboard", kind) == [2]


@pytest.mark.parametrize("name", NAMES)
def test_a_resume_continues_the_same_run_of_the_tracker(resumed, name):
    folder, before = resumed
    entry = Record.open(folder).trackers()[name]
    assert entry.id == before[name].id and read(folder, name).ids == {entry.id}
    assert (folder / entry.place).exists()
    assert (entry.rounds, entry.scores, entry.samples) == (5, 5, 5)


def test_status_and_page_show_where_the_run_is(resumed):
    folder, _ = resumed
    entries = Record.open(folder).trackers()
    text = "\n".join(status._lines(status.read(folder)))
    for name, entry in entries.items():
        assert f"{name}: {entry.place}, up to round 5" in text
        assert (name, entry.place) in facts(read_page(folder))


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_package_stops_the_run_before_it_starts(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"pip install 'remuda\[{name}\]'"):
        remuda.run(make(trackers=[name]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_wandb_without_an_account_names_the_remedy(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_MODE")
    with pytest.raises(UserError, match="wandb login, or set WANDB_MODE=offline"):
        remuda.run(make(trackers=["wandb"]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_wandb_tells_what_a_killed_run_has_uploaded(tmp_path, monkeypatch):
    """Without a server: the object that W&B returns is replaced."""
    wandb = pytest.importorskip("wandb")
    run = MagicMock(id="abc", offline=False, url="http://example.org/abc", summary={"reached": 3})
    monkeypatch.setattr(wandb, "init", MagicMock(return_value=run))
    monkeypatch.setenv("WANDB_API_KEY", "key")
    monkeypatch.delenv("WANDB_MODE")
    tracker = TRACKERS["wandb"](tmp_path)
    assert tracker.start(Link("abc", ""), {}) == Link("abc", "http://example.org/abc")
    assert wandb.init.call_args.kwargs["id"] == "abc"
    assert tracker.rewind(5) == 3  # rounds 4 and 5 are sent again
    assert tracker.rewind(4) is None  # after a failure of ranks, W&B has everything


def test_an_unreachable_server_does_not_stop_the_training(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    notes = Notes()
    folder = remuda.run(make(trackers=["mlflow"]), tmp_path / "run", progress=notes)
    assert len(Record.open(folder).rounds()) == 4
    (note,) = notes.texts
    assert note.startswith("the tracker mlflow failed (") and "127.0.0.1" in note


# How a run is sent


class Notes(Progress):
    """Keep all messages."""

    def __init__(self):
        self.texts = []

    def note(self, text):
        self.texts.append(text)


class Fake(Tracker):
    """Keep events in a list that all instances share; fail on demand."""

    events: list = []  # noqa: RUF012
    fails_at = 0
    can_rewind = False

    def start(self, link, settings):
        self.events.append(("start", link.id if link else None))
        return link or Link("7", "http://example.org/7")

    def rewind(self, reached):
        self.events.append(("rewind", reached))
        return reached if self.can_rewind else None

    def log(self, t, values):
        if t == self.fails_at:
            raise ConnectionError("no\nroute")
        self.events.append(("scores" if "scores/" in str(values) else "round", t))

    def picture(self, t, path):
        self.events.append(("cells" if picture_name(path) == "cells" else "picture", t))

    def end(self, state):
        self.events.append(("end", state))


@pytest.fixture
def fake(monkeypatch, empty_pages):
    class Own(Fake):
        events: list = []  # noqa: RUF012

    monkeypatch.setitem(TRACKERS, "fake", Own)
    return Own


def of_kind(fake, kind) -> list:
    return [value for name, value in fake.events if name == kind]


def test_a_failing_tracker_is_reported_once_and_a_resume_sends_the_rest(tmp_path, fake):
    fake.fails_at = 2
    notes = Notes()
    folder = remuda.run(make(trackers=["fake"]), tmp_path / "run", progress=notes)
    assert notes.texts == [
        "the tracker fake failed (no route): training continues without it; "
        f"remuda resume {folder} sends what is missing"
    ]
    assert len(Record.open(folder).rounds()) == 4 and of_kind(fake, "round") == [1]
    fake.fails_at = 0
    remuda.resume(folder)  # all rounds are trained, so it only sends
    assert of_kind(fake, "round") == [1, 2, 3, 4] and of_kind(fake, "picture") == [2, 4]
    assert of_kind(fake, "start") == [None, "7"] and of_kind(fake, "end") == ["finished"]


def test_a_damaged_file_stops_the_run_before_it_trains(tmp_path, fake):
    folder = remuda.run(make(trackers=["fake"]), tmp_path / "run")
    (folder / "trackers.json").write_text('{"fake": {"id": 7}}')
    with pytest.raises(UserError, match=r"trackers\.json cannot be read .*: remove it"):
        remuda.resume(folder, rounds=5)
    (folder / "trackers.json").unlink()
    remuda.resume(folder, rounds=5)
    assert of_kind(fake, "start") == [None, None]


def test_a_tracker_does_not_change_the_training(tmp_path, fake):
    one = remuda.run(make(), tmp_path / "one")
    other = remuda.run(make(trackers=["fake"]), tmp_path / "other")
    losses = [
        [line["generator_loss"] for line in Record.open(folder).rounds()] for folder in (one, other)
    ]
    assert losses[0] == losses[1]


def test_a_stopped_run_and_a_failed_run_have_their_states(tmp_path, fake, monkeypatch):
    with pytest.raises(Interrupted):
        remuda.run(make(trackers=["fake"]), tmp_path / "a", progress=StopAfter(2))
    assert of_kind(fake, "end") == ["stopped"]
    monkeypatch.setattr("remuda.training.recorder.save_grid", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        remuda.run(make(trackers=["fake"]), tmp_path / "b")
    assert of_kind(fake, "end") == ["stopped", "failed"]


@pytest.mark.parametrize("can_rewind", [False, True])
def test_rounds_that_run_again_after_a_failure(tmp_path, fake, can_rewind):
    fake.can_rewind = can_rewind
    record = Record.create(tmp_path / "run", make(trackers=["fake"]), example_facts())
    with record.locked(), Tracking(["fake"], record, print) as tracking:
        tracking.start(record.folder, 4, 0, 3)
        for t in (1, 2, 3):
            tracking.round(line_of(t))
        record.replace_config(make(trackers=["fake"], members=2, lost=[1]))
        tracking.rewind(1, 2)
        for t in (2, 3, 4):
            tracking.round(line_of(t, num_members=2))
    again = [2, 3, 4] if can_rewind else [4]
    assert of_kind(fake, "round") == [1, 2, 3, *again]
    assert of_kind(fake, "rewind") == [0, 1]
    assert list(tracking.mirrors[0].member_ids) == [0, 2]


def example_facts():
    from remuda.record.facts import DataFacts

    return DataFacts(name="digits", shape=(1, 8, 8), classes=["a"], counts=[4])


def line_of(t, num_members=3) -> dict:
    losses = [float(i) for i in range(num_members)]
    return {"round": t, "loss": losses, "seconds": 1.0, "images": 4, "images_per_second": 4.0}


def test_values_name_members_by_their_ids():
    line = {**line_of(1, 2), "server_loss": [5.0], "traffic": {"take": 3}}
    assert values_of(line, [0, 2]) == {
        "loss/mean": 0.5,
        "loss/member 0": 0.0,
        "loss/member 2": 1.0,
        "server_loss/mean": 5.0,
        "seconds": 1.0,
        "images": 4,
        "images_per_second": 4.0,
    }


def test_a_large_herd_sends_only_means():
    count = MOST_MEMBERS + 1
    assert "loss/member 0" not in values_of(line_of(1, count), range(count))
    assert "loss/member 0" in values_of(line_of(1, count - 1), range(count - 1))


# The setting


def test_unknown_trackers_are_refused():
    with pytest.raises(UserError, match=r"run\.trackers: 'wand' is unknown: did you mean wandb\?"):
        make(trackers=["wand"])
    with pytest.raises(UserError, match="names a tracker twice"):
        make(trackers=["wandb", "wandb"])

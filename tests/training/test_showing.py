"""Pictures are written in the background, and the time of a run is recorded by its parts."""

import json
import statistics
import threading
import time

import pytest

import remuda
from remuda.errors import UserError
from remuda.model import pictures
from remuda.record import Record
from remuda.training import recorder
from tests.reports.page.pages import written_payload
from tests.training.driving import Driver
from tests.training.test_run import make

SLOW = 0.3  # seconds to write a picture


class Times(remuda.Progress):
    def __init__(self):
        self.rounds, self.last = [], 0.0

    def round(self, line):
        now = time.perf_counter()
        self.rounds.append(now - self.last if self.last else 0.0)
        self.last = now


def test_a_slow_writer_does_not_delay_rounds(tiny, tmp_path, monkeypatch):
    written = []

    def write_slowly(images, columns, path):
        time.sleep(SLOW)
        written.append(threading.current_thread().name)
        pictures.save_grid(images, columns, path)

    monkeypatch.setattr(recorder, "save_grid", write_slowly)
    tiny["run"] |= {"rounds": 4, "sample_every": 1, "checkpoint_every": 4}
    times = Times()
    folder = remuda.run(make(tiny, rounds=4), tmp_path / "run", times)
    assert len(Record.open(folder).sample_grids()) == 4, "the end of the run waits"
    assert written == ["pictures"] * 4
    assert statistics.median(times.rounds[1:]) < SLOW, "rounds do not wait for pictures"


def test_a_failed_picture_ends_the_run_with_one_sentence(tiny, tmp_path, monkeypatch):
    def fail(images, columns, path):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(recorder, "save_grid", fail)
    tiny["run"] |= {"sample_every": 1, "checkpoint_every": 100}
    message = r"cannot write to .*run \(\[Errno 28\] No space left.*\): free some space .*remuda"
    with pytest.raises(UserError, match=message):
        remuda.run(make(tiny, rounds=9), tmp_path / "run")
    assert len(Record.open(tmp_path / "run").rounds()) < 9
    monkeypatch.undo()
    remuda.resume(tmp_path / "run")
    assert [path.name for path in Record.open(tmp_path / "run").sample_grids()] == [
        f"round-{t:06d}.png" for t in range(1, 10)
    ]


def test_pictures_are_written_before_rounds_are_forgotten(tiny, tmp_path, monkeypatch):
    gate = threading.Event()

    def write_late(images, columns, path):
        gate.wait(10)
        pictures.save_grid(images, columns, path)

    monkeypatch.setattr(recorder, "save_grid", write_late)
    tiny["run"] |= {"sample_every": 1, "checkpoint_every": 100}
    driver = Driver(tiny, tmp_path / "run")
    driver.run_until(remuda.training.state.Phase.COMPUTE, after=2)
    threading.Timer(0.1, gate.set).start()
    driver.training.recorder.begin(1)  # round 2 will run again
    grids = [path.name for path in Record.open(tmp_path / "run").sample_grids()]
    assert grids == ["round-000001.png"]
    driver.close()


def test_the_seconds_of_every_start_are_recorded(tiny, tmp_path):
    tiny["run"] |= {"checkpoint_every": 2}
    folder = remuda.run(make(tiny, rounds=2), tmp_path / "run")
    remuda.resume(folder, rounds=4)
    first, second = (entry["seconds"] for entry in Record.open(folder).environments())
    for seconds in (first, second):
        assert set(seconds) == {"start", "rounds", "show", "save", "page", "other", "total"}
        assert all(number >= 0 for number in seconds.values())
        parts = sum(seconds.values()) - seconds["total"]
        assert parts == pytest.approx(seconds["total"], abs=0.01)
    rounds = [line["seconds"] for line in Record.open(folder).rounds()]
    assert first["rounds"] == pytest.approx(sum(rounds[:2]), abs=0.01)
    assert second["rounds"] == pytest.approx(sum(rounds[2:]), abs=0.01)


def test_a_run_that_is_refused_leaves_the_seconds_of_earlier_starts(tiny, tmp_path):
    folder = remuda.run(make(tiny, rounds=2), tmp_path / "run")
    before = (folder / "environment.json").read_text()
    with pytest.raises(UserError):
        remuda.resume(folder, rounds=1)
    assert (folder / "environment.json").read_text() == before


def test_the_page_shows_where_the_time_went(tiny, tmp_path):
    folder = remuda.run(make(tiny, rounds=2), tmp_path / "run")
    found = written_payload(folder)["seconds"]
    assert found["title"] == "Where the time went"
    assert "samples and scores" in [row[0] for row in found["rows"]]
    entries = json.loads((folder / "environment.json").read_text())
    del entries[-1]["seconds"]  # as in runs of earlier versions
    (folder / "environment.json").write_text(json.dumps(entries))
    assert written_payload(folder)["seconds"] is None

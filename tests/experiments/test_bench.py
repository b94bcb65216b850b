"""Whole predictions: the parts of a run, and how their times become its cost."""

import pytest
import torch

from remuda import config
from remuda.errors import UserError
from remuda.experiments import bench, saves, timing
from remuda.training.herd import Herd
from remuda.training.recorder import Recorder
from remuda.training.saving import Saver
from tests.experiments.clocks import Clock
from tests.experiments.test_timing import configured


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in (bench, saves, timing):
        monkeypatch.setattr(module, "time", clock)
    return clock


def costing(clock, monkeypatch, owner, name, cost):
    """Let a function or method also spend ``cost(*arguments)`` seconds on the clock."""
    real = getattr(owner, name)

    def function(*arguments, **named):
        clock.spend(cost(*arguments))
        return real(*arguments, **named)

    monkeypatch.setattr(owner, name, function)


@pytest.mark.parametrize(
    ("name", "settings", "num_steps"),
    [
        ("md-gan", {"discriminator_steps": 2, "swap_every": 2}, 12),
        ("cellular", {"skip_discriminator": 2}, 12),
        ("fl-gan", {"epochs": 2}, 24),
        ("class-parallel", {"discriminator_steps": 3}, 12),
        ("standalone", {}, 12),
    ],
)
def test_a_prediction_is_the_sum_of_its_parts(tiny, clock, monkeypatch, name, settings, num_steps):
    run = configured(tiny, name, 12, **settings)
    if name == "standalone":
        tiny["run"]["members"] = 0
        run = config.from_dict(tiny)
    costing(clock, monkeypatch, bench, "assemble", lambda *_: 4.0)
    costing(clock, monkeypatch, Herd, "round", lambda herd, *_: 30.0 + 0.125 * herd.num_steps)
    costing(clock, monkeypatch, Saver, "save", lambda *_: 0.25)
    costing(clock, monkeypatch, Saver, "wait", lambda *_: 0.75)
    costing(clock, monkeypatch, bench, "draw_grid", lambda *_: 2.0)
    costing(clock, monkeypatch, Recorder, "end", lambda *_: 1.5)
    expected = bench.measure(run, process=3.0)
    assert (expected.num_steps, expected.rounds, expected.device) == (num_steps, 7, "cpu")
    # Checkpoints and grids are due after rounds 2, 4, 6 and 7, and by time also after round 1.
    assert expected.parts == pytest.approx(
        {
            "start": 3 + 4,
            "rounds": 7 * (30 + num_steps * 0.125),
            "saves": 5 * 0.25,
            "samples": 4 * 2,
            "scores": 0,
            "end": 0.75 + 1.5,  # the last checkpoint and the page
        }
    )
    assert expected.total == pytest.approx(sum(expected.parts.values()))
    assert expected.memory > 50e6 > expected.state > 1000


def test_one_evaluation_is_timed_after_one_that_fills_the_cache(tiny, clock, monkeypatch):
    tiny["scores"] = {"every": 3, "kinds": "fid", "samples": 600}
    asked = []

    def score(record, model, evaluator, samples, notify):
        asked.append(samples)
        clock.spend(100.0 if len(asked) == 1 else 5.0)

    monkeypatch.setattr(bench, "score_round", score)
    costing(clock, monkeypatch, Herd, "round", lambda *_: 1.0)
    expected = bench.measure(config.from_dict(tiny))  # four rounds, so rounds 3 and 4
    assert asked == [500, 600]
    assert (expected.scores.times, expected.scores.total) == (2, pytest.approx(10.0))


def test_a_measurement_leaves_and_prints_nothing(tiny, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    bench.measure(config.from_dict(tiny))
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_writable_is_reported(tiny, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(bench.tempfile, "TemporaryDirectory", refuse)
    with pytest.raises(UserError, match=r"not writable.*change to the folder"):
        bench.measure(config.from_dict(tiny))


def test_a_measurement_restores_the_settings_of_pytorch(tiny):
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    tiny["engine"] |= {"threads": before[0] + 1, "deterministic": True}
    bench.measure(config.from_dict(tiny))
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before

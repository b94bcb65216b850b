"""Runs with networks of the user's own repeat and resume exactly, or stop before they start."""

from dataclasses import replace

import pytest
from torch import nn

import remuda
from remuda import config
from remuda.cli import app
from remuda.errors import UserError
from remuda.networks import NETWORKS
from remuda.strategies import STRATEGIES
from remuda.training.progress import Progress
from tests.gan.test_checks import Own, Rows, computing, with_layer
from tests.training.test_run import assert_same_run

pytestmark = pytest.mark.usefixtures("empty_pages")


class Notes(Progress):
    """Collect the messages of a run."""

    def __init__(self):
        self.texts = []

    def note(self, text):
        self.texts.append(text)


@pytest.fixture
def own(tiny, monkeypatch):
    """Return a function that makes a short configuration with an own discriminator's layer."""

    def configure(build, strategy="class-parallel", layout="loop", **run):
        monkeypatch.setitem(NETWORKS, "own", with_layer(build))
        changes = {
            "networks": {"name": "own"},
            "strategy": {**tiny["strategy"], "name": strategy},
            "engine": {"device": "cpu", "layout": layout},
            "run": {**tiny["run"], **run},
        }
        return config.from_dict(tiny | changes)

    return configure


@pytest.mark.parametrize("layout", ["loop", "vmap"])
def test_runs_with_dropout_repeat_and_resume_exactly(own, tmp_path, layout):
    def build():
        return nn.Sequential(nn.Dropout(0.3), nn.BatchNorm2d(4), nn.RReLU())

    one, other = (
        remuda.run(own(build, layout=layout), tmp_path / name) for name in ("one", "other")
    )
    assert_same_run(one, other)
    resumed = remuda.run(own(build, layout=layout, rounds=2), tmp_path / "resumed")
    remuda.resume(resumed, rounds=4)
    assert_same_run(one, resumed)
    assert remuda.load(resumed).sample(3).shape == (3, 1, 8, 8)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_trains_them(own, tmp_path, strategy):
    members = 0 if strategy in ("standalone", "cellular", "cellular-async") else 3
    made = own(lambda: nn.Dropout(0.3), strategy, members=members, rounds=1)
    assert remuda.load(remuda.run(made, tmp_path / "run")).sample(2).shape == (2, 1, 8, 8)


def test_errors_come_before_anything_is_written(own, tmp_path):
    folder = tmp_path / "run"
    branching = computing(lambda x: x if x.mean() > 0 else -x)
    with pytest.raises(UserError, match=r"in discriminator\.body\.1.*--set engine\.layout=loop$"):
        remuda.run(own(branching, layout="vmap"), folder)
    assert not folder.exists()
    remuda.run(own(branching, rounds=1), folder)  # the remedy works

    made = replace(own(nn.Identity), networks=Own(discriminator=lambda outputs: outputs))
    with pytest.raises(UserError, match=r"returns \(2, 1\) for 2 images.*\[:, 0\]"):
        remuda.run(made, tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_slow_operations_are_a_note(own, tmp_path):
    """PyTorch warns in every step; the run says it once, in a sentence."""
    notes = Notes()
    remuda.run(own(lambda: Rows(nn.LSTM), layout="vmap", rounds=1), tmp_path / "run", notes)
    (note,) = [text for text in notes.texts if "stack" in text]
    assert "cannot stack aten::mkldnn_rnn_layer" in note and "engine.layout=loop" in note


def test_a_dry_run_shows_the_layers(own, capsys):
    own(lambda: nn.Dropout(0.3))
    words = ["train", "standalone-digits", "--set", "networks.name=own", "--dry-run"]
    app(words, standalone_mode=False)
    printed = capsys.readouterr().out
    assert "Dropout(p=0.3" in printed and "4 x 8 x 8" in printed

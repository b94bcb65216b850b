"""A mistake in a user's score is a message; training continues."""

import pytest
import torch

import remuda
from remuda.scores import KINDS, Kind, Measure


class Notes(remuda.Progress):
    def __init__(self):
        self.texts = []

    def note(self, text):
        self.texts.append(text)


@pytest.mark.parametrize(
    ("measure", "sentence"),
    [
        (lambda *_: 1 / 0, "its function raises ZeroDivisionError: division by zero"),
        (lambda *_: None, "its function must return a dict of remuda.scores.Measure by name"),
        (lambda *_: {}, "its function must return a dict of remuda.scores.Measure by name"),
        (
            lambda *_: {"other": Measure(1.0)},
            "its function returns 'other', which its parts",
        ),
        (lambda *_: {"mine": 1.0}, "'mine' is not a Measure of a float"),
        (lambda *_: {"mine": Measure(torch.ones(()))}, "'mine' is not a Measure of a float"),
    ],
)
def test_a_users_score_that_fails_does_not_end_training(tmp_path, monkeypatch, measure, sentence):
    kind = Kind(
        measure=measure,
        needs=frozenset({"images"}),
        compares=False,
        uses_features=False,
        parts=("mine",),
    )
    monkeypatch.setitem(KINDS, "mine", kind)
    settings = ["run.rounds=2", "run.members=2", "strategy.steps_per_round=1", "networks.hidden=4"]
    settings += ["scores.every=1", "scores.kinds=mine", "scores.samples=4"]
    config, notes = remuda.recipe("class-parallel-digits", *settings), Notes()
    folder = remuda.run(config, tmp_path / "run", notes)
    message = f"has no scores: no mine: {sentence}"
    assert sum(message in text for text in notes.texts) == 2
    assert remuda.load(folder).round == 2

"""Scores of a herd: while it trains, afterwards, and after a resume."""

import json

import pytest

import remuda
from remuda.config import from_dict
from remuda.errors import UserError
from remuda.record.record import Record


def scored(tiny, **scores):
    tiny["scores"] = {"every": 2, "samples": 60, "kinds": "fid,is", **scores}
    tiny["run"]["members"] = 10
    return from_dict(tiny)


def test_a_running_herd_is_scored_and_a_resume_repeats_it(tiny, tmp_path):
    config = scored(tiny)
    whole = Record.open(remuda.run(config, tmp_path / "whole"))
    lines = whole.scores()
    assert [(line["round"], line["name"]) for line in lines] == [
        (t, name) for t in (2, 4) for name in ("fid_60_train_lenet", "digits-score_60_lenet")
    ]
    part = remuda.run(
        scored(tiny | {"run": {**tiny["run"], "rounds": 3, "checkpoint_every": 2}}),
        tmp_path / "part",
    )
    record = Record.open(part)
    remuda.resume(part, rounds=4)
    again = [line for line in record.scores() if line["round"] in (2, 4)]
    for one, other in zip(lines, again, strict=True):
        assert (one["name"], one["value"]) == (other["name"], other["value"])


def test_scores_of_rounds_that_are_run_again_are_forgotten(tiny, tmp_path):
    record = Record.open(remuda.run(scored(tiny), tmp_path / "run"))
    record.forget_rounds_after(2)
    assert {line["round"] for line in record.scores()} == {2}
    with (record.folder / "scores.jsonl").open("a") as file:
        file.write('{"round": 3, "na')
    assert {line["round"] for line in record.scores()} == {2}, "a torn line is none"


def test_score_afterwards_goes_into_the_record_and_the_page(tiny, tmp_path):
    folder = remuda.run(from_dict(tiny), tmp_path / "run")
    values = remuda.score(
        folder, checkpoint=2, device="cpu", kinds="fid", samples=100, say=lambda text: None
    )
    assert [value.name for value in values] == ["fid_100_train_lenet"]
    (line,) = Record.open(folder).scores()
    assert line["round"] == 2 and line["value"] == values[0].value and json.dumps(line)
    assert "fid_100_train_lenet" in (folder / "index.html").read_text()
    with pytest.raises(UserError, match=r"scores\.reference"):
        remuda.score(folder, device="cpu", reference="validation")


def test_a_kind_that_cannot_be_had_stops_before_training(tiny, tmp_path):
    with pytest.raises(UserError, match="there is no score"):
        remuda.run(scored(tiny, kinds="fib"), tmp_path / "run")
    assert not (tmp_path / "run").exists(), "nothing is in the way of the same command, put right"

"""Score a herd during training, afterwards, and after a resume."""

from types import SimpleNamespace

import pytest

import remuda
from remuda.config import from_dict
from remuda.engines import SingleProcess
from remuda.errors import RanksLost, UserError
from remuda.model.scoring import num_trained_classes, score_round
from remuda.recipes import recipe
from remuda.record import Record


def scored(tiny, **scores):
    tiny["scores"] = {"every": 2, "samples": 60, "kinds": "fid,is", **scores}
    tiny["run"]["members"] = 10
    return from_dict(tiny)


def test_a_running_herd_is_scored_and_a_resume_repeats_it(tiny, tmp_path):
    config = scored(tiny)
    whole = Record.open(remuda.run(config, tmp_path / "whole"))
    scores = whole.scores()
    assert [(score.round, score.name) for score in scores] == [
        (t, name) for t in (2, 4) for name in ("fid_60_train_lenet", "digits-score_60_lenet")
    ]
    part = remuda.run(
        scored(tiny | {"run": {**tiny["run"], "rounds": 3, "checkpoint_every": 2}}),
        tmp_path / "part",
    )
    record = Record.open(part)
    remuda.resume(part, rounds=4)
    again = [score for score in record.scores() if score.round in (2, 4)]
    for one, other in zip(scores, again, strict=True):
        assert (one.name, one.value) == (other.name, other.value)


def test_scores_of_repeated_rounds_are_removed(tiny, tmp_path):
    record = Record.open(remuda.run(scored(tiny), tmp_path / "run"))
    record.forget_rounds_after(2)
    assert {score.round for score in record.scores()} == {2}
    with (record.folder / "scores.jsonl").open("a") as file:
        file.write('{"round": 3, "na')
    assert {score.round for score in record.scores()} == {2}, "an incomplete line is ignored"


def test_a_later_score_goes_into_the_record_and_the_page(tiny, tmp_path, capfd):
    folder = remuda.run(from_dict(tiny), tmp_path / "run")
    capfd.readouterr()
    values = remuda.score(folder, checkpoint=2, device="cpu", kinds="fid", samples=100)
    assert capfd.readouterr() == ("", ""), "a library call prints nothing"
    assert [value.name for value in values] == ["fid_100_train_lenet_3-classes"]
    (score,) = Record.open(folder).scores()
    assert score.round == 2 and score.value == values[0].value
    assert "fid_100_train_lenet_3-classes" in (folder / "index.html").read_text()
    with pytest.raises(UserError, match=r"scores\.reference"):
        remuda.score(folder, device="cpu", reference="validation")


def test_an_unknown_kind_fails_before_training(tiny, tmp_path):
    with pytest.raises(UserError, match="score 'fib' does not exist"):
        remuda.run(scored(tiny, kinds="fib"), tmp_path / "run")
    assert not (tmp_path / "run").exists(), "the corrected command can use the folder"


@pytest.mark.parametrize(
    "strategy, settings, expected",
    [
        ("class-parallel", {"run.members": 5}, 5),
        ("class-parallel", {}, 10),
        ("md-gan", {"run.members": 4}, 10),
        ("md-gan", {"run.members": 4, "data.partition": "class"}, 4),
        ("md-gan", {"run.members": 2, "run.lost": [0, 1], "data.partition": "class"}, 4),
        ("cellular", {"data.partition": "class"}, 4),
        (
            "md-gan",
            {"run.members": 6, "strategy.discriminators": 2, "data.partition": "class"},
            6,
        ),
    ],
)
def test_the_classes_that_a_run_trains(strategy, settings, expected):
    config = recipe(f"{strategy}-digits", *(f"{key}={value}" for key, value in settings.items()))
    size = config.strategy.num_members(config.run.members, 10)
    assert num_trained_classes(config, size, 10) == expected


def test_a_run_of_some_classes_is_scored_against_these(tiny, tmp_path):
    """Four workers hold the first four digits; the networks know all ten labels."""
    tiny["strategy"]["name"] = "md-gan"
    tiny["data"]["partition"] = "class"
    tiny["networks"]["conditional"] = True
    tiny["run"] |= {"members": 4, "rounds": 2}
    tiny["scores"] = {"every": 2, "samples": 80, "kinds": "fid,diversity"}
    folder = remuda.run(from_dict(tiny), tmp_path / "run")
    during = Record.open(folder).scores()
    assert [score.name for score in during] == [
        "fid_80_train_lenet_4-classes",
        "diversity_80_train_lenet_4-classes",
    ]
    assert len(during[1].classes) == 4 and during[0].num_reference < 700
    later = remuda.score(folder, device="cpu", kinds="fid", samples=80)
    assert later[0].value == pytest.approx(during[0].value) and later[0].floor is not None


def test_a_lost_rank_is_no_reason_for_a_missing_score():
    """The remaining ranks score the round once they have recovered."""

    class Incomplete:
        communicator, round = SingleProcess(), 3

        def choose_labels(self, *_):
            raise RanksLost("ranks were lost")

    notes = []
    evaluator = SimpleNamespace(num_labels=0)
    with pytest.raises(RanksLost):
        score_round(None, Incomplete(), evaluator, 10, notes.append)
    assert not notes

"""Scores, classes and a paper's figures in the payload, from records made by hand."""

import json
from dataclasses import MISSING, fields
from inspect import signature

import pytest

from remuda.errors import UserError
from remuda.record import Reader
from remuda.record.scores import Score
from remuda.reports import page as report
from remuda.reports.page.payload import MAX_SCORES
from remuda.reports.page.payload_parts import COLLAPSED_BELOW
from remuda.scores.base import Value
from remuda.scores.classes import collapsed_classes

from .pages import payload_of
from .records import add_scores, make_record, score_line

FID, KID = "fid_10k_train_inception", "kid_10k_train_inception"
DIVERSITY = "diversity_10k_train_inception"


def test_a_run_without_scores(tmp_path):
    folder = make_record(tmp_path / "run")
    for content in ("", '{"round": 4, "name": "fi'):
        (folder / "scores.jsonl").write_text(content)
        assert payload_of(folder)["scores"] == []


def test_scores_have_their_protocols_and_directions(tmp_path):
    folder = make_record(tmp_path / "run")
    fid = score_line(4, FID, 96.25, floor=3.125, floor_samples=9_000)
    own = score_line(4, "mine_10k", 1.5, better="higher", spread=0.5)
    add_scores(folder, fid, own, score_line(4, "unheard_10k", float("nan")))
    first, second, third = payload_of(folder)["scores"]
    assert fid.items() <= first.items() and first["better"] == "lower" and not first["best"]
    assert (second["better"], second["spread"], second["floor"]) == ("higher", 0.5, None)
    assert (third["better"], third["value"]) == ("", None)


def test_the_reader_knows_every_field_of_a_score():
    """The reader knows every field, and requires none that is optional."""
    known = {each.name: each.default is MISSING for each in fields(Score)}
    written = {each.name: each.default is MISSING for each in fields(Value)}
    assert written.items() <= known.items()
    assert {name for name in known.keys() - written.keys() if known[name]} == {"round"}


def test_scores_are_in_the_order_of_rounds_and_the_last_line_counts(tmp_path):
    folder = make_record(tmp_path / "run")
    add_scores(folder, *(score_line(t, FID, v) for t, v in ((4, 1.0), (2, 2.0), (4, 3.0))))
    assert [(s["round"], s["value"]) for s in payload_of(folder)["scores"]] == [(2, 2.0), (4, 3.0)]


def test_very_many_scores_are_chosen_evenly(tmp_path):
    folder = make_record(tmp_path / "run")
    lines = (score_line(t, name, 1.0, classes=[1.0]) for t in range(1, 1201) for name in (FID, KID))
    add_scores(folder, *lines)
    found = payload_of(folder)["scores"]
    assert len(found) == MAX_SCORES and {found[0]["round"], found[-1]["round"]} == {1, 1200}
    assert [s["round"] for s in found if s["classes"]] == [1200, 1200]


# Classes


def test_classes_have_names_counts_and_scores(tmp_path):
    folder = make_record(tmp_path / "run", classes=["cat", "dog", "emu"])
    add_scores(folder, score_line(2, KID, 1.0, classes=[1.0, 2.0, 3.0]))
    add_scores(folder, score_line(4, FID, 1.0, classes=[4.0, float("nan"), 6.0]))
    assert payload_of(folder)["classes"][1] == {
        "name": "dog",
        "count": 100,
        "scores": {KID: 2.0, FID: None},
        "collapsed": False,
        "why": "",
    }


def test_a_class_with_little_diversity_has_collapsed(tmp_path):
    folder = make_record(tmp_path / "run", classes=["cat", "dog", "emu"])
    add_scores(folder, score_line(4, DIVERSITY, 0.1, classes=[0.9, 0.1, 0.5]))
    found = payload_of(folder)["classes"]
    assert [each["collapsed"] for each in found] == [False, True, False]
    assert found[1]["why"] == "its samples vary 0.1 times as much as real images"
    assert signature(collapsed_classes).parameters["threshold"].default == COLLAPSED_BELOW


def test_classes_of_other_strategies_need_scores(tmp_path):
    folder = make_record(tmp_path / "run", members=1, strategy="standalone", classes=["a", "b"])
    assert payload_of(folder)["classes"] is None
    add_scores(folder, score_line(4, KID, 1.0, classes=[1.0, 2.0, 3.0]))
    names = [each["name"] for each in payload_of(folder)["classes"]]
    assert names == ["a", "b", "2"], "classes without a name have a number"


# A paper's figures


def paper_of(folder):
    found = payload_of(folder)["paper"]
    return found["title"], {row[0]: row[1:] for row in found["rows"]}, found["note"]


def test_figures_of_the_paper_stand_next_to_the_runs_own(tmp_path):
    figures = ('source = "A. Author"', "table = 9", "inception_score = 6.43", "other = [1, 2]")
    paper = "\n".join(["[paper]", *figures, "[paper.cifar]", "mean = 5.5", ""])
    folder = make_record(tmp_path / "with", paper=paper)
    add_scores(folder, score_line(2, "is_10k_inception", 4.0), score_line(4, FID, 1.0))
    title, rows, note = paper_of(folder)
    assert title == "Next to the paper's table 9" and note.startswith("A. Author.")
    assert rows == {
        "inception score": ["6.43", "4", "is_10k_inception, round 2"],
        "other": ["1, 2", "", ""],
        "cifar, mean": ["5.5", "", ""],
    }
    assert payload_of(make_record(tmp_path / "without"))["paper"] is None


def test_a_mean_and_its_deviation(tmp_path):
    lines = ("[paper]", 'score = "Inception score, 10 splits"', "mean = 6.43")
    folder = make_record(tmp_path / "run", paper="\n".join([*lines, "standard_deviation = 0.25"]))
    add_scores(folder, score_line(4, "digits-score_10k_lenet", 7.5, spread=0.125))
    _, rows, _ = paper_of(folder)
    assert rows["mean"][:2] == ["6.43", "7.5"]
    assert rows["standard deviation"][:2] == ["0.25", "0.125"]


@pytest.mark.parametrize(("ranks", "row"), [(1, "on one core"), (5, "distributed")])
def test_minutes_stand_next_to_minutes_of_the_same_kind(tmp_path, ranks, row):
    figures = ("minutes_on_one_core = 339.6", "minutes_distributed = 39.81", "cores = 5")
    folder = make_record(tmp_path / "run", paper="\n".join(["[paper]", *figures, ""]))
    (folder / "environment.json").write_text(json.dumps([{"device": "cpu", "ranks": ranks}]))
    _, rows, _ = paper_of(folder)
    assert rows["cores"][1] == str(ranks)
    filled = {name: own for name, (_, own, _) in rows.items() if name.startswith("minutes")}
    other = {"minutes on one core", "minutes distributed"} - {f"minutes {row}"}
    assert filled == {f"minutes {row}": "2.00", other.pop(): ""}
    assert rows[f"minutes {row}"][2].startswith("4 of 10 rounds")


def test_a_finding_stands_next_to_the_newest_scores(tmp_path):
    folder = make_record(tmp_path / "run", paper='[paper]\nfigure = 3\nfinding = "A beats B"\n')
    assert paper_of(folder)[1]["finding"] == ["A beats B", "", ""]
    add_scores(folder, *(score_line(t, FID, 10.0 * t) for t in (2, 4)))
    expected = ["A beats B", f"{FID} 40", "newest scores, up to round 4"]
    assert paper_of(folder)[1]["finding"] == expected


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nonsense", "line 2: Expecting value.*"),
        ("", "line 2: Expecting value.*"),
        ("[]", "line 2: not a JSON object"),
        ('{"round": 4, "name": "fid", "value": 1.0}', "line 2: num_samples is missing"),
        (json.dumps(score_line("4", FID, 1.0)), "line 2: round is '4'"),
        (json.dumps(score_line(4, FID, None)), "line 2: value is None"),
        (json.dumps(score_line(4, FID, True)), "line 2: value is True"),
        (json.dumps(score_line(4, FID, 1.0, network=None)), "line 2: network is None"),
        (
            json.dumps(score_line(4, FID, 1.0, classes=["x"])),
            "line 2: classes is not a list of numbers",
        ),
        ('"\\ud800"', "line 2: not a JSON object"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, line, why):
    folder = make_record(tmp_path / "run")
    add_scores(folder, score_line(4, FID, 1.0))
    with (folder / "scores.jsonl").open("a") as file:
        file.write(line + "\n")
    message = rf"scores.jsonl cannot be read \({why}\): remove the damaged line"
    with pytest.raises(UserError, match=message):
        report.write(folder)
    assert not (folder / "index.html").exists()


def test_a_site_has_a_row_for_each_of_its_splits(tmp_path):
    folder = make_record(tmp_path / "run")
    add_scores(
        folder,
        sites_line(2, "fid_60_train_lenet_pooled-3", [9.0] * 3, [200, 120, 80]),  # one is lost
        sites_line(4, "fid_60_train_lenet_pooled-2", [7.0, 8.0], [200, 120]),
        sites_line(4, "precision_60_train_lenet_sites-2", [0.5, None], [200, 120]),
        sites_line(4, "fid_60_test_lenet_pooled-2", [6.0, 5.0], [50, 30]),
    )
    train, test = "fid_60_train_lenet_pooled-2", "fid_60_test_lenet_pooled-2"
    precision = "precision_60_train_lenet_sites-2"
    found = [(row["rank"], row["images"], row["worst"]) for row in payload_of(folder)["sites"]]
    assert found == [(0, 200, []), (1, 120, [train]), (0, 50, [test]), (1, 30, [])]
    scores = [row["scores"] for row in payload_of(folder)["sites"]]
    assert scores == [
        {train: 7.0, precision: 0.5},
        {train: 8.0, precision: None},
        {test: 6.0},
        {test: 5.0},
    ]


def sites_line(t, name, values, images):
    sites = [
        {"rank": rank, "host": "node", "images": count, "value": value}
        for rank, (value, count) in enumerate(zip(values, images, strict=True))
    ]
    return score_line(t, name, 1.0, sites=sites)


def test_the_best_round_is_marked_after_it_was_scored_again(tmp_path, monkeypatch):
    folder = make_record(tmp_path / "run")
    settings = (folder / "config.toml").read_text()
    settings = settings.replace("[run]\n", f'[run]\nkeep_best = "{FID}"\n')
    (folder / "config.toml").write_text(settings)
    monkeypatch.setattr(Reader, "_saved_rounds", lambda self: {2, 4})
    add_scores(folder, score_line(2, FID, 5.0, seed=0), score_line(4, FID, 6.0, seed=0))
    add_scores(folder, score_line(2, FID, 7.0, seed=1))
    found = [(score["value"], score["best"]) for score in payload_of(folder)["scores"]]
    assert found == [(7.0, True), (6.0, False)]

"""Scores on a run's page, from hand-made records."""

import json
import re
from dataclasses import MISSING, fields

import pytest

from remuda.errors import UserError
from remuda.record.scores import Score
from remuda.reports import page as report
from remuda.reports.page.curves import MAX_POINTS
from remuda.reports.page.scores import number
from remuda.scores.base import Value

from .pages import page_of
from .records import add_scores, make_record, score_line

FID, KID = "fid_10k_train_inception", "kid_10k_train_inception"


def panels(page):
    """Figures before the two of the losses that every record has."""
    return page.tags.count("svg") - 2


def test_a_run_without_scores_has_no_section(tmp_path):
    folder = make_record(tmp_path / "run")
    assert "Scores" not in page_of(folder).text
    for content in ("", '{"round": 4, "name": "fi'):
        (folder / "scores.jsonl").write_text(content)
        assert "Scores" not in page_of(folder).text


def test_the_table_has_every_scores_protocol(tmp_path):
    folder = make_record(tmp_path / "run")
    fid = score_line(4, FID, 96.25, floor=3.125, floor_samples=9_000)
    bare = score_line(4, "modes_2500", 23, reference="", num_reference=0, reference_digest="")
    bare |= {"network": "", "network_digest": "", "precision": "fp32", "seconds": 90}
    add_scores(folder, fid, score_line(4, KID, 0.0213, spread=0.0031), bare)
    page = page_of(folder)
    protocol = (
        "10,000 seed 7 train, 50,000 1111aaaa2222bbbb inception, tf32 3333cccc4444dddd 31.2 s"
    )
    assert f"{FID} 96.250 3.1250 9,000 images {protocol}" in page.text
    assert f"{KID} 0.021300 ± 0.0031 {protocol}" in page.text
    assert "modes_2500 23 10,000 seed 7 none none, fp32 1 min 30 s" in page.text
    assert "Round 4." in page.text and "class by class" not in page.text and panels(page) == 0


def test_the_reader_knows_every_field_of_a_score():
    """The reader knows every field, and requires none that is optional."""
    known = {each.name: each.default is MISSING for each in fields(Score)}
    written = {each.name: each.default is MISSING for each in fields(Value)}
    assert written.items() <= known.items()
    assert {name for name in known.keys() - written.keys() if known[name]} == {"round"}


def test_the_last_scored_round_is_the_highest_not_the_last_line(tmp_path):
    folder = make_record(tmp_path / "run")
    add_scores(folder, score_line(4, FID, 60.5), score_line(2, FID, 80.5), score_line(3, KID, 0.5))
    text = page_of(folder).text
    assert f"{FID} 60.500" in text and "80.500" not in text
    assert f"Computed only for earlier rounds: {KID} 0.50000 (round 3)." in text


def test_the_last_line_of_a_round_and_name_counts(tmp_path):
    folder = make_record(tmp_path / "run")
    add_scores(folder, score_line(4, FID, 60.5), score_line(4, KID, 0.5), score_line(4, FID, 61.5))
    with (folder / "scores.jsonl").open("a") as file:
        file.write(json.dumps(score_line(4, FID, 62.5)))  # torn before its end
    page = page_of(folder)
    assert f"{FID} 61.500" in page.text and "60.500" not in page.text and "62.500" not in page.text
    assert panels(page) == 0


def test_classes_have_names_and_bars(tmp_path):
    folder = make_record(tmp_path / "run", classes=["cat", "<dog>", "emu"])
    add_scores(
        folder,
        score_line(4, "class-kid", 0.5, classes=[0.5, 2.0, -0.25]),
        score_line(4, "class-diversity", 0.5, classes=[0.75, float("nan"), 1]),
    )
    page = page_of(folder)
    assert "Round 4, class by class class class-kid class-diversity" in page.text
    assert "cat 0.5000 0.7500 <dog> 2.000 not finite emu -0.2500 1 " in page.text
    bars = [tag for tag in page.attributes if tag.get("class") == "number bar"]
    parts = ("25.0", "75.0", "100.0", "0.0", "0.0", "100.0")
    assert [bar["style"] for bar in bars] == [f"--part: {part}%" for part in parts]


def test_classes_without_fitting_names_are_numbered(tmp_path):
    folder = make_record(tmp_path / "run", classes=["cat", "dog"], strategy="fl-gan")
    add_scores(
        folder,
        score_line(4, "class-kid", 0.5, classes=[3.0, 0.0, 0.0]),
        score_line(4, "odd", 0.0, classes=[1.0]),
    )
    assert "0 3.000 1.000 1 0.000 2 0.000" in page_of(folder).text
    (folder / "data.json").unlink()
    assert "0 3.000 1.000 1 0.000 2 0.000" in page_of(folder).text


def test_scores_of_the_first_classes_have_their_names(tmp_path):
    folder = make_record(tmp_path / "run", classes=["cat", "dog", "emu"], strategy="fl-gan")
    add_scores(folder, score_line(4, "class-kid", 0.5, classes=[0.25, 0.5]))
    text = page_of(folder).text
    assert "cat 0.2500 dog 0.5000" in text and " emu " not in text


def test_every_class_is_shown(tmp_path):
    folder = make_record(tmp_path / "run", classes=[f"class-{i}" for i in range(100)])
    add_scores(folder, score_line(4, "class-kid", 0.5, classes=[1.0] * 99 + [0.125]))
    assert "class-99 0.1250" in page_of(folder).text


def test_scores_of_two_rounds_have_a_curve_with_spread_and_floor(tmp_path):
    folder = make_record(tmp_path / "run")
    add_scores(folder, score_line(2, FID, 80.0), score_line(4, FID, 60.0), score_line(4, KID, 0.5))
    page = page_of(folder)
    assert panels(page) == 1 and "Thick: the score." in page.text
    assert "Dashed" not in page.text and "Band" not in page.text and "changed" not in page.text
    dashes = (folder / "index.html").read_text().count("stroke-dasharray")
    add_scores(folder, score_line(3, FID, 70.0, floor=3.0, spread=1.0))
    page = page_of(folder)
    assert panels(page) == 1
    band = "Band: the score plus and minus its spread."
    assert f"{band} Dashed: the floor, the same score of real images." in page.text
    assert (folder / "index.html").read_text().count("stroke-dasharray") == dashes + 1


def test_the_curve_reaches_down_to_the_floor(tmp_path):
    folder = make_record(tmp_path / "run")
    add_scores(folder, *(score_line(t, FID, 1000.0 + t, floor=3.0) for t in (1, 2)))
    ticks = re.findall(r">(\d+)</text>", (report.write(folder)).read_text())
    assert "0" in ticks and "1000" in ticks


def test_changes_of_the_protocol_are_noted(tmp_path):
    folder = make_record(tmp_path / "run")
    add_scores(
        folder, score_line(2, FID, 80.0), score_line(4, FID, 60.0, network_digest="5" * 16, seed=8)
    )
    assert "Changed between these rounds: the network's digest." in page_of(folder).text


def test_curves_leave_out_values_that_are_not_finite(tmp_path):
    folder = make_record(tmp_path / "run")
    values = (1.0, float("nan"), float("inf"), 4.0)
    add_scores(
        folder, *(score_line(t, KID, v, spread=0.5, floor=v) for t, v in enumerate(values, start=1))
    )
    odd = {"spread": float("inf"), "floor": float("nan")}
    add_scores(folder, *(score_line(t, FID, float("nan"), **odd) for t in (1, 4)))
    page = page_of(folder)
    assert panels(page) == 2 and f"{FID} not finite ± not finite not finite" in page.text


def test_a_score_named_like_a_metric_shares_no_ids(tmp_path):
    folder = make_record(tmp_path / "run")
    add_scores(folder, *(score_line(t, "generator_loss", t, floor=0.5) for t in range(1, 5)))
    ids = [attributes["id"] for attributes in page_of(folder).attributes if "id" in attributes]
    assert ids and len(ids) == len(set(ids))


def test_very_many_scored_rounds_are_thinned_out(tmp_path):
    folder = make_record(tmp_path / "run")
    add_scores(folder, *(score_line(t, FID, t % 7, spread=1.0) for t in range(1, MAX_POINTS + 2)))
    assert "Each point is the mean of up to 2 scored rounds." in page_of(folder).text
    assert (folder / "index.html").stat().st_size < 400_000


def test_scores_of_points_are_labelled_as_points(tmp_path):
    folder = make_record(tmp_path / "run")
    data = folder / "data.json"
    data.write_text(data.read_text().replace("[1, 8, 8]", "[2, 1, 1]"))
    floor = {"floor": 0.989, "floor_samples": 2_500}
    add_scores(folder, *(score_line(t, "high-quality_2500", 0.9, **floor) for t in (1, 4)))
    text = page_of(folder).text
    assert "floor: real points" in text and "0.98900 2,500 points" in text
    assert "real images" not in text


def test_hostile_names_stay_text(tmp_path):
    evil = "<script>alert('x')</script>"
    strings = dict.fromkeys(
        ("reference", "reference_digest", "network", "network_digest", "precision"), evil
    )
    folder = make_record(tmp_path / "run")
    add_scores(
        folder,
        *(score_line(t, evil, 1.0, classes=[1.0], **strings) for t in (1, 4)),
        score_line(2, "<b>", 1),
    )
    page = page_of(folder)
    assert "script" not in page.tags and "b" not in page.tags and page.text.count(evil) >= 8
    for attributes in page.attributes:
        for name in ("src", "href", "xlink:href"):
            assert attributes.get(name, "#").startswith("#")
    first = (folder / "index.html").read_bytes()
    assert report.write(folder).read_bytes() == first


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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (96.123456, "96.123"),
        (0.0, "0.0000"),
        (1_234_567, "1,234,567"),
        (0.00153, "0.0015300"),
        (-2e-5, "-2.0000e-05"),
        (12_345.4, "12,345"),
        (3e7, "3.0000e+07"),
        (float("-inf"), "not finite"),
    ],
)
def test_numbers_have_significant_digits(value, text):
    assert number(value) == text

"""The payload of the page that compares runs, from run folders made by hand."""

import base64
import json
import math
import os
import re
import struct

import pytest
from PIL import Image

from remuda.cli.results import show_comparison
from remuda.errors import UserError
from remuda.reports.compare import compare, live, page
from remuda.reports.compare.curves import Curves, interpolate
from remuda.reports.page.pictures import Embedded
from tests.reports.compare.test_compare import FID, make_repeats, make_run, value
from tests.reports.page.records import add_grid


def payload(*folders):
    found = live.payload(list(folders), lambda path: {"src": path.name, "width": 1, "height": 1})
    json.dumps(found, allow_nan=False)
    return found


def floats(text):
    content = base64.b64decode(text)
    return list(struct.unpack(f"<{len(content) // 4}f", content))


def write_rounds(folder, lines):
    (folder / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def line(t, **fields):
    return {"round": t, "seconds": 2.0, "images": 10 * t, "images_per_second": 5.0, **fields}


@pytest.fixture
def two(tmp_path):
    """Two seeds of two strategies."""
    a = make_repeats(tmp_path / "a", [10.0, 12.0], strategy={"name": "standalone"}, bytes=100)
    b = make_repeats(tmp_path / "b", [5.0, 4.0])
    return [*a, *b]


# Curves


def test_curves_are_means_over_the_members(tmp_path):
    write_rounds(tmp_path, [line(1, loss=[1.0, 3.0]), line(2, loss=[5.0, math.nan], memory=7)])
    curves = Curves(tmp_path)
    curves.update()
    assert curves.axes() == {"rounds": [1, 2], "seconds": [2, 4], "images": [10, 20]}
    metrics = curves.metrics()
    assert floats(metrics["loss"]) == [2.0, 5.0]
    assert metrics["images_per_second"] == [5, 5] and metrics["memory"] == [None, 7]


def test_bytes_are_an_axis_only_if_every_round_has_them(tmp_path):
    write_rounds(tmp_path, [line(1, bytes=3), line(2, bytes=4)])
    curves = Curves(tmp_path)
    curves.update()
    assert curves.axes()["bytes"] == [3, 7] and curves.num_bytes == 7
    write_rounds(tmp_path, [line(1, bytes=3), line(2), line(3, bytes=1)])
    curves.update()
    assert "bytes" not in curves.axes() and curves.num_bytes is None


def test_rounds_after_the_chosen_one_are_left_out(tmp_path):
    write_rounds(tmp_path, [line(t, loss=[float(t)]) for t in (1, 2, 3)])
    curves = Curves(tmp_path, last_round=2)
    curves.update()
    assert (curves.num_rounds, curves.seconds, curves.num_images) == (2, 4.0, 20)
    assert floats(curves.metrics()["loss"]) == [1.0, 2.0]


def test_totals_between_points():
    axes = {"rounds": [2, 4], "seconds": [20, 60], "images": [None, 8]}
    assert interpolate(axes, 3) == {"rounds": 3, "seconds": 40, "images": 4}
    assert interpolate(axes, 1) == {"rounds": 1, "seconds": 10, "images": None}
    assert interpolate({"rounds": [], "seconds": []}, 1) == {"rounds": 1, "seconds": None}


def test_a_long_run_is_thinned(tmp_path):
    write_rounds(tmp_path, [line(t, loss=[float(t)]) for t in range(1, 5001)])
    curves = Curves(tmp_path)
    curves.update()
    values = floats(curves.metrics()["loss"])
    assert curves.stride > 1 and 500 < len(values) <= 2001
    assert values == pytest.approx(curves.axes()["rounds"]), "means over the same rounds"


# Payload


def test_groups_and_runs(two):
    found = payload(*two)
    assert [group["name"] for group in found["groups"]] == ["standalone", "class-parallel"]
    assert [(run["name"], run["group"]) for run in found["runs"]] == [
        ("standalone, seed 0", 0),
        ("standalone, seed 1", 0),
        ("class-parallel, seed 0", 1),
        ("class-parallel, seed 1", 1),
    ]
    first, last = found["runs"][0], found["runs"][-1]
    assert first["axes"]["bytes"] == [100, 200, 300, 400] and "bytes" not in last["axes"]
    assert found["about"] == "4 runs in 2 groups"


def test_scores_have_the_totals_of_their_rounds(tmp_path):
    run = make_run(tmp_path / "a", [(2, value(FID, 80.0)), (4, value(FID, 60.0))])
    (one,) = payload(run)["runs"]
    assert one["scores"][FID] == {
        "axes": {"rounds": [2, 4], "seconds": [5.0, 10.0], "images": [200, 400]},
        "values": [80.0, 60.0],
    }


def test_other_protocols_have_other_curves(tmp_path):
    a = make_run(tmp_path / "a", [value(FID, 50.0)])
    b = make_run(tmp_path / "b", [value(FID, 30.0, reference_digest="9")], run={"seed": 1})
    found = payload(a, b)
    labels = [score["label"] for score in found["scores"]]
    assert labels == [f"{FID} [reference 1111aaaa]", f"{FID} [reference 9]"]
    assert [list(run["scores"]) for run in found["runs"]] == [labels[:1], labels[1:]]
    digests = [
        row[found["protocols"]["columns"].index("reference digest")]
        for row in found["protocols"]["rows"]
    ]
    assert digests == ["1111aaaa2222bbbb", "9"]


def test_the_table_has_means_spread_and_significance(two):
    found = payload(*two)
    assert found["table"]["columns"] == ["name", "standalone", "class-parallel"]
    row = found["table"]["rows"][-1]
    assert [cell["text"] for cell in row] == [f"{FID} ↓", "11.00 ± 1.41", "4.50 ± 0.71"]
    assert [cell["is_best"] for cell in row] == [False, False, True]
    assert row[2]["tail"] == " (p = 0.33)"
    assert any("Mann-Whitney" in note for note in found["notes"])


def test_different_settings_have_a_table_instead_of_notes(tmp_path):
    a = make_run(tmp_path / "a", strategy={"loss": "hinge"})
    b = make_run(tmp_path / "b", strategy={"loss": "minimax"}, counts=(5, 6))
    found = payload(a, b)
    assert found["settings"]["columns"] == ["setting", "a", "b"]
    assert ["strategy.loss", "hinge", "minimax"] in found["settings"]["rows"]
    assert ["data", "digits, 1,437 of 1x8x8", "digits, 11 of 1x8x8"] in found["settings"]["rows"]
    assert not any(note.startswith("strategy.loss") for note in found["notes"])
    assert any("different data" in note for note in found["notes"])


def test_runs_without_rounds_scores_and_pictures(tmp_path):
    found = payload(make_run(tmp_path / "a", num_rounds=0))
    (run,) = found["runs"]
    assert run["axes"] == {"rounds": [], "seconds": [], "images": []}
    assert (run["metrics"], run["scores"], run["pictures"]) == ({}, {}, [])
    assert found["protocols"]["rows"] == [] and found["scores"] == []


def test_pictures_are_chosen_evenly(tmp_path):
    folder = make_run(tmp_path / "a")
    for t in range(1, 101):
        add_grid(folder, t, size=(8, 8))
    rounds = [picture["round"] for picture in payload(folder)["runs"][0]["pictures"]]
    assert len(rounds) == 24 and (rounds[0], rounds[-1]) == (1, 100)


def test_a_damaged_picture_has_no_source(tmp_path):
    folder = make_run(tmp_path / "a")
    add_grid(folder, 1)
    (folder / "samples" / "round-000002.png").write_text("damaged")
    shown = live.payload([folder], Embedded())["runs"][0]["pictures"]
    assert shown[0]["src"].startswith("data:image/") and shown[0]["width"] == 331
    assert (shown[1]["round"], shown[1]["src"]) == (2, None)


# Comparisons of runs that train


def test_an_unchanged_comparison_is_not_made_again(two):
    cache = live.Cache()
    first = live.payload(two, str, cache)
    assert live.payload(two, str, cache) is first
    with (two[0] / "rounds.jsonl").open("a") as file:
        file.write(json.dumps(line(5, generator_loss=[1.0])) + "\n")
    second = live.payload(two, str, cache)
    assert second is not first and second["runs"][0]["reached"] == 5
    assert second["runs"][0]["axes"]["rounds"] == [1, 2, 3, 4, 5]


def test_a_resumed_run_is_read_again(two):
    cache = live.Cache()
    live.payload(two, str, cache)
    path = two[0] / "rounds.jsonl"
    path.write_text("\n".join(path.read_text().splitlines()[:2]) + "\n")
    assert live.payload(two, str, cache)["runs"][0]["axes"]["rounds"] == [1, 2]


# Files


def test_twenty_long_runs_fit_into_ten_megabytes(tmp_path):
    """With five megabytes of pictures, a run may weigh 150 kB."""
    metrics = {f"metric_{i}": [1 / 3, 1.0] for i in range(4)}
    folder = make_run(tmp_path / "a", num_rounds=0)
    write_rounds(folder, [line(t, bytes=12345, memory=1e9, **metrics) for t in range(1, 10_001)])
    assert 30_000 < len(json.dumps(payload(folder))) < 150_000


def test_pictures_share_a_budget(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "EMBEDDED_BYTES", 100_000)
    folders = [make_run(tmp_path / str(i), run={"seed": i}) for i in range(2)]
    for t in range(1, 6):
        noise = Image.frombytes("RGB", (100, 100), os.urandom(30_000))
        for folder in folders:
            noise.save(folder / "samples" / f"round-{t:06d}.png")
    text = compare(folders).render("html")
    found = re.findall(r"data:image/\w+;base64,[\w+/=]+", text)
    assert len(found) == 10 and sum(map(len, found)) < 100_000 * 4 / 3 + 1000


def test_the_ending_of_the_file_chooses_the_format(two, tmp_path, capsys):
    for name, words in {
        "c.html": "<!DOCTYPE html>",
        "c.csv": "name,strategy",
        "c.md": "| name |",
        "c.tex": r"\begin{tabular}",
        "c.txt": "name",
        "c": "name",
    }.items():
        show_comparison(two, t=None, form=None, out=tmp_path / name)
        assert words in (tmp_path / name).read_text()[:300]
    with pytest.raises(UserError, match=r"c\.xyz does not say .* \.txt, \.csv, .* or .* --format"):
        show_comparison(two, t=None, form=None, out=tmp_path / "c.xyz")
    show_comparison(two, t=None, form="text", out=tmp_path / "c.xyz")
    show_comparison(two, t=None, form="text", out=tmp_path / "d.html")
    assert "<html" not in (tmp_path / "d.html").read_text()
    capsys.readouterr()
    show_comparison(two, t=None, form="html", out=None)
    assert "<html" in capsys.readouterr().out


def test_names_of_folders_stay_text(tmp_path):
    run = make_run(tmp_path / "<script>alert(1)<" / "img src=x onerror=alert(2)>")
    text = compare([run]).render("html")
    assert "<script>alert(1)" not in text and "<img src=x" not in text

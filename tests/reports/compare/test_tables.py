"""Comparisons as text, CSV, Markdown and LaTeX."""

import csv
import io

import pytest

from remuda.errors import UserError
from remuda.reports.compare import FORMATS, compare
from remuda.reports.compare.tables import WIDTH, _latex, _markdown
from tests.reports.compare.test_compare import FID, make_repeats, make_run, value


@pytest.fixture
def repeats(tmp_path):
    """Three seeds of two methods."""
    make_repeats(tmp_path / "a", [10.0, 12.0, 17.0], strategy={"name": "standalone"})
    make_repeats(tmp_path / "b", [5.0, 4.0, 9.0])
    return compare([tmp_path / "a", tmp_path / "b"])


def test_text(repeats):
    lines = repeats.render("text").splitlines()
    assert (
        " ".join(lines[0].split())
        == f"name strategy seeds members rounds images seconds bytes {FID} ↓"
    )
    assert " ".join(lines[2].split()) == "standalone standalone 3 1 4 400 10.0 - 13.00 ± 3.61"
    assert lines[3].endswith("6.00 ± 2.65 * (p = 0.1)")
    assert (
        "*: the best value." in lines
        and "±: mean and standard deviation (n - 1) over seeds." in lines
    )
    assert all(len(line) <= WIDTH for line in lines)


def test_the_spread_of_a_single_run_has_a_mark(tmp_path):
    folder = make_run(
        tmp_path / "run", [value("is_10k_inception", 6.43, spread=0.25), value(FID, 50.0)]
    )
    text = compare([folder]).render()
    assert "6.430 ± 0.250†" in text and "†: one run" in text and "over seeds" not in text
    assert " 50" in text and "p =" not in text and "*" not in text


def test_real_images_have_their_own_row(tmp_path):
    a = make_run(tmp_path / "a", [value(FID, 50.25, floor=2.11), value("modes_1k", 7)])
    b = make_run(
        tmp_path / "b",
        [value(FID, 49.5, floor=2.13), value("modes_1k", 8)],
        strategy={"loss": "hinge"},
    )
    row = next(
        line for line in compare([a]).render().splitlines() if line.startswith("real images")
    )
    assert row.split()[2:] == ["-"] * 7 + ["2.11", "-"]
    row = next(
        line for line in compare([a, b]).render().splitlines() if line.startswith("real images")
    )
    assert row.split()[-2:] == ["2.11-2.13", "-"]
    assert " 8 *" in compare([a, b]).render(), "whole numbers stay whole"


def test_csv_has_all_digits(repeats, tmp_path):
    first, second = csv.DictReader(io.StringIO(repeats.render("csv")))
    assert (first["name"], second["name"]) == ("standalone", "class-parallel")
    assert float(first[FID]) == 13.0 and float(first[f"{FID} spread"]) == 13**0.5
    assert (
        first[f"{FID} spread over"] == "seeds"
        and first[f"{FID} n"] == "3"
        and first[f"{FID} round"] == "4"
    )
    assert first[f"{FID} p"] == "" and float(second[f"{FID} p"]) == pytest.approx(0.1)
    assert second[f"{FID} floor"] == "" and second["bytes"] == ""
    odd = make_run(tmp_path / 'a, "b"', [value(FID, 1 / 3, spread=0.5, floor=0.25)])
    (row,) = csv.DictReader(io.StringIO(compare([odd]).render("csv")))
    assert (row["name"], float(row[FID]), float(row[f"{FID} floor"])) == ('a, "b"', 1 / 3, 0.25)
    assert row[f"{FID} spread over"] == "images"


def test_csv_has_the_floor_of_each_group(tmp_path):
    a = make_run(tmp_path / "a", [value(FID, 50.0, floor=2.0)])
    b = make_run(tmp_path / "b", [value(FID, 40.0, floor=3.0)], strategy={"loss": "hinge"})
    c = make_run(tmp_path / "c", [], strategy={"loss": "minimax"})
    rows = csv.DictReader(io.StringIO(compare([a, b, c]).render("csv")))
    assert [row[f"{FID} floor"] for row in rows] == ["2.0", "3.0", ""]


def test_markdown(repeats):
    lines = repeats.render("markdown").splitlines()
    assert lines[0].startswith("| name | strategy | seeds |") and lines[0].endswith(f"| {FID} ↓ |")
    assert lines[1].count("---:") == 8
    assert lines[3].endswith("| **6.00 ± 2.65** (p = 0.1) |")
    assert "- Bold: the best value." in lines
    assert _markdown(r"a|b_c _d_ *e* <f> [g] \h") == r"a\|b_c \_d\_ \*e\* \<f> \[g\] \\h"


def test_latex(repeats, tmp_path):
    lines = repeats.render("latex").splitlines()
    assert r"\begin{tabular}{lrrrrrrrr}" in lines and {
        r"\toprule",
        r"\midrule",
        r"\bottomrule",
    } <= set(lines)
    (header,) = [line for line in lines if line.startswith("name")]
    assert header.endswith(r"& fid\_10k\_train\_inception $\downarrow$ \\")
    assert any(line.endswith(r"& \textbf{6.00 $\pm$ 2.65} (p = 0.1) \\") for line in lines)
    odd = make_run(tmp_path / "50%_a&b#c~d^e{f}", [value("is_10k_inception", 6.5, spread=0.25)])
    text = compare([odd]).render("latex")
    assert r"50\%\_a\&b\#c\textasciitilde{}d\textasciicircum{}e\{f\} & class-parallel" in text
    assert r"6.500 $\pm$ 0.250$^\dagger$" in text
    assert (
        _latex("\\ $1 < 2 > 1 |")
        == r"\textbackslash{} \$1 \textless{} 2 \textgreater{} 1 \textbar{}"
    )


def test_wide_tables_are_transposed_or_split(tmp_path):
    names = [
        f"{kind}_10k_train_inception"
        for kind in ("fid", "kid", "is", "precision", "recall", "density")
    ]
    runs = [
        make_run(
            tmp_path / f"run-{i}",
            [value(name, 0.5 + i, spread=0.25) for name in names],
            run={"rounds": 4 + i},
        )
        for i in range(12)
    ]
    turned = compare(runs[:3]).render().splitlines()
    assert turned[0].split() == ["name", "run-0", "run-1", "run-2"]
    assert any(line.split()[:2] == ["fid_10k_train_inception", "↓"] for line in turned)
    divided = compare(runs).render().splitlines()
    heads = [line.split()[1:] for line in divided if line.startswith("name ")]
    assert len(heads) > 1 and [name for head in heads for name in head] == [
        f"run-{i}" for i in range(12)
    ]
    assert sum(line.startswith("fid_10k_train_inception ") for line in divided) == len(heads)
    for lines in (turned, divided):
        assert all(len(line) <= WIDTH for line in lines)
    assert "| name | run-0 | run-1 | run-2 |" in compare(runs[:3]).render("markdown")


def test_unknown_formats_raise(repeats):
    assert list(FORMATS) == ["text", "csv", "markdown", "latex", "html"]
    with pytest.raises(UserError, match=r"--format pdf is unknown.*latex, html"):
        repeats.render("pdf")

"""Seconds of routines next to the paper's, from run folders made by hand."""

import json

import pytest
from PIL import Image

from remuda.errors import UserError
from remuda.reports.page import routines
from tests.cli.test_cli import in_process
from tests.reports.page.pages import payload_of
from tests.reports.page.records import add_rounds, make_record, round_line

TIMES = {"gather": 1.0, "update_genomes": 6.0, "mutate": 3.0, "train": 10.0}


@pytest.fixture
def grid(tmp_path):
    """Two iterations of four cells; of 30 s, the routines take 20; 4 batches of 32 per cell."""
    folder = make_record(tmp_path / "run", members=4, rounds=0, strategy="cellular")
    lines = [{**round_line(t, 4), "images": 512 * t, "routines": TIMES} for t in (1, 2)]
    add_rounds(folder, lines)
    return folder


def test_sums_over_the_rounds_in_the_order_of_the_paper(grid):
    found = routines.profile(grid)
    assert found.seconds == {"gather": 2.0, "train": 20.0, "update_genomes": 12.0, "mutate": 6.0}
    assert list(found.seconds) == list(routines.PAPER)
    assert (found.num_rounds, found.num_cells, found.num_batches, found.batch_size) == (2, 4, 4, 32)
    assert found.total == 40.0 and found.seconds_of_rounds == 60.0


def test_the_table(grid):
    rows = {row[0]: row[1:] for row in routines.profile(grid).rows()}
    # 4 times the cells and 100 times the iterations: 20 s are 8,000 s, 133.33 minutes
    assert rows["train"] == ["20.00", "50%", "10.0000", "133.33", "264.9", "52%", "43.8", "45%"]
    assert rows["gather"] == ["2.00", "5%", "1.0000", "13.33", "19.4", "4%", "19.4", "20%"]
    assert " ".join(rows["overall"]) == "40.00 100% 20.0000 266.67 509.6 100% 97.9 100%"
    assert all(len(row) + 1 == len(routines.HEADER) for row in rows.values())


def test_the_notes_explain_the_comparison(grid):
    first, scaled, rest = routines.profile(grid).notes()
    assert "2 iterations of 4 cells with 4 batches of 32 images" in first
    assert "200 iterations of 16 cells" in first
    assert "times 400 / 60" in scaled and "20.00 s" in rest


def test_the_papers_own_size_is_not_scaled(tmp_path):
    folder = make_record(tmp_path / "run", members=16, rounds=0, strategy="cellular")
    add_rounds(folder, ({**round_line(t, 16), "routines": TIMES} for t in range(1, 201)))
    found = routines.profile(folder)
    assert found.scale * 60 == 1 and len(found.notes()) == 2
    assert found.rows()[1][:5] == ["train", "2,000.00", "50%", "10.0000", "33.33"]


def test_routines_without_figures_in_the_paper(grid):
    add_rounds(grid, [{**round_line(3, 4), "routines": {"rest": 5.0}}])
    rows = routines.profile(grid).rows()
    assert [row[0] for row in rows] == [*routines.PAPER, "rest", "overall"]
    assert rows[4][5:] == ["", "", "", ""]


def test_a_picture_and_a_table_on_the_page(grid):
    routines.draw(routines.profile(grid), grid / "profile.png")
    with Image.open(grid / "profile.png") as picture:
        assert picture.width > 800
    found = payload_of(grid)["routines"]
    assert "2 iterations of 4 cells" in found["note"] and len(found["rows"]) == 5
    assert found["columns"] == routines.HEADER


def test_a_run_without_routines(tmp_path):
    folder = make_record(tmp_path / "run")
    with pytest.raises(UserError, match="no routines: choose a run of the strategy cellular"):
        routines.profile(folder)
    assert payload_of(folder)["routines"] is None
    status, output = in_process("profile", folder)
    assert status == 2 and len(output.strip().splitlines()) == 1
    assert not (folder / "profile.png").exists()


def test_a_damaged_line_is_named(grid):
    with (grid / "rounds.jsonl").open("a") as file:
        file.write(json.dumps({**round_line(3, 4), "routines": {"train": "long"}}) + "\n")
    with pytest.raises(UserError, match="line 3: routines is not a table of seconds"):
        routines.profile(grid)


def test_the_command(grid, capsys):
    assert in_process("profile", grid)[0] == 0
    shown = capsys.readouterr().out
    assert "update_genomes" in shown and "199.8" in shown and "profile.png" in shown
    assert (grid / "profile.png").exists()

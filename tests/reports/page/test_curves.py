"""Curves of all metrics: strides, columns, and reading line by line."""

import json
import math
import random

import pytest

from remuda.reports.page import curves as module
from remuda.reports.page.curves import MAX_POINTS, MAX_VALUES, Curves
from remuda.reports.page.members import Members
from remuda.reports.page.payload import payload
from remuda.reports.page.pictures import evenly
from remuda.reports.page.run import read

from .pages import NOW, decode, payload_of, source
from .records import add_rounds, make_record, round_line


def curves_of(lines, failures=(), lost=()):
    found, members = Curves(), Members(lambda: list(failures), lost)
    for line in lines:
        found.add(line, members)
    return found


def values(found, name):
    return decode(found.payload(0)["metrics"][name])


def drop(t, *members):
    line = {"round": t, "ranks": [1], "hosts": ["b"], "members": list(members)}
    return {**line, "action": "drop"}


def test_the_stride_doubles_when_there_are_too_many_points(monkeypatch):
    monkeypatch.setattr(module, "MAX_POINTS", 4)
    found = curves_of(round_line(t, 1) for t in range(1, 12))
    # 1 to 5 are five points; the sixth makes three of two rounds, the tenth five, the 12th three
    assert found.stride == 2 and found.length == 6
    assert found.axis("rounds") == [1.5, 3.5, 5.5, 7.5, 9.5, 11]
    expected = pytest.approx([t / 10 for t in found.axis("rounds")])
    assert values(found, "generator_loss") == expected
    found = curves_of(round_line(t, 1) for t in range(1, 13))
    assert found.stride == 4 and found.axis("rounds") == [2.5, 6.5, 10.5]
    assert found.axis("seconds") == [75, 195, 315] and found.axis("speed")[0] == 2500


@pytest.mark.parametrize(("rounds", "members"), [(1, 1), (9, 50_000), (99, 4_000), (5_000, 1)])
def test_points_and_values_are_limited(rounds, members):
    found = curves_of(round_line(t, members) for t in range(1, rounds + 1))
    assert found.length <= MAX_POINTS
    assert found.length * 2 * members <= max(MAX_VALUES, 34 * 2 * members)
    assert found.length >= min(rounds, found.max_points // 2)


def test_columns_are_members_also_after_losses():
    lines = [round_line(1, 3), {**round_line(2, 2), "generator_loss": [5, 7]}]
    found = curves_of(lines, [drop(1, 1)])
    assert found.payload(0)["ids"] == [0, 1, 2]
    expected = [0.1, 2.1, 4.1, 5, math.nan, 7]
    assert values(found, "generator_loss") == pytest.approx(expected, nan_ok=True)


def test_losses_before_the_first_round_and_without_a_line():
    found = curves_of([round_line(1, 2)], [drop(0, 0)])
    expected = [math.nan, 0.1, 2.1]
    assert values(found, "generator_loss") == pytest.approx(expected, nan_ok=True)
    found = curves_of([round_line(1, 3), round_line(2, 2)], lost=[2])
    assert values(found, "generator_loss")[3:5] == pytest.approx([0.2, 2.2])
    assert found.unknown == 0


def test_members_that_nobody_can_name_are_left_out():
    found = curves_of([round_line(1, 3), round_line(2, 2)])
    assert found.unknown == 2 and all(map(math.isnan, values(found, "generator_loss")[3:]))


def test_members_that_join_get_columns():
    before = curves_of([round_line(1, 2)])
    found = curves_of([round_line(1, 2), round_line(2, 3)])
    expected = [0.1, 2.1, math.nan, 0.2, 2.2, 4.2]
    assert values(found, "generator_loss") == pytest.approx(expected, nan_ok=True)
    assert found.generation != before.generation


def test_a_value_of_the_server_has_its_own_width():
    found = curves_of([round_line(t, 3, generator_loss=[t]) for t in (1, 2)])
    assert values(found, "generator_loss") == [1, 2] and found.by_member == ["discriminator_loss"]


def test_other_lists_are_no_metrics():
    found = curves_of([round_line(1, 2, odd=["x", None], empty=[], nested=[[1], [2]])])
    assert list(found.metrics) == ["discriminator_loss", "generator_loss"]


def test_traffic_and_memory():
    lines = [{**round_line(t, 1), "bytes": 10} for t in (1, 2, 3)]
    lines[1] |= {"traffic": {"scatter down": 8}, "memory": 5_000}
    found = curves_of(lines)
    assert found.directions(0) == {"scatter down": [0, 8, 0]}
    assert found.axis("bytes") == [10, 20, 30] and found.axis("memory") == [None, 5_000, None]


def test_mixture_weights_have_a_row_per_cell():
    line = {**round_line(1, 2), "mixture_weights": [[0.5, 0.5], [1.0, 0.0]]}
    found = curves_of([line, {**round_line(2, 1), "mixture_weights": [[0.25, 0.75]]}], [drop(1, 0)])
    assert found.weights is not None and found.num_slots == 2
    expected = [0.5, 0.5, 1, 0, math.nan, math.nan, 0.25, 0.75]
    assert decode(found.weights.encoded(0, False)) == pytest.approx(expected, nan_ok=True)


# Reading again and again


def same(a: dict, b: dict) -> bool:
    without = [{**each["curves"], "generation": ""} for each in (a, b)]
    return json.dumps(without[0]) == json.dumps(without[1])


def test_reading_line_by_line_gives_the_same_as_reading_once(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_POINTS", 16)
    draw = random.Random(0)
    folder = make_record(tmp_path / "run", members=3, rounds=0)
    run, number = read(folder), 0
    while number < 150:
        count = draw.randrange(1, 30)
        lines = [round_line(number + i + 1, 3) for i in range(count)]
        for line in lines:
            line["generator_loss"] = [draw.choice([draw.random(), math.nan]) for _ in range(3)]
        number += count
        add_rounds(folder, lines)
        assert run.refresh() and run.reached == number
        assert same(payload(run, source, now=NOW), payload_of(folder))
    assert run.rounds.curves.stride == 16 and not run.refresh()


def test_a_client_that_appends_has_the_same_curves(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_POINTS", 16)
    folder = make_record(tmp_path / "run", members=2, rounds=0)
    run, known = read(folder), {"generation": "", "rounds": [], "values": []}
    for t in range(1, 60):
        add_rounds(folder, [round_line(t, 2)])
        run.refresh()
        curves = run.rounds.curves
        is_valid = known["generation"] == curves.generation
        start = max(0, len(known["rounds"]) - 1) if is_valid else 0
        new = payload(run, source, start, NOW)["curves"]
        assert new["from"] == start
        known["rounds"][start:] = new["rounds"]
        known["values"][2 * start :] = decode(new["metrics"]["generator_loss"])
        known["generation"] = new["generation"]
    everything = payload_of(folder)["curves"]
    assert known["rounds"] == everything["rounds"]
    assert known["values"] == decode(everything["metrics"]["generator_loss"])


def test_a_resumed_run_starts_a_new_generation(tmp_path):
    folder = make_record(tmp_path / "run", rounds=6)
    run = read(folder)
    before = run.rounds.curves.generation
    (folder / "rounds.jsonl").write_text("")
    add_rounds(folder, [{**round_line(t, 3), "seconds": 1.0} for t in range(1, 9)])
    assert run.refresh() and run.rounds.curves.generation != before
    assert run.reached == 8 and run.rounds.seconds == 8


def test_a_torn_line_is_read_when_it_is_complete(tmp_path):
    folder = make_record(tmp_path / "run", rounds=4)
    run, line = read(folder), json.dumps(round_line(5, 3)) + "\n"
    for part, reached in ((line[:40], 4), (line[40:], 5)):
        with (folder / "rounds.jsonl").open("a") as file:
            file.write(part)
        run.refresh()
        assert run.reached == reached


def test_evenly_keeps_both_ends():
    assert evenly([1, 2, 3], 8) == [1, 2, 3]
    assert evenly(range(29), 8) == [0, 4, 8, 12, 16, 20, 24, 28]
    assert evenly(range(9), 8)[-1] == 8

"""The reader: complete lines, the end of long files, and one message for each damaged file."""

import json
import math

import pytest

from remuda.errors import UserError
from remuda.record import Reader, Record
from remuda.record.files import read_last_lines
from tests.reports.page.records import (
    add_grid,
    add_rounds,
    add_scores,
    make_record,
    round_line,
    score_line,
)


@pytest.fixture
def folder(tmp_path):
    return make_record(tmp_path / "run", rounds=4)


def failure(t, action="move"):
    line = {"round": t, "time": "", "ranks": [1], "hosts": ["far"], "members": [4]}
    return {**line, "action": action}


def append(path, *lines):
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def test_settings_and_facts(folder):
    reader = Reader.open(folder)
    assert reader.setting("run", "rounds") == 10
    assert reader.settings["strategy"]["name"] == "class-parallel"
    assert reader.facts.shape == (1, 8, 8) and reader.facts.counts == [100] * 3
    assert [entry["device"] for entry in reader.environments()] == ["old", "cuda:0: Fast <GPU>"]
    with pytest.raises(UserError, match=r"config\.toml cannot be read \(run\.missing is missing\)"):
        reader.setting("run", "missing")


def test_rounds_leave_out_a_torn_line(folder):
    with (folder / "rounds.jsonl").open("a") as file:
        file.write('{"round": 5, "torn')
    reader = Reader.open(folder)
    assert [line["round"] for line in reader.rounds()] == [1, 2, 3, 4]
    assert [line["round"] for line in reader.last_rounds(2)] == [3, 4]
    assert reader.num_rounds() == 4 and next(reader.iterate_rounds())["round"] == 1


def test_last_lines_read_only_the_end_of_a_file(folder):
    path = folder / "rounds.jsonl"
    add_rounds(folder, (round_line(t, 2) for t in range(5, 4000)))
    parsed = []

    def last(count, num_bytes):
        parsed.clear()
        return read_last_lines(path, count, lambda line: parsed.append(line) or line, num_bytes)

    assert last(2, 1000) == [round_line(3998, 2), round_line(3999, 2)] and len(parsed) == 2
    assert last(3, 30) == last(3, 1 << 20), "a window with too few lines is widened"
    assert len(last(9999, 30)) == 3999
    path.unlink()
    assert last(3, 30) == []


def test_of_scores_with_the_same_round_and_name_the_last_counts(folder):
    add_scores(folder, score_line(4, "fid", 3.0), score_line(2, "fid", 2.0))
    add_scores(folder, score_line(4, "fid", 1.0), score_line(4, "kid", 0.5, future="ignored"))
    found = [(score.round, score.name, score.value) for score in Reader.open(folder).scores()]
    assert found == [(2, "fid", 2.0), (4, "fid", 1.0), (4, "kid", 0.5)]
    assert Reader.open(folder).has_scores(2) and not Reader.open(folder).has_scores(3)


def test_failures_of_older_run_folders_come_first(folder):
    assert Reader.open(folder).failures() == []
    append(folder / "losses.jsonl", failure(1, "rehome"))
    Record.open(folder).add_failure(failure(3))
    assert [line["round"] for line in Reader.open(folder).failures()] == [1, 3]
    assert len((folder / "failures.jsonl").read_text().splitlines()) == 1


def test_grids_are_in_the_order_of_their_rounds(folder):
    for t in (1_000_000, 20, 3):
        add_grid(folder, t)
    (folder / "samples" / "round-best.png").write_bytes(b"")
    reader = Reader.open(folder)
    assert reader.sample_grids() == [reader.sample_path(t) for t in (3, 20, 1_000_000)]


def test_a_new_run_has_nothing_to_read(tmp_path):
    folder = make_record(tmp_path / "run", rounds=0)
    (folder / "environment.json").unlink()
    reader = Reader.open(folder)
    assert reader.rounds() == reader.last_rounds(3) == reader.scores() == reader.failures() == []
    assert reader.environments() == reader.sample_grids() == reader.checkpoints() == []
    assert reader.status() is None and reader.newest() == (None, [])


RANK = {"host": "a", "pid": 1, "born": 2, "remark": ""}


def told(**changes) -> str:
    """Return a status.json with these changes."""
    good = {"state": "running", "why": "", "time": "2026-01-01T00:00:00+00:00", "rounds": 1}
    return json.dumps({**good, "ranks": [RANK], **changes})


def arrivals(order: str) -> str:
    """Return a line of arrivals.jsonl."""
    return f'{{"round": 1, "arrivals": {order}}}\n'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.toml", "= 3", "restore it from a copy"),
        ("data.json", "{}", "name is missing.*restore it from a copy"),
        ("data.json", "[]", "not a JSON object"),
        ("environment.json", "[{", "remove it; training does not need it"),
        ("environment.json", "[1]", "not a list of JSON objects"),
        ("status.json", "{", "remove it; training writes a new one"),
        ("status.json", '{"state": "running"}', "why is missing"),
        ("status.json", told(time="yesterday"), "Invalid isoformat string"),
        ("status.json", told(time="2026-01-01"), "time is '2026-01-01'"),
        ("status.json", told(ranks=["x"]), "an entry of ranks is not a JSON object"),
        ("status.json", told(ranks=[{"host": "a"}]), "pid is missing"),
        ("status.json", told(ranks=[RANK | {"speed": "fast"}]), "speed is 'fast'"),
        ("status.json", told(ranks=[RANK | {"remark": math.nan}]), "remark is 'nan'"),
        ("status.json", told(ranks=[RANK | {"members": [{}]}]), r"members is '\[\{\}\]'"),
        ("config.toml", "run = 3", "run is not a table"),
        ("config.toml", "[run]\nrounds = inf", "rounds is 'inf'"),
        ("config.toml", "[run]\nkeep_best = 3", "keep_best is '3'"),
        ("config.toml", "a = " + "[" * 100_000, "restore it from a copy"),
        ("rounds.jsonl", "x\n", r"line 1.*remove the damaged line"),
        ("rounds.jsonl", "[1]\n", "not a JSON object"),
        ("rounds.jsonl", '{"round": "1"}\n', "round is '1'"),
        ("rounds.jsonl", '{"round": 1' + "0" * 400 + "}\n", "round is '1000"),
        ("rounds.jsonl", '{"round": 1, "seconds": NaN}\n', "seconds is 'nan'"),
        ("scores.jsonl", '{"round": 1}\n', r"line 1: name is missing.*remove the damaged line"),
        ("failures.jsonl", '{"round": 1}\n', r"line 1: ranks is missing.*remove the damaged line"),
        ("losses.jsonl", "\n", r"line 1.*remove the damaged line"),
        ("arrivals.jsonl", arrivals("3"), "line 1: arrivals is not a list"),
        ("arrivals.jsonl", arrivals("[3]"), r"an arrival is not a list.*remove the damaged line"),
        ("arrivals.jsonl", arrivals("[[]]"), "an arrival is not a list"),
        ("arrivals.jsonl", arrivals('[[0, "a"]]'), "an arrival is not a list"),
        ("arrivals.jsonl", arrivals("[[0, -1]]"), "an arrival is not a list of whole numbers"),
    ],
)
def test_a_damaged_file_is_named_with_cause_and_remedy(folder, name, content, message):
    (folder / name).write_text(content)
    reader = Reader.open(folder)
    with pytest.raises(UserError, match=rf"{name} cannot be read \(.*{message}") as error:
        assert reader.settings and reader.facts
        reader.environments(), reader.status(), reader.rounds(), reader.scores(), reader.failures()
        reader.arrivals()
    assert "\n" not in str(error.value)


def test_other_folders_raise(tmp_path):
    with pytest.raises(UserError, match=r"is not a run of remuda, because it has no config\.toml"):
        Reader.open(tmp_path)


def test_the_best_round_does_not_depend_on_later_scores(folder, monkeypatch):
    """A later score may use other samples or data, but its name can be the same."""
    name = "fid_10k_train_lenet"
    settings = (folder / "config.toml").read_text()
    assert "[run]\n" in settings
    settings = settings.replace("[run]\n", f'[run]\nkeep_best = "{name}"\n')
    (folder / "config.toml").write_text(settings)
    values = {1: 6.0, 2: 5.0, 3: 7.0}
    add_scores(folder, *(score_line(t, name, value, seed=0) for t, value in values.items()))
    other = score_line(3, name, 1.0, seed=0, reference_digest="other")
    add_scores(folder, other, *(score_line(t, name, 9.0 - t, seed=1) for t in (2, 4)))
    reader = Reader.open(folder)
    assert {score.round: score.value for score in reader.training_scores()} == values
    assert [score.value for score in reader.scores()] == [6.0, 7.0, 1.0, 5.0]
    monkeypatch.setattr(reader, "_saved_rounds", lambda: set(values))
    assert reader.protected_rounds() == {2} and reader.best().value == 5.0

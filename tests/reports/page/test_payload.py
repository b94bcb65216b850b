"""The data of a run's page, from records made by hand."""

import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from remuda.cli.results import write_report
from remuda.errors import UserError
from remuda.reports.page.payload import payload
from remuda.reports.page.run import read
from remuda.system.processes import this_process

from .pages import NOW, decode, facts_of, payload_of, source
from .records import (
    add_checkpoint,
    add_failure,
    add_grid,
    add_rounds,
    make_record,
    round_line,
    set_status,
)


def test_facts(tmp_path):
    found = facts_of(make_record(tmp_path / "my run", rounds=4, planned=10))
    assert found == {
        "strategy": "class-parallel",
        "data": "digits, 300 images, 1 x 8 x 8",
        "members": "3",
        "rounds": "4 of 10",
        "images seen": "4,000",
        "time trained": "2 min 0 s",
        "images/s, median": "2,500",
        "device": "cuda:0: Fast <GPU>",
    }
    whole = payload_of(tmp_path / "my run")
    assert (whole["name"], whole["about"]) == ("my run", "A <b>small</b> herd")


def test_the_same_record_gives_the_same_payload(tmp_path):
    folder = make_record(tmp_path / "run")
    assert payload_of(folder) == payload_of(folder)


# States


def state_of(folder: Path, now=NOW) -> dict:
    return payload(read(folder), source, now=now)["state"]


def test_a_run_in_progress_has_a_beginning_and_an_end(tmp_path):
    folder = make_record(tmp_path / "run", rounds=4, planned=10)
    entries = [{"time": "2026-01-01T00:00:00+00:00"}, {"time": "2026-01-02T03:00:00+00:00"}]
    (folder / "environment.json").write_text(json.dumps(entries))
    set_status(folder, NOW)
    found = state_of(folder)
    assert found["state"] == "running" and found["since"] == "2026-01-02T03:00:00+00:00"
    # six rounds of 30 s
    assert found["until"] == (NOW + timedelta(minutes=3)).isoformat()
    assert (found["reached"], found["planned"], found["remarks"]) == (4, 10, [])
    commands = " ".join(each["text"] for each in payload_of(folder)["commands"])
    assert "resume" not in commands and f"remuda status {folder} --watch" in commands


def test_a_killed_run_may_be_resumed(tmp_path):
    folder = make_record(tmp_path / "run")
    set_status(folder, NOW, host="elsewhere")
    assert state_of(folder)["state"] == "running"
    later = state_of(folder, NOW + timedelta(minutes=5))
    assert later["state"] == "killed" and "last trained on elsewhere" in later["remarks"][0]
    assert later["until"] is None


def test_remarks_of_ranks_and_of_the_end(tmp_path):
    folder = make_record(tmp_path / "run")
    set_status(folder, NOW, state="stopped", why="the disk is full", remark="rank 0 is slow")
    assert state_of(folder)["remarks"] == ["the disk is full", "rank 0 is slow"]


@pytest.mark.parametrize(("planned", "state"), [(4, "finished"), (10, "stopped")])
def test_a_run_writes_its_page_before_its_last_state(tmp_path, planned, state):
    folder = make_record(tmp_path / "run", rounds=4, planned=planned)
    (folder / "environment.json").write_text(json.dumps([{"seconds": {"rounds": 3.0}}]))
    set_status(folder, NOW, process=this_process("here"))
    assert state_of(folder)["state"] == state
    assert payload_of(folder)["seconds"]["rows"] == [["training", "3.0 s", "100%"]]


def test_without_a_status_the_state_is_unknown(tmp_path):
    found = state_of(make_record(tmp_path / "run"))
    assert found["state"] == "unknown" and "has no status.json" in found["remarks"][0]
    done = make_record(tmp_path / "done", planned=4)
    assert state_of(done)["state"] == "finished"


# Commands


def texts(folder: Path) -> list[str]:
    return [each["text"] for each in payload_of(folder)["commands"]]


def test_commands_to_resume_and_sample(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    resume, sample, python = texts(make_record(Path("my run"), rounds=4, planned=10))
    assert resume == "remuda resume 'my run' --rounds 10"
    assert sample == "remuda sample 'my run' --label all --n 10 --out grid.png"
    assert python.endswith("remuda.load('my run').sample(16)")
    single = {"strategy": "standalone", "members": 1}
    resume, sample, _ = texts(make_record(Path("done"), rounds=4, planned=4, **single))
    assert resume == "remuda resume done --rounds 8"
    assert sample == "remuda sample done --n 64 --out grid.png"
    assert "--label all" in texts(make_record(Path("asked"), conditional=True, **single))[1]


def test_a_run_without_a_round_has_no_model(tmp_path):
    folder = make_record(tmp_path / "run", rounds=0, planned=10)
    assert texts(folder) == [], "it may be starting"
    set_status(folder, NOW, state="stopped", why="a loss became nan")
    assert texts(folder) == [f"remuda resume {folder} --rounds 10"]


def test_a_run_without_a_checkpoint_has_no_model(tmp_path):
    folder = make_record(tmp_path / "run", rounds=2, planned=10)
    shutil.rmtree(folder / "checkpoints")
    set_status(folder, NOW, state="stopped", why="it was killed")
    assert texts(folder) == [f"remuda resume {folder} --rounds 10"]
    run = read(folder)
    add_checkpoint(folder, 2)
    assert run.refresh() and run.has_checkpoint
    assert len(texts(folder)) == 3


def test_the_command_reports_unexpected_content(tmp_path):
    folder = make_record(tmp_path / "run")
    path = folder / "config.toml"
    path.write_text(path.read_text().replace("[run]", "[run]\nlost = 3"))
    with pytest.raises(UserError, match=r"run cannot be shown, .* not iterable"):
        write_report(folder)


# Members


def test_names_of_members(tmp_path):
    def names(**settings):
        found = payload_of(make_record(tmp_path / str(len(list(tmp_path.iterdir()))), **settings))
        return found["noun"], [each["name"] for each in found["members"]]

    assert names(classes=["cat", "dog", "emu"]) == ("class", ["cat", "dog", "emu"])
    assert names(strategy="fl-gan", members=2) == ("worker", ["worker 0", "worker 1"])
    assert names(strategy="standalone", members=1) == ("member", ["member 0"])
    assert names(strategy="my.py:Own", members=1) == ("member", ["member 0"])
    grid = names(strategy='cellular"\nheight = 2\nwidth = "2', members=4)
    assert grid == ("cell", ["cell 0", "cell 1", "cell 2", "cell 3"])


def test_lost_members_keep_their_names(tmp_path):
    folder = make_record(tmp_path / "run", classes=["cat", "dog", "emu"])
    add_failure(folder, 4, ranks=[1], hosts=["b"], members=[1])
    add_rounds(folder, [round_line(5, 2)])
    found = payload_of(folder)
    assert [each["lost"] for each in found["members"]] == [
        None,
        {"round": 4, "why": "1 rank on b failed"},
        None,
    ]
    assert found["last"]["metrics"]["generator_loss"] == [0.5, None, 2.5]
    assert found["last"]["means"]["generator_loss"] == 1.5
    assert len(found["failures"]) == 1 and "lost" not in found["state"]["remarks"][0]


def test_members_that_were_lost_before_the_first_round_are_counted(tmp_path):
    folder = make_record(tmp_path / "run", members=3, strategy="md-gan")
    config = folder / "config.toml"
    config.write_text(config.read_text().replace("members = 0", "members = 3\nlost = [1]"))
    assert facts_of(folder)["members"] == "4, 1 of them lost"
    config.write_text(config.read_text().replace('"md-gan"', '"md-gan"\ndiscriminators = 2'))
    assert facts_of(folder)["members"] == "3, 1 of them lost", "run.members counts workers"


# Pictures


def test_pictures_are_in_order_and_rows_have_names(tmp_path):
    folder = make_record(tmp_path / "run", classes=["cat", "dog", "emu"])
    for t in (10, 2):
        add_grid(folder, t)
    found = payload_of(folder)["pictures"]
    assert [each["round"] for each in found] == [2, 10]
    assert found[0]["rows"] == ["cat", "dog", "emu"] and found[0]["is_points"] is False
    many = make_record(tmp_path / "many", members=45)
    add_grid(many, 1)
    assert len(payload_of(many)["pictures"][0]["rows"]) == 20
    plain = make_record(tmp_path / "plain", members=1, strategy="standalone")
    add_grid(plain, 1)
    assert payload_of(plain)["pictures"][0]["rows"] is None


def test_points_have_no_rows(tmp_path):
    folder = make_record(tmp_path / "run", members=1, conditional=True, strategy="standalone")
    data = folder / "data.json"
    data.write_text(data.read_text().replace("[1, 8, 8]", "[2, 1, 1]"))
    add_grid(folder, 4, size=(400, 400))
    picture = payload_of(folder)["pictures"][0]
    assert picture["is_points"] is True and picture["rows"] is None
    assert facts_of(folder)["data"] == "digits, 100 points"


# Strategies


def test_the_torus(tmp_path):
    folder = make_record(tmp_path / "run", members=4, rounds=0, strategy="cellular")
    config = folder / "config.toml"
    config.write_text(config.read_text().replace("batch_size", "height = 2\nwidth = 2\nbatch_size"))
    weights = [[0.5, 0.5]] * 4
    neighbours = [[0, 1], [1, 2], [2, 3], [3, 0]]
    lines = [round_line(t, 4, mixture_weights=weights, neighbours=neighbours) for t in (1, 2)]
    add_rounds(folder, lines)
    (folder / "samples" / "cells").mkdir()
    add_grid(folder / "samples", 2, folder="cells")
    found = payload_of(folder, start=1)
    torus = found["torus"]
    assert (torus["height"], torus["width"], torus["slots"]) == (2, 2, 2)
    assert torus["neighbours"] == neighbours and torus["pictures"][0]["round"] == 2
    assert decode(torus["weights"]) == [0.5] * 8 and found["curves"]["from"] == 1
    assert torus["fields"] == ["discriminator_loss", "generator_loss"]
    assert found["members"][3]["name"] == "row 1, column 1"
    add_failure(folder, 2, ranks=[1], hosts=["b"], members=[1])
    add_rounds(folder, [round_line(3, 3, neighbours=[[0, 2], [2, 3], [3, 0]])])
    assert payload_of(folder)["torus"]["neighbours"] == [[0, 2], [], [2, 3], [3, 0]]


def test_workers(tmp_path):
    folder = make_record(tmp_path / "run", members=3, rounds=0, strategy="md-gan-async")
    data = json.loads((folder / "data.json").read_text())
    (folder / "data.json").write_text(json.dumps({**data, "shares": [50, 60]}))
    add_failure(folder, 0, ranks=[1], hosts=["b"], members=[1])
    moved = {"moved_from": {"members": [2, 0]}}
    add_rounds(folder, [round_line(t, 2, kept=[0.25, 1], turns=[t, 5]) | moved for t in (1, 2)])
    set_status(folder, NOW, host="a", members=[0, 2])
    found = payload_of(folder)
    first, lost, last = found["workers"]
    assert first == {"id": 0, "share": 50, "host": "a", "kept": 0.25, "turns": 3, "lost": None}
    assert lost["lost"]["round"] == 0 and lost["share"] is None and lost["kept"] is None
    assert (last["share"], last["turns"]) == (60, 10)
    assert found["swaps"] == [{"round": t, "from": [2, 0]} for t in (1, 2)]
    assert found["classes"] is None and found["torus"] is None


# Incomplete and damaged records


def test_a_run_before_its_first_round(tmp_path):
    found = payload_of(make_record(tmp_path / "run", rounds=0))
    assert dict(found["facts"])["rounds"] == "0 of 10" and len(found["members"]) == 3
    assert found["curves"]["rounds"] == [] and found["curves"]["metrics"] == {}
    assert found["pictures"] == [] and found["last"] == {"round": 0, "metrics": {}, "means": {}}


def test_a_run_folder_with_only_a_configuration(tmp_path):
    folder = make_record(tmp_path / "run", rounds=0)
    for name in ("data.json", "environment.json", "rounds.jsonl"):
        (folder / name).unlink()
    (folder / "samples").rmdir()
    found = facts_of(folder)
    assert (found["data"], found["members"]) == ("digits", "not known yet")
    assert found["device"] == "not known yet"


def test_values_that_are_not_finite_become_null(tmp_path):
    folder = make_record(tmp_path / "run", rounds=1)
    values = [float("nan"), float("inf"), 0.5]
    add_rounds(folder, [round_line(2, 3, generator_loss=values)])
    found = payload_of(folder)
    assert found["last"]["metrics"]["generator_loss"] == [None, None, 0.5]
    assert [each["collapsed"] for each in found["classes"]] == [True, True, False]
    assert found["classes"][0]["why"] == "its generator loss is not finite"


def test_settings_and_environments_are_folded_in(tmp_path):
    settings, environment = payload_of(make_record(tmp_path / "run"))["details"]
    assert "batch_size = 32" in settings["text"] and '"device": "old"' in environment["text"]

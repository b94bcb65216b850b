"""Repeat the recorded order of an asynchronous run on one device."""

from dataclasses import replace

import pytest

import remuda
from remuda import config
from remuda.errors import UserError
from remuda.record import Record


@pytest.fixture
def recorded(tiny, tmp_path):
    """A run of two rounds, with random durations."""
    tiny["strategy"]["name"] = "md-gan-async"
    tiny["run"] |= {"rounds": 2, "members": 3}
    return tiny, remuda.run(config.from_dict(tiny), tmp_path / "recorded")


def replay(values, folder, out, rounds=2):
    engine = {**values.get("engine", {}), "replay": str(folder)}
    run = {**values["run"], "rounds": rounds}
    return remuda.run(config.from_dict({**values, "engine": engine, "run": run}), out)


def test_a_replay_follows_the_order_instead_of_the_speeds(recorded, tmp_path):
    values, folder = recorded
    values["strategy"]["speeds"] = [0.1, 1.0, 1.0]
    other = replay(values, folder, tmp_path / "replay")
    one, two = (Record.open(each).rounds() for each in (folder, other))
    for name in ("discriminator_loss", "generator_loss", "turns"):
        assert [line[name] for line in one] == [line[name] for line in two]
    orders = [[order for _, order in Record.open(each).arrivals()] for each in (folder, other)]
    assert orders[0] == orders[1] and len(orders[0][0]) == sum(one[0]["turns"])


def test_a_replay_can_be_resumed_in_another_folder(recorded, tmp_path, monkeypatch):
    values, folder = recorded
    monkeypatch.chdir(tmp_path)
    other = replay(values, folder.name, tmp_path / "replay", rounds=1)
    assert Record.open(other).config.engine.replay == str(folder)
    monkeypatch.chdir("/")
    remuda.resume(other, rounds=2)
    one, two = (Record.open(each).rounds() for each in (folder, other))
    assert [line["generator_loss"] for line in one] == [line["generator_loss"] for line in two]


def test_a_replay_cannot_be_longer_than_the_record(recorded, tmp_path):
    values, folder = recorded
    with pytest.raises(UserError, match="for round 3: train only 2 rounds with --rounds"):
        replay(values, folder, tmp_path / "replay", rounds=3)
    assert not (tmp_path / "replay").exists()


def test_a_replay_ends_before_a_line_that_was_removed(recorded, tmp_path):
    """This is what the message about a damaged line tells users to do."""
    values, folder = recorded
    first, second = (folder / "arrivals.jsonl").read_text().splitlines(keepends=True)
    (folder / "arrivals.jsonl").write_text(first)
    with pytest.raises(UserError, match="for round 2: train only 1 round with --rounds"):
        replay(values, folder, tmp_path / "replay")
    replay(values, folder, tmp_path / "replay", rounds=1)
    (folder / "arrivals.jsonl").write_text(second)
    with pytest.raises(UserError, match="for round 1: choose another run"):
        replay(values, folder, tmp_path / "second")


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"strategy": {"name": "cellular-async"}}, "has another strategy or another seed"),
        ({"run": {"seed": 9}}, "has another strategy or another seed"),
        ({"strategy": {"name": "md-gan"}}, "use --engine stacked and an asynchronous strategy"),
    ],
    ids=str,
)
def test_other_runs_are_refused(recorded, tmp_path, changes, sentence):
    values, folder = recorded
    for section, change in changes.items():
        values[section] = {**values[section], **change}
    if values["strategy"]["name"] == "cellular-async":
        values["run"]["members"] = 0
    with pytest.raises(UserError, match=sentence):
        replay(values, folder, tmp_path / "replay")


def test_a_run_that_has_lost_members_is_refused(recorded, tmp_path):
    values, folder = recorded
    record = Record.open(folder)
    run = replace(record.config.run, members=2, lost=(1,))
    record.replace_config(replace(record.config, run=run))
    with pytest.raises(UserError, match="has lost members, so its order cannot be repeated"):
        replay(values, folder, tmp_path / "replay")


@pytest.mark.parametrize("size", [2, 4])
def test_another_number_of_members_is_refused(recorded, tmp_path, size):
    values, folder = recorded
    values["run"] |= {"members": size}
    with pytest.raises(UserError, match=f"3 members in round 1, and this run has {size}.*train 3"):
        replay(values, folder, tmp_path / "replay")


def test_a_run_that_has_grown_is_repeated_only_before(recorded, tmp_path):
    values, folder = recorded
    remuda.resume(folder, rounds=3, members=5)
    with pytest.raises(UserError, match=r"5 members in round 3.*train only 2 rounds"):
        replay(values, folder, tmp_path / "replay", rounds=3)
    replay(values, folder, tmp_path / "replay", rounds=2)

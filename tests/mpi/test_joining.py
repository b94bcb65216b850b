"""New ranks join runs on real ranks."""

import pytest

from remuda.record import Record
from remuda.reports import status
from tests.mpi.killing import Victim
from tests.mpi.starting import remuda
from tests.training.test_run import write_toy_images

ENDLESS = ("--rounds", 100_000, "--members", 2, "--set", "run.sample_every=100000")


@pytest.fixture
def start(tmp_path):
    """Start a run on two ranks; end it if the test fails."""
    started = []

    def run(*words):
        started.append(Victim(tmp_path / "run", *words, *ENDLESS, ranks=2))
        return started[-1]

    yield run
    for victim in started:
        if victim.process.poll() is None:
            victim.kill_all()


def test_a_rank_joins_a_running_run(start):
    victim = start("md-gan", "--restarts", 0)
    victim.wait(lambda: victim.has_reached(3))
    result = remuda("join", victim.folder, "--ranks", 1)
    assert result.returncode == 0 and not result.stderr, result.stdout + result.stderr
    assert "1 rank joined" in result.stdout and "3 members on 3 ranks" in result.stdout
    reached = victim.folder / "rounds.jsonl"
    size = reached.stat().st_size
    victim.wait(lambda: reached.stat().st_size > size)
    victim.process.terminate()
    code, printed, errors = victim.end()
    assert code == 130, errors
    assert errors.startswith("stopped after round ") and errors.count("\n") == 1, errors
    assert "1 rank joins: restarting from round " in printed
    record, now = Record.open(victim.folder), status.read(victim.folder)
    assert record.config.run.members == record.config.engine.ranks == 3
    assert [rank["members"] for rank in now.ranks] == [[0], [1], [2]]
    lines = record.rounds()
    assert [line["round"] for line in lines] == list(range(1, len(lines) + 1))
    assert [entry["ranks"] for entry in record.environments()] == [2, 3]
    assert not list(victim.folder.glob("join*"))


@pytest.mark.soak
def test_new_ranks_bring_their_own_data(tmp_path, toy_data, start):
    """The third rank joins only when it has data; without them the run continues as before."""
    for rank in range(2):
        write_toy_images(toy_data, tmp_path / f"images-{rank}", first=4 * rank)
    data = f"data.name=folder:{tmp_path}/images-{{rank}}"
    victim = start("fl-gan", "--set", data)
    victim.wait(lambda: victim.has_reached(3))
    result = remuda("join", victim.folder, "--ranks", 1)
    assert result.returncode == 2 and "1 rank could not start" in result.stderr, result.stderr
    write_toy_images(toy_data, tmp_path / "images-2")
    victim.wait(lambda: len(Record(victim.folder).environments()) == 2)
    victim.wait(lambda: status.read(victim.folder).state == "running")
    result = remuda("join", victim.folder, "--ranks", 1)
    assert result.returncode == 0, result.stderr
    victim.process.terminate()
    code, printed, errors = victim.end()
    assert code == 130 and "images-2" in errors, errors
    assert "the new ranks could not start; continuing without them" in printed
    record = Record.open(victim.folder)
    assert record.config.data.ranks == (0, 1, 2)
    assert record.facts.counts == [32, 15, 6]  # 19 and 15 images before
    rounds = len(record.rounds()) + 1
    result = remuda("resume", victim.folder, "--rounds", rounds)
    assert result.returncode == 0, result.stderr

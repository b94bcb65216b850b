"""Errors of commands that several ranks run together."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from remuda.cli import ranks
from remuda.cluster import launch
from remuda.config import from_dict
from remuda.engines import SingleProcess
from remuda.engines.communicator import LostRank
from remuda.errors import StoppedByFailure
from remuda.record import Record

SITES = {"data": {"name": "folder:sites/{rank}"}, "strategy": {"name": "fl-gan"}}


class WithoutRank1(SingleProcess):
    """Ranks that lost one before all had joined."""

    def __init__(self):
        super().__init__()
        self.lost = (LostRank(1, "node1"),)


class WithoutRank0(SingleProcess):
    """Ranks that cannot join, because rank 0 is lost."""

    def __enter__(self):
        raise StoppedByFailure("rank 0 on node0 was lost")


@pytest.mark.parametrize(
    ("communicator", "lost"),
    [(WithoutRank1, "ranks were lost"), (WithoutRank0, "rank 0 on node0 was lost")],
)
def test_ranks_that_are_lost_before_they_join(monkeypatch, communicator, lost):
    record = SimpleNamespace(config=from_dict(SITES))
    monkeypatch.setattr(Record, "open", lambda *_: record)
    monkeypatch.setattr(ranks, "start_ranks", lambda *_, **options: None)
    monkeypatch.setattr(launch, "join", lambda engine: communicator())
    scoring = ranks.scoring_ranks(Path("run"), 3, None, False)
    with pytest.raises(StoppedByFailure) as error, scoring:
        pytest.fail("the remaining ranks cannot score the run")
    assert str(error.value) == f"{lost} before the scores were known: score the run again"

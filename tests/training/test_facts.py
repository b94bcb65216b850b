"""The record contains facts that are not metrics: memory, shares, mixtures, swaps and cells."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

import remuda
from remuda import config
from remuda.errors import UserError
from remuda.record import Reader, Record
from remuda.record.rounds import describe, is_metric
from remuda.strategies.context import Report
from remuda.training.assemble import assemble
from remuda.training.lines import refuse_divergence
from tests.conftest import TINY
from tests.training.test_run import StopAfter

pytestmark = pytest.mark.usefixtures("empty_pages")

CELLULAR = {"name": "cellular", "height": 1, "width": 3, "mixture_samples": 8}
METRICS = {"generator_fitness", "discriminator_fitness", "generator_loss", "mixture_distance"}


def make(tiny, strategy, data=None, **run):
    common = {"batch_size": 4, "steps_per_round": 2}
    values = {**tiny, "strategy": {**common, **strategy}, "run": {**tiny["run"], **run}}
    return config.from_dict({**values, "data": {**tiny["data"], **(data or {})}})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells") / "run"
    return remuda.run(make(TINY, CELLULAR, members=0, rounds=3), folder)


@pytest.fixture
def cells(trained, tmp_path):
    return Path(shutil.copytree(trained, tmp_path / "cells"))


def test_rounds_have_mixtures_memory_and_fitness(cells):
    lines = Reader.open(cells).rounds()
    for line in lines:
        metrics = {name for name, value in line.items() if is_metric(value)}
        assert metrics >= METRICS and "mixture_weights" not in metrics
        assert line["neighbours"] == [[0, 2, 1], [1, 0, 2], [2, 1, 0]]
        for weights in line["mixture_weights"]:
            assert sum(weights) == pytest.approx(1, abs=1e-4)
            assert all(len(str(weight)) <= 7 for weight in weights)
        assert 10 << 20 < line["memory"] < 1 << 40
        assert "neighbours" not in describe(line) and "generator_fitness" in describe(line)
    memories = [line["memory"] for line in lines]
    assert memories == sorted(memories)


def test_every_cell_has_a_row_in_a_picture_of_its_round(cells):
    reader = Reader.open(cells)
    names = ["round-000002.png", "round-000003.png"]
    assert [path.name for path in reader.cell_grids()] == names
    assert [path.name for path in reader.sample_grids()] == names
    with Image.open(reader.cell_path(3)) as image:
        assert image.size == (8 * 35 + 3, 3 * 35 + 3)


def test_a_resume_repeats_the_cells_and_their_pictures(tiny, cells, tmp_path):
    settings = make(tiny, CELLULAR, members=0, rounds=3, checkpoint_every=100)
    with pytest.raises(remuda.Interrupted):
        remuda.run(settings, tmp_path / "run", progress=StopAfter(1))
    record = Record.open(tmp_path / "run")
    later = record.cell_path(2)
    later.parent.mkdir(exist_ok=True)
    later.write_bytes(b"of a round that runs again")
    remuda.resume(tmp_path / "run")
    for one, other in zip(record.rounds(), Reader.open(cells).rounds(), strict=True):
        for name in ("mixture_weights", "neighbours", "generator_fitness"):
            assert one[name] == other[name]
    pictures = [path.read_bytes() for path in record.cell_grids()]
    assert pictures == [path.read_bytes() for path in Reader.open(cells).cell_grids()]


def test_points_of_cells_are_small_plots(tiny, tmp_path):
    tiny["networks"] = {"name": "mlp", "latent": 4, "hidden": 8}
    settings = make(tiny, CELLULAR, {"name": "ring"}, members=0, rounds=1)
    folder = remuda.run(settings, tmp_path / "run")
    (path,) = Reader.open(folder).cell_grids()
    with Image.open(path) as image:
        assert image.size == (128 + 6, 3 * 131 + 3) and image.getextrema() == (0, 255)


def test_swaps_and_shares_of_workers(tiny, tmp_path):
    strategy = {"name": "md-gan", "swap_every": 2}
    folder = remuda.run(make(tiny, strategy, rounds=4), tmp_path / "run")
    reader = Reader.open(folder)
    swaps = {line["round"]: line.get("moved_from") for line in reader.rounds()}
    assert swaps[1] is None and swaps[3] is None
    for t in (2, 4):
        assert sorted(swaps[t]["members"]) == [0, 1, 2]
        assert all(source != member for member, source in enumerate(swaps[t]["members"]))
    assert sum(reader.facts.shares) == sum(reader.facts.counts)
    assert reader.facts.shares == [501, 500, 500] and not reader.cell_grids()


def test_facts_name_members_by_their_ids(tiny):
    """Members 1 and 3 were lost, so positions and ids differ."""
    herd = assemble(make(tiny, {"name": "md-gan"}, members=3, lost=[1, 3]))
    _, metrics = herd.step(herd.strategy.init(herd.context, herd.engine), 1)
    moved = metrics.facts["moved_from"]["members"].tolist()
    assert sorted(moved) == [0, 2, 4]
    assert herd.report(metrics)["moved_from"] == {"members": moved}
    # A member may be lost between a round and its report.
    smaller = assemble(make(tiny, {"name": "md-gan"}, members=2, lost=[1, 3, 4]))
    rows = torch.tensor([4, 0])
    report = Report({"loss": rows.float()}, {"moved_from": {"members": rows}})
    assert smaller.report(report) == {"loss": [4.0, 0.0], "moved_from": {"members": [4, 0]}}
    assert smaller.report({"loss": rows.float()}) == {"loss": [4.0, 0.0]}


def test_an_undefined_fitness_does_not_end_the_run(tiny, tmp_path):
    herd = assemble(make(tiny, CELLULAR, members=0))
    values = {"generator_fitness": [0.5, math.nan, math.inf], "mixture_weights": [[1.0]] * 3}
    refuse_divergence(herd, 2, values, tmp_path)
    with pytest.raises(UserError, match="generator_loss of member 1 became inf in round 2"):
        refuse_divergence(herd, 2, {"generator_loss": [0.0, math.inf, 0.0]}, tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"memory": "much"},
        {"mixture_weights": [0.5, 0.5]},
        {"neighbours": [[0, "1"]]},
        {"moved_from": [1, 0]},
        {"moved_from": {"members": 3}},
    ],
    ids=str,
)
def test_damaged_facts_are_reported(cells, change):
    path = cells / "rounds.jsonl"
    first, *_ = path.read_text().splitlines()
    path.write_text(json.dumps(json.loads(first) | change) + "\n")
    with pytest.raises(UserError, match=rf"line 1: {next(iter(change))} is"):
        Reader.open(cells).rounds()


def test_data_of_other_versions_can_be_read(cells):
    path = cells / "data.json"
    facts = json.loads(path.read_text())
    assert facts.pop("shares") == [1501] * 3
    path.write_text(json.dumps({**facts, "later": 1}))
    assert Reader.open(cells).facts.shares == []
    path.write_text(json.dumps({**facts, "shares": ["many"]}))
    with pytest.raises(UserError, match="not whole numbers"):
        assert Reader.open(cells).facts

"""Run folders and studies made by hand, with the settings of a result's runs."""

import json
from pathlib import Path

from remuda.config import to_toml
from remuda.experiments.papers import Options
from tests.reports.page.records import add_rounds, add_scores, round_line, score_line


def make_run(folder: Path, work, scores=(), rounds=3, members=1, images=1000, **options) -> Path:
    """Write a run of a work; ``scores`` are pairs of a round and {name: value}."""
    folder.mkdir(parents=True)
    config = work.config(Options(**options))
    (folder / "config.toml").write_text(to_toml(config))
    protocol = {"num_samples": config.scores.samples, "reference": config.scores.reference}
    (folder / "environment.json").write_text(json.dumps([{"device": "cpu", "threads": 2}]))
    lines = (round_line(t, members) | {"images": images * t} for t in range(1, rounds + 1))
    add_rounds(folder, lines)
    for t, values in scores:
        lines = [score_line(t, name, value, **protocol) for name, value in values.items()]
        add_scores(folder, *lines)
    return folder


def make_study(folder: Path, seconds: dict[int, list[float]]) -> Path:
    """Write the scaling.json of a study, with the seconds of rounds by number of ranks."""
    folder.mkdir(parents=True)
    measured = [
        {"ranks": ranks, "members": 4, "seconds": each, "median": sorted(each)[len(each) // 2]}
        for ranks, each in seconds.items()
    ]
    (folder / "scaling.json").write_text(json.dumps({"measured": measured}))
    return folder

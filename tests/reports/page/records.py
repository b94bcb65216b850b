"""Run folders made by hand, as a run writes them."""

import json
import platform
from pathlib import Path

from PIL import Image

from remuda.record.manifests import OLD_MANIFEST
from remuda.system.processes import this_process

CONFIG = """about = "A <b>small</b> herd"
{paper}
[data]
name = "digits"

[networks]
name = "mlp"
conditional = {conditional}

[strategy]
name = "{strategy}"
batch_size = 32

[run]
rounds = {planned}
members = 0
"""


def make_record(
    folder: Path,
    members=3,
    rounds=4,
    planned=10,
    strategy="class-parallel",
    classes=None,
    paper="",
    conditional=False,
) -> Path:
    """Write a run folder; member i's losses in round t are i + t/10 and 2i + t/10."""
    (folder / "samples").mkdir(parents=True)
    conditional = str(conditional).lower()
    text = CONFIG.format(paper=paper, conditional=conditional, strategy=strategy, planned=planned)
    (folder / "config.toml").write_text(text)
    classes = [f"class-{i}" for i in range(members)] if classes is None else classes
    facts = {
        "name": "digits",
        "shape": [1, 8, 8],
        "classes": classes,
        "counts": [100] * len(classes),
    }
    (folder / "data.json").write_text(json.dumps(facts))
    (folder / "environment.json").write_text(
        json.dumps([{"device": "old"}, {"device": "cuda:0: Fast <GPU>"}])
    )
    add_rounds(folder, (round_line(t, members) for t in range(1, rounds + 1)))
    if rounds:
        add_checkpoint(folder, rounds)
    return folder


def add_checkpoint(folder: Path, t: int) -> None:
    """Write the files by which a checkpoint of version 0.1.0 is found, without content."""
    place = folder / "checkpoints" / f"round-{t:06d}"
    place.mkdir(parents=True)
    (place / OLD_MANIFEST).touch()


def round_line(t: int, members: int, **metrics) -> dict:
    return {
        "round": t,
        "discriminator_loss": [i + t / 10 for i in range(members)],
        "generator_loss": [2 * i + t / 10 for i in range(members)],
        **metrics,
        "seconds": 30.0,
        "images": 1000 * t,
        "images_per_second": 1000.0 * t,
    }


def add_rounds(folder: Path, lines) -> None:
    with (folder / "rounds.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def score_line(t, name: str, value, **fields) -> dict:
    usual = {
        "num_samples": 10_000,
        "seed": 7,
        "reference": "train",
        "num_reference": 50_000,
        "reference_digest": "1111aaaa2222bbbb",
        "network": "inception",
        "network_digest": "3333cccc4444dddd",
        "precision": "tf32",
        "seconds": 31.25,
    }
    return {"round": t, "name": name, "value": value, **usual, **fields}


def add_scores(folder: Path, *lines: dict) -> None:
    with (folder / "scores.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def add_grid(run: Path, t: int, size=(331, 331), folder="samples") -> None:
    Image.new("L", size, t % 256).save(run / folder / f"round-{t:06d}.png")


def add_failure(folder: Path, t: int, action="drop", **fields) -> None:
    line = {"round": t, "time": "2026-01-01T00:00:00+00:00", **fields, "action": action}
    with (folder / "failures.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def set_status(
    folder: Path, now, state="running", why="", remark="", host=None, process=None, members=()
) -> None:
    """Write status.json as the run does; by default, this process trains on this host."""
    process = process or this_process(platform.node())
    rank = {"host": host or platform.node(), "pid": process.pid, "born": process.born, "rank": 0}
    rank |= {"members": list(members), "state": "processing", "round": 4, "speed": 1.5}
    rank |= {"silent": 0.1, "contact": "on time", "remark": remark}
    rank |= {"cores": 2, "memory": 1 << 30, "device": "cpu"}
    status = {"state": state, "why": why, "time": now.isoformat(), "rounds": 10, "ranks": [rank]}
    (folder / "status.json").write_text(json.dumps(status))

"""Run folders made by hand, as a run writes them."""

import json
from pathlib import Path

from PIL import Image

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
    return folder


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


def add_grid(folder: Path, t: int, size=(331, 331)) -> None:
    Image.new("L", size, t % 256).save(folder / "samples" / f"round-{t:06d}.png")

"""Make payloads for the browser tests: small ones of each strategy, and a large one."""

import base64
import io
from typing import Any

import numpy as np
from PIL import Image

HOSTILE = "</script><script>document.title = 'broken'</script><b>\"'&"


def pack(values: Any) -> str:
    """Return base64 of little-endian float32 numbers."""
    return base64.b64encode(np.asarray(values, dtype="<f4").tobytes()).decode("ascii")


def picture(t: int, rows: int, columns: int, size: int = 8) -> dict[str, Any]:
    """Return a picture of random pixels as a data URI."""
    pixels = np.random.default_rng(t).integers(0, 255, (rows * size, columns * size), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    text = base64.b64encode(buffer.getvalue()).decode("ascii")
    return {
        "round": t,
        "src": f"data:image/png;base64,{text}",
        "width": columns * size,
        "height": rows * size,
        "rows": None,
        "is_points": False,
    }


def curves(points: int, ids: list[int], metrics: list[str], stride: int = 1) -> dict[str, Any]:
    """Return curves that fall, with noise."""
    draw = np.random.default_rng(0)
    rounds = [stride * (i + 1) for i in range(points)]
    shape = (points, len(ids))
    fall = np.exp(-np.arange(points) / points)[:, None]
    return {
        "generation": "g",
        "from": 0,
        "stride": stride,
        "rounds": rounds,
        "seconds": [0.5 * t for t in rounds],
        "images": [100 * t for t in rounds],
        "bytes": [0 for _ in rounds],
        "speed": [200.0 for _ in rounds],
        "memory": [1_000_000 + 10 * t for t in rounds],
        "ids": ids,
        "metrics": {name: pack(fall + 0.1 * draw.random(shape)) for name in metrics},
    }


def cut(found: dict[str, Any], start: int, stop: int) -> dict[str, Any]:
    """Return the points of curves from ``start`` to ``stop``, as a server sends them."""
    count = len(found["rounds"])
    part = {key: value for key, value in found.items() if not isinstance(value, list)}
    for key, value in found.items():
        if isinstance(value, list):
            part[key] = value if key == "ids" else value[start:stop]
    rows = {name: base64.b64decode(text) for name, text in found["metrics"].items()}
    width = 4 * len(found["ids"])
    assert all(len(row) == count * width for row in rows.values())
    metrics = {name: row[start * width : stop * width] for name, row in rows.items()}
    encoded = {name: base64.b64encode(row).decode("ascii") for name, row in metrics.items()}
    return part | {"from": start, "metrics": encoded}


def payload(points: int = 8, size: int = 4, noun: str = "member", **changes: Any) -> dict[str, Any]:
    """Return the payload of a finished run."""
    ids = list(range(size))
    found = {
        "version": 1,
        "name": "a-run",
        "about": "A run for tests",
        "folder": "runs/a-run",
        "strategy": "independent",
        "noun": noun,
        "state": {
            "state": "finished",
            "since": "2026-11-18T07:00:00+00:00",
            "until": "2026-11-18T07:30:00+00:00",
            "reached": points,
            "planned": points,
            "remarks": [],
            "written": "2026-11-18T07:30:01+00:00",
        },
        "facts": [["strategy", "independent"], ["members", str(size)]],
        "members": [{"id": i, "name": f"{noun} {i}", "lost": None} for i in ids],
        "curves": curves(points, ids, ["discriminator_loss", "generator_loss"]),
        "last": {
            "round": points,
            "metrics": {"generator_loss": [0.5] * size, "server_loss": [0.25]},
            "means": {"generator_loss": 0.5, "server_loss": 0.25},
        },
        "scores": [],
        "pictures": [picture(t, size, 10) for t in range(1, points + 1)],
        "ranks": [],
        "failures": [],
        "torus": None,
        "classes": None,
        "workers": None,
        "swaps": [],
        "traffic": None,
        "paper": None,
        "routines": None,
        "seconds": None,
        "commands": [{"title": "Resume", "text": "remuda resume runs/a-run"}],
        "details": [{"title": "Configuration", "text": "[run]\nrounds = 8\n"}],
    }
    return found | changes


def score(t: int, value: float, **changes: Any) -> dict[str, Any]:
    """Return a score that is better if it is lower."""
    found = {
        "round": t,
        "name": "fid_10k_train_lenet",
        "value": value,
        "spread": 0.1,
        "floor": 1.5,
        "classes": None,
        "better": "lower",
        "num_samples": 10_000,
        "reference": "train",
        "network": "lenet",
    }
    return found | changes


def cellular(points: int = 8, height: int = 3, width: int = 3) -> dict[str, Any]:
    """Return the payload of a cellular run."""
    cells = height * width
    draw = np.random.default_rng(1)
    neighbours = [_neighbours(cell, height, width) for cell in range(cells)]
    weights = draw.random((points, cells, 5))
    weights /= weights.sum(2, keepdims=True)
    names = ["generator_loss", "generator_fitness", "learning_rate", "mixture_distance"]
    torus = {
        "height": height,
        "width": width,
        "fields": names,
        "neighbours": neighbours,
        "slots": 5,
        "weights": pack(weights),
        "pictures": [picture(t, cells, 8) for t in (1, points)],
    }
    members = [
        {"id": i, "name": f"row {i // width}, column {i % width}", "lost": None}
        for i in range(cells)
    ]
    found = payload(points, cells, "cell", torus=torus, members=members)
    found["curves"]["metrics"] = {name: pack(draw.random((points, cells))) for name in names}
    return found | {"strategy": "cellular"}


def _neighbours(cell: int, height: int, width: int) -> list[int]:
    row, column = divmod(cell, width)
    steps = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)]
    return [(row + i) % height * width + (column + j) % width for i, j in steps]


def class_parallel() -> dict[str, Any]:
    """Return the payload of a class-parallel run with hostile names and a collapsed class."""
    names = ["zero", HOSTILE, "two", "three"]
    found = payload(
        noun="class",
        strategy="class-parallel",
        name=HOSTILE,
        about=HOSTILE,
        members=[{"id": i, "name": name, "lost": None} for i, name in enumerate(names)],
        classes=[
            {
                "name": name,
                "count": 100 + i,
                "scores": {"fid": 10.0 * (i + 1)},
                "collapsed": i == 2,
                "why": HOSTILE if i == 2 else "",
            }
            for i, name in enumerate(names)
        ],
        scores=[score(t, 10 - t) for t in (2, 4, 8)],
        paper={
            "title": "The paper",
            "columns": ["figure", "paper", "this run"],
            "rows": [["FID", "12.1", HOSTILE]],
            "note": HOSTILE,
        },
        details=[{"title": HOSTILE, "text": HOSTILE}],
        commands=[{"title": HOSTILE, "text": HOSTILE}],
        facts=[[HOSTILE, HOSTILE]],
    )
    for item in found["pictures"]:
        item["rows"] = names
    return found


def md_gan() -> dict[str, Any]:
    """Return the payload of an MD-GAN run that lost a worker and ignores a liar."""
    points = 8
    found = payload(points, 4, "worker", strategy="md-gan")
    lost = {"round": 4, "why": "rank 3 was lost"}
    found["members"][3]["lost"] = lost
    found["curves"]["metrics"]["kept"] = pack([[0.9, 0.05, 0.9, 0.9]] * points)
    found["curves"]["bytes"] = [1_000_000 * (i + 1) for i in range(points)]
    found["workers"] = [
        {
            "id": i,
            "share": 100 * (i + 1),
            "host": f"node{i}",
            "kept": None,
            "turns": None,
            "lost": lost if i == 3 else None,
        }
        for i in range(4)
    ]
    found["swaps"] = [{"round": 2, "from": [1, 2, 3, 0]}, {"round": 5, "from": [2, 0, 1]}]
    directions = {"scatter down": [700_000] * points, "gather up": [300_000] * points}
    found["traffic"] = {"directions": directions}
    found["failures"] = [
        {
            "round": 4,
            "time": "2026-11-18T07:10:00+00:00",
            "ranks": [3],
            "hosts": ["node3"],
            "members": [3],
            "action": "drop",
        }
    ]
    found["ranks"] = [_rank(i) for i in range(3)]
    return found


def _rank(i: int) -> dict[str, Any]:
    return {
        "host": f"node{i}",
        "pid": 100 + i,
        "born": 1,
        "rank": i,
        "members": [i],
        "state": "processing",
        "round": 8,
        "speed": 2.5,
        "silent": 0.4,
        "contact": "delayed" if i == 2 else "on time",
        "remark": "",
        "cores": 2,
        "memory": 8_000_000_000,
        "device": "cpu",
    }


def large(points: int = 1_000, size: int = 100) -> dict[str, Any]:
    """Return the payload of 10,000 rounds of 100 members, condensed to 1,000 points."""
    found = payload(2, size)
    names = ["discriminator_loss", "generator_loss", "augmentation", "kept"]
    found["curves"] = curves(points, list(range(size)), names, stride=10)
    found["pictures"] = [picture(t, 10, 10, 28) for t in range(1, 41)]
    return found

"""Compare training from disk with training from memory, on a folder of many small images.

    python benchmarks/streaming.py [--images 200000] [--rounds 12] [--hidden 32] [--folder DIR]

The script writes PNG images of 32x32x3 into a folder, in ten classes. It trains the same pair of
perceptrons (standalone, batch 64, 100 steps per round, one thread) from memory and from disk, in
alternate rounds of one process, and prints the pace of both and their ratio. The networks are small
so that reading matters. Then it trains each kind in its own process. It prints the peak of the
memory that belongs to this process (anonymous), and of all resident memory, which includes the
pages of mapped files. The goal is a ratio of at least 0.9, and memory that does not grow with the
number of images on disk.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from remuda.config import RunConfig, from_dict
from remuda.data import load
from remuda.training.assemble import assemble
from remuda.training.herd import Herd

KINDS = "memory", "disk"
PER_FOLDER = 1000  # images written by one task
WARM_UP = 2  # rounds that are not timed


def write_images(root: Path, number: int) -> None:
    """Write random images, a quarter of a megapixel of noise cut into different pieces."""
    noise = np.random.default_rng(0).integers(0, 256, (512, 512, 3), dtype=np.uint8)

    def write_some(start: int) -> None:
        for i in range(start, min(start + PER_FOLDER, number)):
            folder = root / f"class-{i % 10}"
            folder.mkdir(parents=True, exist_ok=True)
            y, x = (i * 7919) % 480, (i * 104729) % 480
            Image.fromarray(noise[y : y + 32, x : x + 32]).save(folder / f"{i:07}.png")

    with ThreadPoolExecutor() as pool:
        list(pool.map(write_some, range(0, number, PER_FOLDER)))


def configuration(root: Path, storage: str, hidden: int) -> RunConfig:
    """Return the run that is measured."""
    return from_dict(
        {
            "data": {"name": f"folder:{root}", "storage": storage},
            "networks": {"name": "mlp", "hidden": hidden},
            "strategy": {"name": "standalone", "batch_size": 64, "steps_per_round": 100},
            "engine": {"device": "cpu", "threads": 1},
        }
    )


class Trainer:
    """Train rounds of one run, and keep their seconds."""

    def __init__(self, herd: Herd):
        self.herd, self.state, self.t = herd, herd.start(), 0
        self.seconds: list[float] = []

    def round(self) -> None:
        self.t += 1
        start = time.perf_counter()
        self.state, _ = self.herd.round(self.state, self.t)
        self.seconds.append(time.perf_counter() - start)

    @property
    def pace(self) -> float:
        """Return the images per second in the median round."""
        return self.herd.images_per_round / statistics.median(self.seconds[WARM_UP:])


def compare(root: Path, rounds: int, hidden: int) -> None:
    """Train alternately from memory and from disk, and print the pace."""
    trainers = {kind: Trainer(assemble(configuration(root, kind, hidden))) for kind in KINDS}
    for i in range(WARM_UP + rounds):
        for kind in KINDS if i % 2 else reversed(KINDS):
            trainers[kind].round()
    pairs = zip(trainers["memory"].seconds, trainers["disk"].seconds, strict=True)
    ratio = statistics.median([memory / disk for memory, disk in list(pairs)[WARM_UP:]])
    for kind in KINDS:
        print(f"training from {kind}: {trainers[kind].pace:,.0f} images/s")
    print(f"pace from disk / pace from memory: {ratio:.3f}")


def resident(name: str) -> float:
    """Return a figure of /proc/self/status in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"this system does not report {name}")


def watch(root: Path, storage: str, hidden: int) -> None:
    """Train a few rounds in this process; print seconds and peaks of memory as JSON."""
    before, peak, over = resident("RssAnon"), [0.0], threading.Event()

    def sample() -> None:
        while not over.wait(0.01):
            peak[0] = max(peak[0], resident("RssAnon"))

    thread = threading.Thread(target=sample)
    thread.start()
    start = time.perf_counter()
    trainer = Trainer(assemble(configuration(root, storage, hidden)))
    seconds = time.perf_counter() - start
    for _ in range(5):
        trainer.round()
    now = resident("RssAnon")
    over.set()
    thread.join()
    figures = {"before": before, "peak": peak[0], "end": now, "all": resident("VmHWM")}
    print(json.dumps({"seconds": seconds, **figures}))


def main() -> None:
    parser = argparse.ArgumentParser(description="compare training from disk and from memory")
    parser.add_argument("--images", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=32, help="neurons in a hidden layer")
    parser.add_argument("--folder", type=Path, help="keep the images here, and use them again")
    parser.add_argument("--watch", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.watch:
        return watch(options.folder, options.watch, options.hidden)
    with tempfile.TemporaryDirectory() as scratch:
        place = options.folder or Path(scratch)
        root = place / f"images-{options.images}"
        os.environ["REMUDA_CACHE"] = str(place / "cache")
        if not root.exists():
            write_images(root, options.images)
        for name in ("first", "second"):
            start = time.perf_counter()
            count = len(load(configuration(root, "disk", options.hidden).data).labels)
            seconds = time.perf_counter() - start
            print(f"{name} start from disk: {seconds:.1f} s, {count / seconds:,.0f} images/s")
        compare(root, options.rounds, options.hidden)
        for kind in KINDS:
            command = [sys.executable, __file__, "--watch", kind, "--folder", str(root)]
            command += ["--hidden", str(options.hidden)]
            found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            figures = json.loads(found.splitlines()[-1])
            print(
                f"{count:,} images from {kind}: start {figures['seconds']:.1f} s; own memory "
                f"{figures['before']:.0f} MB before, peak {figures['peak']:.0f} MB, training "
                f"{figures['end']:.0f} MB; peak with mapped files {figures['all']:.0f} MB"
            )


if __name__ == "__main__":
    main()

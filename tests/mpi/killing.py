"""Start runs on ranks and kill their processes by force, like a failing machine."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

from remuda import config
from remuda.record import Record
from tests.mpi.starting import ENVIRONMENT, ROOT

MARK, RANK = "REMUDA_TEST_MARK", "OMPI_COMM_WORLD_RANK"
PATIENCE = 120  # seconds; a run takes a few

VALUES = {
    "data": {"name": "digits"},
    "networks": {"name": "mlp", "latent": 8, "hidden": 16},
    "strategy": {"batch_size": 4, "steps_per_round": 3},
    # Averages are rounded differently if members move, and some tests compare bits.
    "engine": {"device": "cpu", "threads": 1, "balance": False},
    "run": {"rounds": 30, "checkpoint_every": 3, "sample_every": 7},
}
SETTINGS = {
    "md-gan": ["run.members=5"],
    "md-gan-visits": ["strategy.name=md-gan", "run.members=12", "strategy.discriminators=5"],
    "fl-gan": ["run.members=5"],
    "class-parallel": ["run.members=5"],
    "class-parallel-shared": [
        "strategy.name=class-parallel",
        "strategy.shared_generator=[body]",
        "strategy.shared_discriminator=[input, body]",
        "run.members=5",
    ],
    "cellular": ["strategy.height=2", "strategy.width=3", "strategy.mixture_samples=8"],
}
RACES = {f"{name}-async": SETTINGS[name] for name in ("md-gan", "cellular")}


def configured(strategy, *settings):
    values = {**VALUES, "strategy": {**VALUES["strategy"], "name": strategy}}
    return config.from_dict(config.override(values, [*(SETTINGS | RACES)[strategy], *settings]))


class Victim:
    """A run on ranks; a mark in the environment identifies its processes."""

    def __init__(self, folder, strategy, *words, ranks=3, environment=None):
        self.folder, self.mark = folder, uuid.uuid4().hex
        recipe = folder.with_suffix(".toml")
        recipe.write_text(config.to_toml(configured(strategy)))
        command = ["train", recipe, "--engine", "mpi", "--ranks", ranks, "--out", folder, *words]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "remuda", *map(str, command)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            env={**ENVIRONMENT, MARK: self.mark, **(environment or {})},
        )  # fmt: skip

    def processes(self):
        """Return the rank of each process by its number; None for those that started the ranks."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            pairs = [word.decode(errors="replace") for word in words if b"=" in word]
            settings = dict(pair.split("=", 1) for pair in pairs)
            if settings.get(MARK) == self.mark:
                found[int(path.name)] = int(settings[RANK]) if RANK in settings else None
        return found

    def wait(self, is_time):
        """Wait until a condition holds."""
        end = time.monotonic() + PATIENCE
        while not is_time():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end, "the run takes too long"
            time.sleep(0.001)

    def is_loading(self):
        """Return whether all ranks have started MPI and are loading PyTorch."""
        numbers = [number for number, rank in self.processes().items() if rank is not None]
        if len(numbers) != 3:
            return False
        maps = [Path(f"/proc/{number}/maps").read_text() for number in numbers]
        return all("libtorch" in text for text in maps)

    def has_reached(self, t):
        """Return whether round t is recorded, or for round 0, whether the run has started."""
        if t == 0:
            return (self.folder / "config.toml").exists()
        path = self.folder / "rounds.jsonl"
        return path.exists() and path.read_text().count("\n") >= t

    @property
    def is_saving(self):
        return any((self.folder / "checkpoints").glob("round-*/.shard-*"))

    def kill(self, *ranks):
        """Kill ranks at the same moment: none of them sees that another one has died."""
        numbers = {rank: number for number, rank in self.processes().items()}
        for end in (signal.SIGSTOP, signal.SIGKILL):
            for rank in ranks:
                os.kill(numbers[rank], end)

    def signal_all(self, number):
        """Send a signal to the command, to mpirun and to all ranks."""
        for process in self.processes():
            os.kill(process, number)

    def kill_all(self):
        self.signal_all(signal.SIGKILL)
        self.process.communicate(timeout=PATIENCE)

    def end(self):
        """Return exit status, stdout and stderr; check that no process is left behind."""
        try:
            printed, errors = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            stuck = self.processes()
            for number in stuck:
                os.kill(number, signal.SIGKILL)
            raise AssertionError(f"the run hangs: {stuck}, {self.process.communicate()}") from None
        end = time.monotonic() + 10
        while self.processes() and time.monotonic() < end:
            time.sleep(0.05)
        assert not self.processes(), "some processes did not end"
        return self.process.returncode, printed, errors


def assert_complete(folder, rounds=30):
    """Check that each round is recorded once, and the last checkpoint and results exist."""
    record = Record.open(folder)
    assert [line["round"] for line in record.rounds()] == list(range(1, rounds + 1))
    checkpoint, problems = record.newest()
    assert checkpoint is not None and checkpoint.round == rounds and not problems
    assert record.sample_path(rounds).exists() and (folder / "index.html").exists()
    numbers = [rank["rank"] for rank in record.status()["ranks"]]
    assert len(set(numbers)) == len(numbers), "lost ranks are listed with their own numbers"

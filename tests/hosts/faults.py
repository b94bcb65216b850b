"""Run remuda on three hosts, break one of them, and measure how long the run pauses."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from remuda import config
from tests.mpi.killing import configured

HOSTS = "h1:1,h2:1,h3:1"
ROUNDS = 40
TIMEOUT = 5.0  # seconds, engine.failure_timeout
PATIENCE = 240.0  # seconds; a run takes less than one minute on a quiet machine
SETTINGS = (
    f"run.rounds={ROUNDS}",
    "run.checkpoint_every=4",
    "run.sample_every=40",
    "strategy.steps_per_round=20",
    f"engine.failure_timeout={TIMEOUT}",
)


class Run:
    """A run on three hosts, started on one of them; rank 0 runs on h1."""

    def __init__(self, network, folder, strategy, launched_on="h1", settings=()):
        self.network, self.folder = network, folder
        recipe = folder.with_suffix(".toml")
        recipe.write_text(config.to_toml(configured(strategy, *SETTINGS, *settings)))
        words = ("train", recipe, "--engine", "mpi", "--hosts", HOSTS, "--out", folder)
        self.process = network.popen(launched_on, sys.executable, "-m", "remuda", *words)
        self.grown: list[float] = []  # when a round was recorded
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        path, size = self.folder / "rounds.jsonl", 0
        while self.process.poll() is None:
            last, size = size, path.stat().st_size if path.exists() else 0
            if size > last:
                self.grown.append(time.monotonic())
            time.sleep(0.02)

    def wait_for_round(self, t):
        """Wait until round t is recorded."""
        path, end = self.folder / "rounds.jsonl", time.monotonic() + PATIENCE
        while not path.exists() or path.read_text().count("\n") < t:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end, "the run takes too long"
            time.sleep(0.005)

    def end(self, fault_at):
        """Return the exit status and both outputs; print how long the run paused."""
        try:
            printed, errors = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            left = {host: self.commands(host) for host in self.network.names}
            self.network.reset()
            raise AssertionError(f"the run hangs: {left}, {self.process.communicate()}") from None
        returned = time.monotonic()
        moments = [fault_at, *(moment for moment in self.grown if moment > fault_at)]
        pauses = [(b - a, b) for a, b in itertools.pairwise(moments)]
        _, resumed = max(pauses, default=(0.0, fault_at))
        print(
            f"first round {resumed - fault_at:.1f} s after the fault; command returned "
            f"{returned - moments[-1]:.1f} s after the last round, "
            f"{returned - fault_at:.1f} s after the fault"
        )
        return self.process.returncode, printed, errors

    def commands(self, host):
        """Return the command lines of remuda and of mpirun's daemon on a host, by process."""
        found = {}
        for process in self.network.processes(host):
            try:
                words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            line = b" ".join(words).decode(errors="replace")
            if "remuda.cluster.rank" in line or "bin/prted" in line:
                found[process] = line
        return found

    def kill(self, host, text):
        """Kill the processes on a host whose program and first arguments contain a text."""
        chosen = [
            process
            for process, line in self.commands(host).items()
            if text in " ".join(line.split()[:5])
        ]
        assert chosen, self.commands(host)
        for process in chosen:
            os.kill(process, signal.SIGKILL)

    def files(self):
        """Return the size and the time of the last change of each file of the run."""
        facts = {path: path.stat() for path in self.folder.rglob("*")}
        return {path: (fact.st_size, fact.st_mtime_ns) for path, fact in facts.items()}

    def check_return(self, host):
        """Let a host return, and check that its ranks end and do not touch the run."""
        before = self.files()
        self.network.thaw(host)
        self.network.mend(host)
        end = time.monotonic() + 60
        while any(self.commands(name) for name in self.network.names):
            assert time.monotonic() < end, {n: self.commands(n) for n in self.network.names}
            time.sleep(0.1)
        assert self.files() == before


def kill_rank(run, host):
    """Kill the rank on a host."""
    run.kill(host, "-m remuda.cluster.rank")


def kill_daemon(run, host):
    """Kill the process of mpirun on another host, and with it the rank there."""
    run.kill(host, "bin/prted")


def cut(run, host):
    """Disconnect a host."""
    run.network.cut(host)


def freeze(run, host):
    """Suspend all processes of a host."""
    run.network.freeze(host)

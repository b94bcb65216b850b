"""Save and resume on ranks under special conditions. Every rank of a job runs this:

python -m mpi4py -m tests.mpi.saving CONDITION FOLDER ROUNDS [MEMBERS]

fail       the second write of rank 1 fails
remote     ranks 1 and 2 cannot see the folder
memory     networks are large, and every rank prints how much memory it needed
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

import gc
import sys
from pathlib import Path

import torch

import remuda
from remuda import config
from remuda.cluster.launch import rank_from_environment
from remuda.errors import ReportedElsewhere, UserError, explain
from remuda.record import shards
from remuda.tensors import trees
from remuda.training import sharing
from remuda.training.herd import Herd
from remuda.training.progress import Progress
from remuda.training.saving import Saver

VALUES = {
    "data": {"name": "digits"},
    "networks": {"name": "mlp", "latent": 8, "hidden": 16},
    "strategy": {"name": "md-gan", "batch_size": 4, "steps_per_round": 3},
    "engine": {"name": "mpi", "device": "cpu", "threads": 1},
    "run": {"members": 5, "checkpoint_every": 2, "sample_every": 99},
}
MIB = 1 << 20


class Notes(Progress):
    """Print what the run tells its user."""

    def note(self, text):
        print(text, flush=True)


def fail():
    if rank_from_environment().rank != 1:
        return
    write, calls = shards.write, []

    def full(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        write(*arguments)

    shards.write = full


def remote():
    """Hide the folder from some ranks, which must not touch checkpoints then."""
    if rank_from_environment().rank in (1, 2):
        sharing._appears = lambda _: False

        def refuse(*_):
            raise AssertionError("a rank that cannot see the folder uses it")

        shards.write = shards.read_header = refuse


def memory():
    """Print by how much saving and restoring raise the peak of this rank's memory, in own rows."""

    def measured(name, method):
        def measure(self, *arguments):
            herd = self if isinstance(self, Herd) else self.herd
            gc.collect()
            Path("/proc/self/clear_refs").write_text("5")  # start a new peak
            before = current()
            result = method(self, *arguments)
            if name == "save":
                self.wait()
            rows = trees.num_bytes(herd.strategy.rows(arguments[-1] if name == "save" else result))
            growth = (highest() - before) / rows
            print(f"{name}: {growth:.2f} of {rows / MIB:.0f} MiB", flush=True)
            return result

        return measure

    Saver.save = measured("save", Saver.save)
    Saver.restore = measured("restore", Saver.restore)


def status(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(f"{key}:")]
    return int(line.split()[1]) * 1024


def current():
    return status("VmRSS")


def highest():
    return status("VmHWM")


def main(condition, folder, rounds, members=None):
    values = VALUES
    if condition == "memory":
        values = config.override(VALUES, ["networks.hidden=1024", "strategy.name=fl-gan"])
        values = config.override(values, ["run.members=16", "run.checkpoint_every=1"])
    if condition == "remote":  # these ranks also need the tensors that all members share
        shared = ["strategy.name=class-parallel", "strategy.shared_generator=[body]"]
        values = config.override(VALUES, shared)
    {"fail": fail, "remote": remote, "memory": memory}[condition]()
    torch.set_num_threads(1)
    place = Path(folder)
    if (place / "config.toml").exists() and condition != "fail":
        size = None if members is None else int(members)
        remuda.resume(place, rounds=int(rounds), progress=Notes(), members=size, engine="mpi")
        return
    made = config.from_dict(config.override(values, [f"run.rounds={rounds}"]))
    remuda.run(made, place, Notes())


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ReportedElsewhere as error:
        sys.exit(error.status)
    except UserError as error:
        print(f"remuda: {explain(error)}", file=sys.stderr)
        sys.exit(2)

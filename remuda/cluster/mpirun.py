"""mpirun: where it is, how it is called, what it says, and whether all the ranks that it starts come up."""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from remuda.errors import UserError
from remuda.system.devices import usable_cores

PAUSE = 0.05  # seconds between two looks at a job
GAP = 1.0  # seconds from one rank's start to the next one's on a host, at most
PATIENCE = 10.0  # seconds that a job gets to end
# Said by every rank when MPI has started, and when its command has ended well; for nobody else.
UP, DONE = "\x02up\n", "\x02done\n"
STUMBLED = "\x02stumbled\n"  # in place of what mpirun says when it has failed to start itself
# What a rank begins with. MPI comes before all that takes long to load, since by MPI a rank that dies is missed. If one
# dies even before, the others wait in MPI's own start, where nothing but a time limit ends them.
RANK = f"""
import contextlib, faulthandler, os, runpy, sys
with open(os.devnull, "w") as nowhere, contextlib.suppress(ImportError, RuntimeError):
    faulthandler.dump_traceback_later(120, exit=True, file=nowhere)
    import mpi4py.MPI
faulthandler.cancel_dump_traceback_later()
sys.stderr.write({UP!r})
sys.stderr.flush()
status = 0
try:
    runpy.run_module("remuda", run_name="__main__", alter_sys=True)
except SystemExit as end:
    status = end.code
if not status:
    sys.stderr.write({DONE!r})
    sys.stderr.flush()
sys.exit(status)
"""
RULE = re.compile(r"-{20,}\s*$")  # around what mpirun has to say
# Of Open MPI, on messages that a loss cuts off, and on ranks that have gone before it had told them all.
REMARK = re.compile(
    r"NBC_Progress: an error|Error in NBC_\w+\(\)|\[\S+:\d+\] pmix_ptl_base: send_msg: write failed|\[warn\] Epoll MOD"
)
STUMBLE = re.compile(
    r"listener thread failed to start"
)  # now and then, soon after another job has ended
EXIT = re.compile(r"non-zero\s+(exit\s+code|status)")  # which a rank has explained
DEATH = re.compile(
    r"process\s+rank\s+(\d+)\s.*?on\s+node\s+(\S+)\s+exited\s+on\s+signal\s+(\d+)", re.DOTALL
)


class Death(NamedTuple):
    rank: str
    host: str
    signal: str  # its number


def find() -> str:
    beside = Path(sys.executable).with_name("mpirun")
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    if found is None:
        raise UserError(
            "there is no mpirun, neither beside Python nor on PATH: load the cluster's MPI module, or install Open MPI"
        )
    return found


def options(mpirun: str, num_ranks: int) -> list[str]:
    """For Open MPI; others need none."""
    text = subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout
    version = re.search(r"Open MPI\)? (\d+)", text)
    if version is None:
        return []
    # Ranks have threads, so they are not bound to single cores; slots are often fewer than the cores of a container.
    words = ["--oversubscribe", "--bind-to", "none"]
    if os.geteuid() == 0:
        words.append("--allow-run-as-root")
    if num_ranks > usable_cores():
        words += ["--mca", "mpi_yield_when_idle", "1"]
    if int(version[1]) >= 5 and os.environ.get("REMUDA_ULFM") != "0":
        words += ["--with-ft", "ulfm"]
    return words


def command(num_ranks: int) -> list[str]:
    """What starts so many ranks; what they run is to follow."""
    path = find()
    return [path, *options(path, num_ranks), "-n", str(num_ranks)]


class Job:
    """An mpirun with the ranks of one command of remuda, which say on stderr what they have to say."""

    def __init__(self, num_ranks: int, words: list[str]):
        words = [*command(num_ranks), sys.executable, "-m", "mpi4py", "-c", RANK, *words]
        self.is_deserted = (
            False  # whether a rank has died before MPI had started, or none was started
        )
        self.survives_losses = "--with-ft" in words  # otherwise mpirun itself ends the others
        self.is_up = self.is_done = (
            False  # some rank's MPI, and some rank: after losses mpirun's status does not tell
        )
        self.deaths: list[Death] = []
        self.num_lines = 0  # that were passed on
        # In a session of its own, so that a terminal's Ctrl-C comes to us alone: mpirun would kill the ranks.
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=_die_together,
        )
        self._reader = threading.Thread(target=self._pass_on, daemon=True)
        self._reader.start()

    def wait(self) -> int:
        """Until all is over; the exit status. Awake often, since a signal that the reader takes wakes nobody else."""
        num_living, since = 0, time.monotonic()
        while self.process.poll() is None:
            if self.survives_losses and not (self.is_up or self.is_deserted):
                living, started = _count_ranks(self.process.pid)
                if living != num_living or living == started:
                    num_living, since = living, time.monotonic()
                elif time.monotonic() - since > GAP:
                    self.is_deserted = True
                    self._end()
            time.sleep(PAUSE)
        self._reader.join(PATIENCE)  # longer only if a process that is left behind holds it
        status = self.process.returncode
        return status if status >= 0 else 128 - status

    def _end(self) -> None:
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE)
        self.process.kill()

    def _pass_on(self) -> None:
        """What ranks and mpirun say, but for what is said better by us."""
        assert self.process.stderr is not None
        for text in sift(
            (line.decode(errors="replace") for line in self.process.stderr), self.deaths
        ):
            if text == UP:
                self.is_up = True
            elif text == DONE:
                self.is_done = True
            elif text == STUMBLED:
                self.is_deserted = True
            elif not self.is_deserted:
                self.num_lines += 1
                sys.stderr.write(text)
                sys.stderr.flush()


def sift(lines: Iterable[str], deaths: list[Death]) -> Iterator[str]:
    """Lines without Open MPI's remarks on messages that a loss cuts off, and mpirun's on ranks that end or die.

    Those that die are added to ``deaths``.
    """
    block: list[str] = []
    num_blank = 0  # lines that belong to remarks; those of several ranks come in any order
    for line in lines:
        if REMARK.match(line):
            num_blank += line.startswith("NBC_Progress")
            continue
        if num_blank and not line.strip():
            num_blank -= 1
            continue
        if not block and not RULE.match(line):
            if not line.startswith("mpirun: Forwarding signal "):
                yield line
            continue
        block.append(line)
        if len(block) > 1 and RULE.match(line):
            text = "".join(block)
            if death := DEATH.search(text):
                deaths.append(Death(*death.groups()))
            elif STUMBLE.search(text):
                yield STUMBLED
            elif not EXIT.search(text):
                yield from block
            block = []
    yield from block


def _count_ranks(mpirun: int) -> tuple[int, int]:
    """Ranks of this host that live, and those that it has started or will start here, as the living ones know."""
    living, number = 0, 0
    for path in Path(f"/proc/{mpirun}/task").glob("*/children"):
        with suppress(OSError):
            for child in path.read_text().split():
                told = re.search(
                    rb"\0OMPI_COMM_WORLD_LOCAL_SIZE=(\d+)",
                    Path(f"/proc/{child}/environ").read_bytes(),
                )
                if told:
                    living, number = living + 1, int(told[1])
    return living, number


def _die_together() -> None:
    """Where the system can do that: who kills the command that was typed has killed the ranks too."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)

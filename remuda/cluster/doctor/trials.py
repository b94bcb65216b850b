"""Start ranks for a trial in the same way as a run does, and return their measurements."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from remuda.cluster import mpirun
from remuda.cluster.doctor.findings import read_answer, shortened
from remuda.cluster.hosts import Host
from remuda.errors import UserError
from remuda.system.text import count

# Seconds for the ranks to start and measure. Loading PyTorch from a shared folder can be slow.
TIMEOUT = 180.0


def trial(num_ranks: int, hosts: Sequence[Host] = ()) -> dict[str, Any]:
    """Start ranks that run ``remuda.cluster.doctor.probe``, and return their answer."""
    probe = "remuda.cluster.doctor.probe"
    command = [sys.executable, "-m", "mpi4py", "-m", probe, str(time.time())]
    if num_ranks > 1 or hosts:
        command = [*mpirun.command(num_ranks, hosts), *command]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    ranks, by_hand = count(num_ranks, "rank"), shlex.join([*command[:-1], "0"])
    try:
        output, errors = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{ranks} did not answer within {TIMEOUT:.0f} s: check that hosts can "
            f"resolve and reach each other, and try by hand: {by_hand}"
        ) from None
    finally:
        _end(process)
    answer = read_answer(output)
    if "failed" in answer:
        raise UserError(answer["failed"])
    if process.returncode or not answer:
        reason = shortened(errors or output) or "no error message"
        status = process.returncode
        raise UserError(f"{ranks} exited with status {status} ({reason}): try by hand: {by_hand}")
    return answer


def _end(process: subprocess.Popen[str]) -> None:
    """Ask mpirun to end its ranks, and kill it if it does not react."""
    for number, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, None)):
        if process.poll() is None:
            os.killpg(process.pid, number)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue

"""Ask each host over ssh what it has, at the same time, and report what would fail there."""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from remuda.cluster.doctor import facts
from remuda.cluster.doctor.comparison import compare, copy_command
from remuda.cluster.doctor.findings import FAILS, Finding, read_answer, shortened
from remuda.cluster.hosts import Host, complaints, on_host
from remuda.data import DataConfig
from remuda.data.files import data_folders
from remuda.errors import UserError

TIMEOUT = 60.0  # seconds for Python to start on a host, maybe from a slow shared folder
# What a shell would set before it starts Python. The variables of a run are for the ranks.
ENVIRONMENT = re.compile(r"PATH|LD_LIBRARY_PATH|PYTHON\w+|MPI4PY_\w+")
NOT_FOUND = (126, 127)  # a shell's exit statuses for a program that it cannot run
# What ssh prints, and the remedy.
REMEDIES = {
    "resolve hostname": "check the spelling, or add {name} to /etc/hosts or ~/.ssh/config",
    "Permission denied": "allow ssh without a password: ssh-copy-id {name}",
    "key verification failed": "accept the key of the host once: ssh {name}",
    "refused": "start the ssh server there, or name its port in ~/.ssh/config",
}
UNREACHABLE = "check that it is switched on and connected: ping {name}"


class Answer(NamedTuple):
    """What a host reports."""

    facts: dict[str, Any]
    ahead: float  # seconds by which its clock is ahead of ours, at least


def examine(hosts: Sequence[Host]) -> Iterator[tuple[Host, list[Finding]]]:
    """Check each host, and yield it with its findings. The hosts are asked at the same time."""
    silent = complaints(hosts)
    data = [str(folder) for folder in data_folders(DataConfig()) if folder.is_dir()]
    with _file_here() as file:
        questions = {"names": [], "file": file, "data": data}
        own, first = _ask("localhost", questions), hosts[0].name
        if isinstance(own, Finding):
            raise UserError(own.text)
        named = None if first in silent else _ask(first, questions)
        # Heartbeats travel to the host of rank 0, under the name that it gives itself.
        questions["names"] = [named.facts["hostname"]] if isinstance(named, Answer) else [first]

        def findings(host: Host) -> list[Finding]:
            if host.name in silent:
                return [_unreachable(host.name, silent[host.name])]
            answer = _ask(host.name, questions)
            if isinstance(answer, Finding):
                return [answer]
            return compare(host, answer.facts, own.facts, answer.ahead)

        with ThreadPoolExecutor(len(hosts)) as pool:
            yield from zip(hosts, pool.map(findings, hosts), strict=True)


@contextmanager
def _file_here() -> Iterator[str]:
    """Make a file that only hosts with this folder see; if it is read-only, use the folder."""
    if not os.access(".", os.W_OK):
        yield str(Path.cwd())
        return
    with tempfile.NamedTemporaryFile(prefix=".remuda-doctor-", dir=Path.cwd()) as file:
        yield file.name


def _unreachable(name: str, words: str) -> Finding:
    remedy = next((text for part, text in REMEDIES.items() if part in words), UNREACHABLE)
    text = f"{name} does not answer ({words.rstrip('.')}): {remedy.format(name=name)}"
    return Finding(FAILS, "ssh", text)


def _ask(name: str, questions: dict[str, Any]) -> Answer | Finding:
    """Return the facts about a host, or the reason why it cannot report them."""
    variables = [f"{key}={value}" for key, value in os.environ.items() if ENVIRONMENT.match(key)]
    words = ["env", *variables, sys.executable, "-", json.dumps(questions)]
    began = time.time()
    try:
        result = subprocess.run(
            on_host(name, shlex.join(words)),
            input=Path(facts.__file__).read_text(encoding="utf-8"),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        text = f"{name} did not start Python within {TIMEOUT:.0f} s: log in and look at its load"
        return Finding(FAILS, "Python", text)
    ended = time.time()
    if answer := read_answer(result.stdout):
        # The host read its clock at an unknown moment between these two.
        return Answer(answer, max(0.0, answer["time"] - ended) + min(0.0, answer["time"] - began))
    if result.returncode in NOT_FOUND:
        text = f"{name} has no {sys.executable}: share its folder, or copy it: "
        return Finding(FAILS, "Python", text + copy_command(sys.prefix, name))
    reason = shortened(result.stderr) or f"status {result.returncode}"
    text = f"{name} cannot run {sys.executable} ({reason}): try ssh {name} {sys.executable}"
    return Finding(FAILS, "Python", text)

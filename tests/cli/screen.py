"""Run commands on a pseudo-terminal, and read what it shows."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # colours, movements of the cursor


def on_terminal(*words, width=80, cwd=None, **environment) -> tuple[int, str]:
    """Return the exit status of a remuda command, and everything that the terminal received."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "remuda", *map(str, words)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env={**inherited, "TERM": "xterm-256color", **environment},
    )
    os.close(theirs)
    received = b""
    while content := _read(ours):
        received += content
    os.close(ours)
    return process.wait(timeout=60), received.decode()


def _read(file: int) -> bytes:
    try:
        return os.read(file, 1 << 16)
    except OSError:  # all processes have closed the terminal
        return b""


def lines(received: str) -> list[str]:
    """Return the lines that were visible at some time, without colours."""
    return [line for line in re.split(r"[\r\n]+", CODES.sub("", received)) if line]

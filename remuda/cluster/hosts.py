"""Read the list of hosts that ranks start on, and find out which of them answer by ssh."""

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import NamedTuple

from remuda.errors import UserError

# BatchMode: nobody could answer ssh if it asked for a password or about an unknown host.
SSH = "ssh -o BatchMode=yes -o ConnectTimeout=10"
ROUTES = Path("/proc/net/route")
ANSWER_TIMEOUT = 15.0  # seconds for a host to answer by ssh
HOST = re.compile(r"(\w[\w.-]*)(?::(\d+)|\s+slots\s*=\s*(\d+))?")


class Host(NamedTuple):
    """A machine, and how many ranks start there."""

    name: str  # a name or an address that ssh accepts
    slots: int


def parse(text: str) -> list[Host]:
    """Return the hosts in a list such as ``a:4,b:4``. Without a number, a host gets one rank.

    A host that appears several times gets the sum of its slots.
    """
    slots: dict[str, int] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        match = HOST.fullmatch(part)
        number = int(match[2] or match[3] or 1) if match else 0
        if match is None or number < 1:
            raise UserError(
                f"cannot read the host {part!r}: write a name and the number of its ranks, "
                "for example --hosts node1:4,node2:4"
            )
        slots[match[1]] = slots.get(match[1], 0) + number
    return [Host(name, number) for name, number in slots.items()]


def read(text_or_file: str) -> list[Host]:
    """Return the hosts in a list such as ``a:4,b:4``, or in a file with one host per line."""
    path = Path(text_or_file)
    if not path.is_file() and "/" not in text_or_file:
        return parse(text_or_file)
    try:
        lines = [line.split("#")[0] for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise UserError(f"cannot read the hosts in {path}: {reason}") from None
    found = parse(",".join(lines))
    if not found:
        raise UserError(f"{path} names no host: write one on each line, for example node1:4")
    return found


def describe(hosts: Sequence[Host]) -> str:
    """Return the hosts as text that ``parse`` reads."""
    return ",".join(f"{host.name}:{host.slots}" for host in hosts)


def of_ranks(hosts: Sequence[Host], ranks: Sequence[int]) -> list[Host]:
    """Return the hosts of these ranks only. Ranks are numbered through, first host first."""
    names = [host.name for host in hosts for _ in range(host.slots)]
    return parse(",".join(names[rank] for rank in ranks))


def ssh_command() -> str:
    """Return the ssh command line, without a host. $REMUDA_SSH replaces it."""
    return os.environ.get("REMUDA_SSH") or SSH


def on_host(name: str, command: str) -> list[str]:
    """Return the words that run a shell command on a host; no ssh is needed for this machine."""
    if is_here(name):
        return ["sh", "-c", command]
    return [*shlex.split(ssh_command()), name, command]


def is_here(name: str) -> bool:
    """Return whether a name or an address belongs to this machine."""
    here = socket.gethostname()
    if name in (here, here.partition(".")[0], "localhost"):
        return True
    try:
        found = socket.getaddrinfo(name, 0, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False  # ssh may know it by an alias
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.bind(address)  # only possible with an address of this machine
            except OSError:
                continue
        return True
    return False


def network(hosts: Sequence[Host], routes: Path = ROUTES) -> str:
    """Return the network that connects this machine with all other hosts, such as 10.0.0.0/24.

    Return an empty string if there is no such network, or if a name is known only to ssh.
    """
    try:
        others = [IPv4Address(socket.gethostbyname(name)) for name, _ in hosts if not is_here(name)]
        lines = [line.split() for line in routes.read_text().splitlines()[1:]]
    except (OSError, UnicodeError):
        return ""
    for _, target, gateway, *_, mask in (line[:8] for line in lines):
        # The kernel writes an address as the number that its bytes form in memory.
        address, bits = (int(word, 16).to_bytes(4, sys.byteorder) for word in (target, mask))
        found = IPv4Network((address, int.from_bytes(bits).bit_count()))
        if int(gateway, 16) == 0 and others and all(other in found for other in others):
            return str(found)
    return ""


def living(hosts: Sequence[Host]) -> list[Host]:
    """Return the hosts that answer by ssh."""
    silent = complaints(hosts)
    return [host for host in hosts if host.name not in silent]


def check(hosts: Sequence[Host]) -> None:
    """Raise if a host does not answer by ssh."""
    for name, words in complaints(hosts).items():
        raise UserError(
            f"{name} does not answer by ssh ({words}): run `remuda doctor --hosts "
            f"{describe(hosts)}` for details, or leave out this host"
        )


def complaints(hosts: Sequence[Host]) -> dict[str, str]:
    """Ask all hosts at the same time; return why some of them do not answer by ssh."""
    names = [host.name for host in hosts]
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        found = dict(zip(names, pool.map(complaint, names), strict=True))
    return {name: words for name, words in found.items() if words}


def complaint(name: str) -> str:
    """Return why a host does not answer by ssh, or an empty string if it does."""
    try:
        result = subprocess.run(
            on_host(name, "true"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_TIMEOUT,
            start_new_session=True,  # ssh must not ask on the terminal
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {ANSWER_TIMEOUT:.0f} s"
    except OSError as error:
        return f"cannot run {shlex.split(ssh_command())[0]}: {error.strerror}"
    if result.returncode == 0:
        return ""
    lines = [line.strip() for line in result.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"ssh exited with status {result.returncode}"

"""Make several hosts on one machine: network namespaces on a bridge, with a running sshd in each.

The hosts are called h1, h2, ... They have their own network, hostname and /etc/hosts. They share
the machine's file systems and process ids. The bridge has a namespace of its own, so the machine's
network does not change, and several networks can exist at the same time.
"""

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = ("ip", "tc", "unshare", "hostname", "ssh", "ssh-keygen", "sshd")
NETNS = Path("/etc/netns")  # `ip netns exec NAME` mounts the files in /etc/netns/NAME over /etc
SYSTEM_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"  # sshd and ip may be only there
PREFIX = "remuda-test"
START_TIMEOUT = 20.0  # seconds until a host must answer by ssh
ENTER = 'hostname "$0" && exec "$@"'


def why_impossible() -> str:
    """Return the reason why this machine cannot have such hosts, or an empty string."""
    if platform.system() != "Linux" or os.geteuid() != 0:
        return "hosts are made of network namespaces, which only root on Linux may create"
    missing = [name for name in PROGRAMS if shutil.which(name, path=SYSTEM_PATH) is None]
    if missing:
        return f"hosts need {', '.join(missing)}: install iproute2 and openssh-server"
    name = f"{PREFIX}-{os.getpid()}-try"
    try:
        call("ip", "netns", "add", name)
        call("ip", "netns", "exec", name, "unshare", "-u", "hostname", "h1")
        call("ip", "link", "add", "v", "netns", name, "type", "veth", "peer", "w", "netns", name)
    except subprocess.CalledProcessError as error:
        return f"this machine forbids network namespaces: {error.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    return ""


class Network:
    """Hosts h1, h2, ... in one local network. Use it as a context manager."""

    def __init__(self, num_hosts: int, folder: Path):
        self.folder = folder
        self.names = [f"h{number}" for number in range(1, num_hosts + 1)]
        self.bridge = self._namespace("bridge")
        self._sshds: dict[str, subprocess.Popen[bytes]] = {}
        # The commands that run() starts find each other by ssh with these variables.
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SLURM_")},
            "PATH": SYSTEM_PATH,
            "PYTHONPATH": str(ROOT),
            "REMUDA_SSH": f"ssh -F {folder / 'ssh_config'}",
            "COLUMNS": "120",
        }

    def __enter__(self) -> "Network":
        try:
            delete_leftovers()
            self._write_keys()
            self._connect()
            for host in self.names:
                self.start_sshd(host)
            for host in self.names:
                self._await_sshd(host)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in [*map(self._namespace, self.names), self.bridge]:
            delete(name)
        for sshd in self._sshds.values():
            sshd.wait()

    # Commands

    def command(self, host: str, *words: object) -> list[str]:
        """Return the command line that runs a command on a host."""
        enter = ["ip", "netns", "exec", self._namespace(host), "unshare", "-u", "sh", "-c", ENTER]
        return [*enter, host, *map(str, words)]

    def run(self, host: str, *words: object, env=None, timeout=200.0, **more):
        """Run a command on a host to its end. ``env`` adds variables to the environment."""
        options = {"capture_output": True, "text": True, "cwd": ROOT, **more}
        environment = self.environment | (env or {})
        return subprocess.run(
            self.command(host, *words), env=environment, timeout=timeout, check=False, **options
        )

    def popen(self, host: str, *words: object, env=None, **more):
        """Start a command on a host and return its process."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more}
        environment = self.environment | (env or {})
        return subprocess.Popen(
            self.command(host, *words), env=environment, **{"cwd": ROOT, **options}
        )

    def remuda(self, host: str, *words: object, **more):
        """Run a remuda command on a host to its end."""
        return self.run(host, sys.executable, "-m", "remuda", *words, **more)

    # Faults

    def cut(self, host: str) -> None:
        """Disconnect a host from the network, as if its cable were pulled."""
        self._set_link(host, "down")

    def mend(self, host: str) -> None:
        """Connect a host to the network again."""
        self._set_link(host, "up")

    def freeze(self, host: str, keep_sshd: bool = False) -> None:
        """Suspend all processes of a host. Its kernel still answers, as on an overloaded host."""
        self._signal(host, signal.SIGSTOP, keep_sshd)

    def thaw(self, host: str) -> None:
        """Let all processes of a host continue."""
        self._signal(host, signal.SIGCONT)

    def kill(self, host: str, keep_sshd: bool = False) -> None:
        """Kill all processes of a host. Use ``start_sshd`` to start it again."""
        self._signal(host, signal.SIGKILL, keep_sshd)

    def limit(self, host: str, rate: str | None) -> None:
        """Limit the rate of a host's link in both directions, for example to 100mbit."""
        ends = (self._namespace(host), "eth0"), (self.bridge, host)
        for namespace, interface in ends:
            where = ["ip", "netns", "exec", namespace, "tc", "qdisc"]
            if rate is None:
                device = [*where, "delete", "dev", interface, "root"]
                subprocess.run(device, capture_output=True, check=False)  # it may have no limit
            else:
                shape = ["root", "tbf", "rate", rate, "burst", "64kb", "latency", "50ms"]
                call(*where, "replace", "dev", interface, *shape)

    def reset(self) -> None:
        """Undo all faults and end all processes, so that the next test finds working hosts."""
        for host in self.names:
            self.thaw(host)
            self.kill(host, keep_sshd=True)
            self.mend(host)
            self.limit(host, None)
            if self._sshds[host].poll() is not None:
                self.start_sshd(host)
                self._await_sshd(host)

    def processes(self, host: str) -> list[int]:
        """Return the ids of all processes that run on a host."""
        return processes(self._namespace(host))

    # Set-up

    def start_sshd(self, host: str) -> None:
        """Start the host's ssh daemon."""
        with (self.folder / f"{host}.log").open("ab") as log:
            self._sshds[host] = subprocess.Popen(
                self.command(host, which("sshd"), "-D", "-e", "-f", self.folder / "sshd_config"),
                stdin=subprocess.DEVNULL,
                stderr=log,
            )

    def _await_sshd(self, host: str) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        ssh = [*self.environment["REMUDA_SSH"].split(), "-o", "ConnectTimeout=5"]
        while self.run(host, *ssh, host, "true").returncode:
            if time.monotonic() > deadline:
                raise TimeoutError((self.folder / f"{host}.log").read_text())
            time.sleep(0.1)

    def _namespace(self, host: str) -> str:
        return f"{PREFIX}-{os.getpid()}-{host}"

    def _write_keys(self) -> None:
        """Write one key that opens all hosts, and one that all hosts have."""
        Path("/run/sshd").mkdir(parents=True, exist_ok=True)
        for name in ("user_key", "host_key"):
            call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name)
        public = (self.folder / "host_key.pub").read_text()
        (self.folder / "known_hosts").write_text(f"{','.join(self.names)} {public}")
        (self.folder / "sshd_config").write_text(
            f"HostKey {self.folder}/host_key\n"
            f"AuthorizedKeysFile {self.folder}/user_key.pub\n"
            "PidFile none\nStrictModes no\nPermitRootLogin yes\nUsePAM no\n"
            "PasswordAuthentication no\nMaxStartups 100\n"
        )
        (self.folder / "ssh_config").write_text(
            f"Host *\n  IdentityFile {self.folder}/user_key\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.folder}/known_hosts\n  StrictHostKeyChecking yes\n"
            "  BatchMode yes\n  ConnectTimeout 10\n  LogLevel ERROR\n"
        )

    def _connect(self) -> None:
        call("ip", "netns", "add", self.bridge)
        inside = ["ip", "-n", self.bridge, "link"]
        call(*inside, "add", "br0", "type", "bridge")
        call(*inside, "set", "br0", "up")
        known = [f"10.77.0.{number} h{number}" for number in range(1, len(self.names) + 1)]
        for number, host in enumerate(self.names, start=1):
            namespace = self._namespace(host)
            (NETNS / namespace).mkdir(parents=True)
            text = "\n".join(["127.0.0.1 localhost", *known, ""])
            (NETNS / namespace / "hosts").write_text(text)
            call("ip", "netns", "add", namespace)
            cable = ["eth0", "netns", namespace, "type", "veth", "peer", host]
            call("ip", "link", "add", *cable, "netns", self.bridge)
            call(*inside, "set", host, "master", "br0", "up")
            call("ip", "-n", namespace, "address", "add", f"10.77.0.{number}/24", "dev", "eth0")
            call("ip", "-n", namespace, "link", "set", "eth0", "up")
            call("ip", "-n", namespace, "link", "set", "lo", "up")

    def _set_link(self, host: str, state: str) -> None:
        call("ip", "-n", self.bridge, "link", "set", host, state)

    def _signal(self, host: str, number: int, keep_sshd: bool = False) -> None:
        """Send a signal to all processes of a host, including those that start meanwhile."""
        spared = {self._sshds[host].pid} if keep_sshd else set()
        signal_all(self._namespace(host), number, spared)


def call(*words: object) -> str:
    """Run a program, and return its output."""
    line = [which(str(words[0])), *map(str, words[1:])]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout


def which(program: str) -> str:
    """Return the path of a program, also of one that only root uses."""
    return shutil.which(program, path=SYSTEM_PATH) or program


def processes(namespace: str) -> list[int]:
    """Return the ids of all processes in a network namespace."""
    return [int(number) for number in call("ip", "netns", "pids", namespace).split()]


def signal_all(namespace: str, number: int, spared: set[int]) -> None:
    """Send a signal to all processes in a namespace, including those that start meanwhile."""
    done = spared
    while left := set(processes(namespace)) - done:
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, number)
        done = done | left


def delete(namespace: str) -> None:
    """Kill all processes in a namespace, and remove it with its files."""
    if namespace in call("ip", "netns", "list").split():
        signal_all(namespace, signal.SIGKILL, set())
        call("ip", "netns", "delete", namespace)
    shutil.rmtree(NETNS / namespace, ignore_errors=True)


def delete_leftovers() -> None:
    """Remove the namespaces of test processes that were killed."""
    names = {*call("ip", "netns", "list").split(), *(path.name for path in NETNS.glob("*"))}
    for name in names:
        owner = re.match(rf"{PREFIX}-(\d+)-", name)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            delete(name)

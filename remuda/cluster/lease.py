"""Let rank 0 ask the launcher whether its job is still the one that trains the run.

If the host of rank 0 is cut off or frozen, the launcher restarts the run elsewhere. The old rank 0
may still run, and to rank 0 all the others seem lost. Before it continues without them, it asks the
launcher. Without the launcher's consent it ends, so a run never has two writers.

If the whole job was suspended, all ranks seem lost to each other afterwards, but none of them is.
The launcher was suspended too. It withdraws its consent, so that all ranks start again.
"""

import hmac
import os
import secrets
import socket
import socketserver
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from remuda.cluster.environment import LEASE
from remuda.cluster.hosts import Host, is_here

ANSWER_TIMEOUT = 5.0  # seconds
YES = b"yes\n"
LOOPBACK = "127.0.0.1"
MAX_LINE = 100  # bytes


class Lease:
    """The launcher's consent to one job.

    It ends when the lease is closed, or when this process was suspended for ``limit`` seconds.
    """

    def __init__(self, hosts: Sequence[Host] = (), limit: float = 15.0):
        self._limit, self._last, self._is_over = limit, time.monotonic(), False
        lease, token = self, secrets.token_hex(16)
        is_local = is_here(hosts[0].name) if hosts else "SLURM_JOB_ID" not in os.environ

        class Answer(socketserver.StreamRequestHandler):
            timeout = ANSWER_TIMEOUT

            def handle(self) -> None:
                with suppress(OSError):
                    asked = self.rfile.readline(MAX_LINE).strip()
                    if lease.is_held() and hmac.compare_digest(asked, token.encode()):
                        self.wfile.write(YES)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

            def service_actions(self) -> None:  # twice a second
                lease.is_held()

        self._server = Server((LOOPBACK if is_local else "", 0), Answer)
        address = LOOPBACK if is_local else _own_address(hosts)
        self.value = f"{address} {self._server.server_address[1]} {token}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def is_held(self) -> bool:
        """Return whether this process was never suspended. Call it often to find out."""
        now = time.monotonic()
        self._is_over = self._is_over or now - self._last > self._limit
        self._last = now
        return not self._is_over

    def close(self) -> None:
        """Withdraw the consent. This may happen several times."""
        self._server.shutdown()
        self._server.server_close()


def is_held() -> bool:
    """Return whether the launcher still counts on this job. Jobs without a launcher hold it too."""
    value = os.environ.get(LEASE)
    if not value:
        return True
    host, port, token = value.split()
    try:
        with socket.create_connection((host, int(port)), ANSWER_TIMEOUT) as connection:
            connection.sendall(f"{token}\n".encode())
            return connection.makefile("rb").readline(MAX_LINE) == YES
    except OSError:
        return False


def _own_address(hosts: Sequence[Host]) -> str:
    """Return the address under which rank 0's host can reach this machine."""
    for host in hosts[:1]:
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host.name.rpartition("@")[2], 9))  # sends nothing
            return probe.getsockname()[0]
    return socket.gethostname()

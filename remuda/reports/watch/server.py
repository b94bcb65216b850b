"""Start the server: bind a port, lower the priority, and serve until the user stops it."""

import errno
import ipaddress
import os
import platform
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from remuda.errors import UserError
from remuda.reports.watch.app import make_app
from remuda.reports.watch.guard import Guard
from remuda.reports.watch.library import Library
from remuda.system.text import Notify

MAX_CONNECTIONS = 256
MAX_HEAD = 16_384  # bytes of a request's first line and headers
HEAD_SECONDS = 10.0  # within which they must arrive
IDLE_SECONDS = 15  # after which a connection without requests ends; pages ask every 2 s


class Place(NamedTuple):
    """A bound socket, and how to reach it."""

    socket: socket.socket
    token: str  # "" on the loopback interface
    address: str  # for a browser


def serve(folder: Path, host: str, port: int, notify: Notify) -> None:
    """Serve the runs in a folder, or one run, until the process is interrupted."""
    check_folder(folder)
    place = bind(host, port)
    notify(f"watching {folder}: {place.address}")
    if place.token:
        notify("anyone who knows this address can read these runs; stop with Ctrl-C")
    server = make_server(folder, place)
    lower_priority()
    with place.socket, suppress(KeyboardInterrupt):
        server.run([place.socket])


def make_server(folder: Path, place: Place) -> uvicorn.Server:
    """Return a server that is not running yet."""
    library = Library(folder, secrets.token_hex(4))
    port = place.socket.getsockname()[1]
    config = uvicorn.Config(
        Guard(make_app(library), place.token, f"remuda-watch-{port}"),
        http=Protocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=MAX_HEAD,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)


class Protocol(H11Protocol):
    """End connections that do not send a whole request in time."""

    def connection_made(self, transport) -> None:  # type: ignore[override]
        """Start to wait for the first request."""
        super().connection_made(transport)
        self._waiting = self.loop.call_later(HEAD_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        """Stop waiting if the head of a request is complete."""
        super().data_received(data)
        is_partial = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if not is_partial:
            self._waiting.cancel()
        elif self._waiting.cancelled():
            self._waiting = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._waiting.cancel()
        super().connection_lost(exc)


def check_folder(folder: Path) -> None:
    """Raise unless the folder exists. It may be empty, because runs may appear later."""
    if not folder.exists():
        raise UserError(
            f"there is no folder {folder}: name a run or a folder of runs, or create it with "
            f"mkdir -p {quote(str(folder))}"
        )
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: name a run or a folder of runs")


def bind(host: str, port: int) -> Place:
    """Bind a socket. Other computers can only connect with a token."""
    try:
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise UserError(
            f"--host {host} is not an address of this computer ({error.strerror}): use 127.0.0.1, "
            "or 0.0.0.0 for all its networks"
        ) from None
    place = socket.socket(family, socket.SOCK_STREAM)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        place.bind(where)
        place.listen(MAX_CONNECTIONS)
    except OSError as error:
        place.close()
        raise _cannot_bind(host, port, error) from None
    number, ip = place.getsockname()[1], ipaddress.ip_address(where[0])
    token = "" if ip.is_loopback else secrets.token_urlsafe(24)
    name = platform.node() if ip.is_unspecified else host
    name = f"[{name}]" if ":" in name else name
    query = f"?token={token}" if token else ""
    return Place(place, token, f"http://{name}:{number}/{query}")


def _cannot_bind(host: str, port: int, error: OSError) -> UserError:
    if error.errno == errno.EADDRINUSE:
        return UserError(
            f"port {port} is taken, perhaps by another remuda watch: choose another one, or any "
            "free one with --port 0"
        )
    if error.errno == errno.EACCES:
        return UserError(f"port {port} is reserved for the system: choose --port 8711")
    return UserError(
        f"--host {host} is not an address of this computer ({error.strerror}): use 127.0.0.1, or "
        "0.0.0.0 for all its networks"
    )


def lower_priority() -> None:
    """Let every other process run first, so that runs on this computer are not slowed down."""
    os.nice(19)

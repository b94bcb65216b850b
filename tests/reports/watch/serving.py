"""Start servers in threads, and talk to them with plain sockets."""

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

from remuda.reports.watch import server


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """A client of one server."""

    def __init__(self, place: server.Place):
        self.port = place.socket.getsockname()[1]
        self.address, self.token = place.address, place.token

    def get(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, names)
            answer = connection.getresponse()
            content = answer.read()
            found = {name.lower(): value for name, value in answer.getheaders()}
        finally:
            connection.close()
        if found.get("content-encoding") == "gzip":
            content = gzip.decompress(content)
        return Answer(answer.status, found, content)

    def raw(self, request: bytes, seconds: float = 5.0) -> bytes:
        """Send bytes as they are; return everything that the server answers."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(request)
            found = b""
            while part := connection.recv(65536):
                found += part
            return found


@contextmanager
def serving(folder: Path, host: str = "127.0.0.1") -> Iterator[Client]:
    """Serve a folder in a thread."""
    place = server.bind(host, 0)
    running = server.make_server(folder, place)
    thread = threading.Thread(target=running.run, args=([place.socket],), daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    try:
        yield Client(place)
    finally:
        running.should_exit = True
        thread.join(timeout=10)
        place.socket.close()
        assert not thread.is_alive()

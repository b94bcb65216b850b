"""Hostile requests: nothing outside the folder of runs is ever sent."""

import errno
import os
import re
import shutil
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from remuda.reports.watch import guard, server
from remuda.reports.watch.guard import is_loopback_name
from tests.reports.page.records import make_record

from .serving import Client, serving

PATHS = [
    "/../secret.txt",
    "/run/../secret.txt",
    "/run/one/../../../secret.txt",
    "/run/one/samples/../../../secret.txt",
    "/run/one/samples/..%2f..%2f..%2fsecret.txt",
    "/run/%2e%2e/outside/",
    "/run/..%2foutside/data",
    "/run/..%5coutside/data",
    "/run/one%00/data",
    "/run/one/samples/round-000004.png%00.txt",
    "/run//etc/passwd",
    "//etc/passwd",
    "/run/{outside}/data",
    "/run/{outside}/samples/round-000001.png",
    "/run/one/config.toml",
    "/run/one/rounds.jsonl",
    "/run/one/index.html",
    "/run/one/samples/",
    "/run/one/samples/round-4.png",
    "/run/one/samples/ROUND-000004.png",
    "/run/one/samples/cells/../round-000004.png",
    "/run/one/samples/round-999999.png",
    "/run/link/data",
    "/run/link/",
    "/run/swapped/data",
    "/run/swapped/samples/round-000001.png",
    "/run/settings/data",
    "/run/one/samples/round-000007.png",
    "/run/one/samples/round-000008.png",
    "/run/one/samples/round-000009.png",
    "/static/page.css",
    "/.git/config",
    "/run/%ff%fe/data",
    "/run/" + "a/" * 400,
]


@pytest.fixture
def hostile(runs, tmp_path):
    """Add links that lead outside, as someone might who can write to the folder."""
    outside = tmp_path / "outside"
    (runs / "link").symlink_to(outside)
    swapped = make_record(runs / "swapped")
    (swapped / "samples").rmdir()
    (swapped / "samples").symlink_to(outside / "samples")
    settings = make_record(runs / "settings")
    (settings / "config.toml").unlink()
    (settings / "config.toml").symlink_to(outside / "config.toml")
    samples = runs / "one" / "samples"
    (samples / "round-000007.png").symlink_to(tmp_path / "secret.txt")
    shutil.copy(tmp_path / "secret.txt", samples / "round-000008.png")  # no picture
    (samples / "round-000009.png").symlink_to(outside / "samples" / "round-000001.png")
    with serving(runs) as found:
        yield found


def test_no_path_leads_outside(hostile, tmp_path):
    for path in PATHS:
        path = path.format(outside=tmp_path / "outside")
        answer = hostile.get(path)
        assert answer.status in (404, 414), path
        assert b"SECRET" not in answer.body and b"class-0" not in answer.body, path
    listed = {run["id"] for run in hostile.get("/data").json["runs"]}
    assert listed == {"one", "many/seed <0>"}
    data = hostile.get("/run/one/data").body.decode()
    assert re.findall(r"samples/round-\d+\.png", data) == ["samples/round-000004.png"]
    for name in ("link", "swapped", "settings", "../outside"):
        assert hostile.get(f"/compare?run=one&run={name}").status == 404


def test_links_to_themselves_do_not_stop_the_index(client, runs):
    looped = make_record(runs / "looped")
    (looped / "samples").rmdir()
    (looped / "samples").symlink_to("samples")
    samples = runs / "one" / "samples"
    (samples / "round-000007.png").symlink_to("round-000007.png")
    assert len(client.get("/data").json["runs"]) >= 2
    assert client.get("/run/looped/data").status in (400, 404)
    assert client.get("/run/one/samples/round-000007.png").status == 404
    assert client.get("/run/one/data").status == 200


def test_pipes_do_not_block_the_server(client, runs):
    piped = make_record(runs / "piped")
    (piped / "scores.jsonl").unlink(missing_ok=True)
    os.mkfifo(piped / "scores.jsonl")
    os.mkfifo(runs / "one" / "samples" / "round-000007.png")
    states = {run["id"]: run["state"] for run in client.get("/data").json["runs"]}
    assert states["piped"] == "damaged" and states["one"] != "damaged"
    assert "not a regular file" in client.get("/run/piped/data").json["error"]
    assert client.get("/run/one/samples/round-000007.png").status == 404
    assert client.get("/run/one/data").status == 200


def test_folders_of_other_users_are_left_out(client, runs, monkeypatch):
    make_record(runs / "private")
    make_record(runs / "no-pictures")

    def refusing(function):
        def call(path, **options):
            if path.parent.name == "private" or path.match("no-pictures/samples/cells"):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return function(path, **options)

        return call

    for name in ("is_file", "is_symlink", "stat"):
        monkeypatch.setattr(Path, name, refusing(getattr(Path, name)))
    listed = {run["id"] for run in client.get("/data").json["runs"]}
    assert {"one", "many/seed <0>"} <= listed and "private" not in listed
    assert client.get("/run/private/data").status == 404
    assert "Permission denied" in client.get("/run/no-pictures/data").json["error"]


def test_other_methods_are_refused(client):
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "MADE-UP"):
        answer = client.get("/data", method)
        assert answer.status == 405 and "runs" not in answer.body.decode(), method


def test_sizes_are_limited(client):
    assert client.get("/" + "a" * 2_000).status == 414
    assert client.get("/data?" + "a" * 8_000).status == 414
    assert client.get("/data", Cookie="a" * 20_000).status == 431
    with suppress(ConnectionError):  # the server may end the connection before it has read all
        assert client.get("/data", Cookie="a" * 200_000).status in (400, 431)
    many = {f"x{i}": "1" for i in range(100)}
    assert client.get("/data", **many).status == 431
    assert client.get("/data", body=b"x" * 1000).status == 413
    chunked = b"GET /data HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert client.raw(chunked + b"5\r\nhello\r\n").startswith(b"HTTP/1.1 413")
    for start in ("-1", "1e3", "%D9%A3", "9" * 30, "x", ""):
        assert client.get(f"/run/one/data?from={start}").status == 400, start
    assert client.get("/run/one/data?generation=" + "a" * 500).status == 400


@pytest.mark.parametrize("request_line", [b"GARBAGE", b"GET /data", b"\x16\x03\x01\x02\x00\x01"])
def test_broken_requests_end(client, request_line):
    found = client.raw(request_line + b"\r\nHost: localhost\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 400") and b"runs" not in found


def test_only_names_of_this_computer_are_answered(client):
    """A page from the internet may point its own name at 127.0.0.1."""
    for host in ("evil.example", "evil.example:8711", "localhost.evil.example", "127.0.0.1.nip.io"):
        assert client.get("/data", Host=host).status == 421, host
    for host in (f"localhost:{client.port}", "127.0.0.1", f"[::1]:{client.port}", "LOCALHOST"):
        assert client.get("/data", Host=host).status == 200, host
    twice = b"GET /data HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
    assert client.raw(twice).startswith(b"HTTP/1.1 400")
    assert client.raw(b"GET /data HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "host", ["", "[", "[::1", "[::2]", "localhost:", "localhost:x", "user@localhost", "10.0.0.1"]
)
def test_other_hosts(host):
    assert not is_loopback_name(host)


def test_every_answer_has_headers_that_protect(client):
    for path in ("/", "/data", "/run/one/", "/nothing", "/run/one/samples/round-000004.png"):
        headers = client.get(path, Origin="http://evil.example").headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert not any(name.startswith("access-control") for name in headers)
        assert "server" not in headers


# Tokens


@pytest.fixture
def guarded(runs):
    with serving(runs, "0.0.0.0") as found:
        yield found


def test_without_the_token_nothing_is_sent(guarded):
    cookie = f"remuda-watch-{guarded.port}"
    for path in ("/", "/data", "/run/one/", "/run/one/samples/round-000004.png", "/nothing"):
        assert guarded.get(path).status == 403
        for token in ("", "x", guarded.token[:-1], guarded.token + "x", "é", "%00"):
            assert guarded.get(f"{path}?token={token.replace('é', '%C3%A9')}").status == 403
            shown = token.encode("ascii", "ignore").decode()
            assert guarded.get(path, Cookie=f"{cookie}={shown}").status == 403
    assert guarded.get("/", Cookie='\x01=;;;"').status == 403
    assert guarded.token not in guarded.get("/?token=x").body.decode()


def test_the_token_moves_into_a_cookie(guarded):
    answer = guarded.get(f"/compare?run=one&token={guarded.token}&run=b")
    assert (answer.status, answer.headers["location"]) == (303, "./compare?run=one&run=b")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/" in cookie
    kept = cookie.split(";")[0]
    assert guarded.get("/data", Cookie=kept, Host="any.name:99").status == 200
    assert guarded.get(f"/run/one/?token={guarded.token}").headers["location"] == "./"
    assert guarded.get(f"/?token=x&token={guarded.token}").status == 303


# Connections


def test_many_connections_do_not_stop_the_server(runs, monkeypatch):
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 20)
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.5)
    with serving(runs) as client:
        slow = [_half_a_request(client) for _ in range(30)]
        time.sleep(0.2)
        assert client.get("/data").status == 503
        deadline = time.monotonic() + 5
        while client.get("/data").status != 200 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert client.get("/data").status == 200, "slow connections were closed"
        for connection in slow:
            connection.close()


def _half_a_request(client: Client) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", client.port))
    connection.sendall(b"GET /data HTTP/1.1\r\nHost: local")
    return connection


def test_a_request_that_takes_too_long_ends(runs, monkeypatch):
    monkeypatch.setattr(guard, "SECONDS", 0.2)
    monkeypatch.setattr(
        "remuda.reports.watch.library.Library.index", lambda self, kind: time.sleep(1)
    )
    with serving(runs) as client:
        answer = client.get("/data")
        assert answer.status == 503 and b"too long" in answer.body

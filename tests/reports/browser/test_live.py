"""Check that a live page follows its run, keeps what the reader chose, and survives its server."""

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

import pytest

from remuda.reports.page import html
from remuda.reports.watch.server import bind, make_server
from tests.reports.browser import payloads

LIVE = {"url": "data", "interval": 50}


class Growing:
    """A server whose run grows when the test says so."""

    def __init__(self):
        self.points, self.state = 8, "running"
        self.whole = payloads.payload(100)
        self.asked = []  # the point from which each request wants data

    def payload(self, start=0):
        """Return the payload, with curves from a point on."""
        found = dict(self.whole)
        found["curves"] = payloads.cut(found["curves"], start, self.points)
        found["pictures"] = found["pictures"][: self.points]
        found["state"] = found["state"] | {"state": self.state, "reached": self.points}
        return found

    @contextmanager
    def served(self, port=0):
        """Serve the page and its data, and yield the port."""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                address = urlparse(self.path)
                if address.path == "/data":
                    start = int(parse_qs(address.query)["from"][0])
                    owner.asked.append(start)
                    text, kind = json.dumps(owner.payload(start)), "application/json"
                else:
                    text, kind = html.run_document(owner.payload(), LIVE), "text/html"
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def growing():
    """Return a run that grows when the test says so."""
    return Growing()


def last_round(page):
    """Return the text of the last point of the first chart."""
    return page.locator("#training .readout .item").first.inner_text()


def grow(page, run, points):
    """Let the run reach a point, and wait until the page shows it."""
    run.points = points
    page.get_by_text(f"round {points} of 100").wait_for()


def test_new_points_and_pictures_appear(visit, growing):
    with growing.served() as port:
        page = visit(f"http://127.0.0.1:{port}/")
        assert last_round(page) == "round 8:"
        grow(page, growing, 10)
        assert last_round(page) == "round 10:"
        assert page.locator("#samples output").inner_text() == "round 10"
        assert page.title().startswith("10 % ")
        assert growing.asked[0] == 7  # the last point may have been incomplete


def test_zoom_choice_and_slider_survive_an_update(visit, growing):
    with growing.served() as port:
        page = visit(f"http://127.0.0.1:{port}/#members=1,2")
        page.locator("#samples input[type=range]").focus()
        page.keyboard.press("Home")
        page.locator("#training .plot").first.focus()
        page.keyboard.press("+")
        grow(page, growing, 20)
        assert page.locator("#samples output").inner_text() == "round 1"
        assert page.locator("#training .chart button:visible").count() == 2
        assert "2 of 4" in page.locator(".chooser summary").inner_text()
        assert page.locator("#training .plot").first.evaluate(
            "plot => plot === document.activeElement"
        )


def test_a_run_with_fewer_members_may_replace_the_first_one(visit, growing):
    with growing.served() as port:
        page = visit(f"http://127.0.0.1:{port}/")
        summary = page.locator(".chooser summary")
        assert summary.inner_text().endswith(": 4 of 4")
        members = [dict(member) for member in growing.whole["members"][:2]]
        growing.whole |= {"members": members, "noun": "worker"}
        grow(page, growing, 10)
        assert summary.inner_text() == "Workers in the charts: 2 of 2"
        assert page.locator(".chooser li").count() == 2


def test_the_end_of_the_run_is_announced(visit, growing):
    with growing.served() as port:
        page = visit(f"http://127.0.0.1:{port}/")
        assert page.locator("#announcements").text_content() == ""
        growing.state = "finished"
        page.get_by_text("The run is now: finished.").wait_for(state="attached")
        assert page.locator(".state").inner_text() == "finished"


def test_a_server_that_is_gone_is_named_and_comes_back(visit, growing):
    with growing.served() as port:
        page = visit(f"http://127.0.0.1:{port}/")
    page.get_by_text("Not reachable since").first.wait_for()
    assert last_round(page) == "round 8:"
    with growing.served(port):
        page.locator("#offline").wait_for(state="hidden")
        grow(page, growing, 12)


def test_a_real_run_is_followed(visit, tmp_path):
    run = tmp_path / "run"
    settings = ["run.sample_every=5", "strategy.steps_per_round=4"]
    changes = [text for setting in settings for text in ("--set", setting)]
    command = ["-m", "remuda", "train", "class-parallel-digits", "--members", "3"]
    training = subprocess.Popen(
        [sys.executable, *command, "--rounds", "100000", "--out", str(run), *changes],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    place = bind("127.0.0.1", 0)
    server = make_server(tmp_path, place)
    thread = threading.Thread(target=server.run, args=([place.socket],))
    try:
        until((run / "rounds.jsonl").exists)
        thread.start()
        page = visit(f"{place.address}run/run/")
        page.wait_for_selector("html[data-drawn]")
        rounds, slider = page.locator("progress"), page.locator("#samples input[type=range]")
        before = number(rounds, "value"), number(slider, "max")
        until(lambda: number(rounds, "value") > before[0])
        until(lambda: number(slider, "max") > before[1])
        assert page.locator(".state").inner_text() == "training"
        assert "remuda resume" not in page.locator("#commands").inner_text()
        image = page.locator("#samples img")
        until(lambda: image.evaluate("image => image.naturalWidth") > 0)
    finally:
        training.terminate()
        training.wait(30)
        server.should_exit = True
        if thread.ident:
            thread.join()
        place.socket.close()


def number(element, attribute):
    """Return an attribute of an element as a number; 0 if it is not set yet."""
    return int(element.get_attribute(attribute) or 0)


def until(condition):
    """Wait up to a minute until the condition holds."""
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.1)

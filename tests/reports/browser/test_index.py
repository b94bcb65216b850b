"""The page of a folder of runs in a browser: search, sorting, choice, keyboard, live updates."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from remuda.reports import index
from tests.reports.compare.test_compare import make_run
from tests.reports.index.test_index import tell
from tests.reports.page.records import add_grid, add_rounds, add_scores, make_record, round_line
from tests.reports.page.records import score_line as score
from tests.reports.watch.serving import serving

DOT = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def runs(tmp_path):
    """Four runs: finished, with a hostile name, of a folder of repeats, and damaged."""
    folder = tmp_path / "runs"
    a = make_record(folder / "a", rounds=10, planned=10)
    tell(a, "finished")
    add_scores(a, score(2, "fid", 30.0), score(10, "fid", 20.0), score(10, "kid", 5.0))
    add_grid(a, 10, size=(60, 60))
    b = make_record(folder / HOSTILE, rounds=9, strategy="standalone", classes=[HOSTILE])
    add_scores(b, score(2, "fid", 10.0), score(4, "fid", 15.0))
    make_record(folder / "repeats" / "seed-000", rounds=2, strategy="md-gan")
    (make_record(folder / "z") / "config.toml").write_text("x")
    return folder


@pytest.fixture
def server(runs):
    """Serve the index as ``remuda watch`` does, without its guards."""
    cache = index.Cache()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            values = index.payload(
                runs, cache, lambda path: "data:image/gif;base64,R0lGODlhAQABAAA"
            )
            live = {"url": "data", "interval": 50}
            is_data = self.path.startswith("/data")
            text = json.dumps(values) if is_data else index.document(values, live)
            self.send_response(200)
            self.send_header("Content-Type", "application/json" if is_data else "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def document(runs):
    return index.document(index.payload(runs, index.Cache(), lambda _: DOT))


def names(page):
    return page.locator("tbody tr th a").all_inner_texts()


def test_search_and_sorting(runs, visit):
    page = visit(document(runs))
    everything = [HOSTILE, "a", "repeats/seed-000", "z"]
    assert sorted(names(page)) == sorted(everything)
    assert page.locator(".summary").inner_text() == ("4 runs: 2 not known, 1 finished, 1 damaged")
    assert page.locator("img[src=x]").count() == 0, "names stay text"
    page.get_by_label("Search").fill("MD-gan seed")
    assert names(page) == ["repeats/seed-000"]
    assert page.locator(".summary").inner_text().endswith("1 found")
    page.keyboard.press("Escape")
    assert len(names(page)) == 4
    head = page.locator("thead")
    for title, first, last in (("round", "z", "a"), ("best", HOSTILE, "a")):
        head.get_by_role("button", name=title).click()
        up = names(page)
        head.get_by_role("button", name=title).click()
        down = names(page)
        present = [one for one in up if one in (first, last)]
        assert present == [first, last] and [one for one in down if one in present] == [last, first]
    assert names(page)[-2:] == ["repeats/seed-000", "z"], "runs without a score stay at the end"
    assert head.locator("[aria-sort=descending]").inner_text().startswith("best")
    page.get_by_label("Score").select_option("kid")
    assert names(page)[0] == "a" and page.locator("tbody tr").first.inner_text().count("5") >= 1


def test_choice_and_keyboard(runs, server, visit):
    page = visit(server)
    page.keyboard.press("/")
    page.keyboard.type("a")
    page.keyboard.press("ArrowDown")
    focused = "document.activeElement.closest('tr').querySelector('a').textContent"
    first = page.evaluate(focused)
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) != first
    page.keyboard.press("ArrowUp")
    assert page.evaluate(focused) == first
    page.keyboard.press("Escape")
    for name in ("a", "repeats/seed-000", HOSTILE):
        page.get_by_label(f"compare {name}", exact=True).press("Space")
    link = page.get_by_role("link", name="Compare side by side")
    hostile = "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E"
    assert link.get_attribute("href") == f"compare?run=a&run=repeats%2Fseed-000&run={hostile}"
    assert page.locator(".choice code").inner_text().startswith("remuda compare '")
    assert page.get_by_role("link", name="repeats/seed-000").get_attribute("href") == (
        "run/repeats/seed-000/"
    )
    page.get_by_role("button", name="Clear").click()
    assert not link.is_visible()


def test_live_updates_keep_the_choice(runs, server, visit):
    page = visit(server)
    row = page.locator("tbody tr", has=page.get_by_role("link", name="repeats/seed-000"))
    row.get_by_role("checkbox").check()
    row.get_by_role("link").focus()
    add_rounds(runs / "repeats" / "seed-000", [round_line(3, 3)])
    make_record(runs / "new")
    page.get_by_role("link", name="new", exact=True).wait_for()
    assert "3 of 10" in row.inner_text() and row.get_by_role("checkbox").is_checked()
    assert page.evaluate("document.activeElement.textContent") == "repeats/seed-000"


def test_the_index_leads_to_a_comparison_that_follows_the_runs(tmp_path, visit):
    make_run(tmp_path / "a", strategy={"loss": "hinge"})
    make_run(tmp_path / "b" / "1 & 2", strategy={"loss": "minimax"})
    with serving(tmp_path) as client:
        page = visit(client.address)
        for name in ("a", "b/1 & 2"):
            page.get_by_label(f"compare {name}", exact=True).check()
        page.get_by_role("link", name="Compare side by side").click()
        page.get_by_role("heading", name="Comparison: a, 1 & 2").wait_for(timeout=60_000)
        chart = page.locator(".chart").first
        chart.get_by_text("round 4:").wait_for()
        line = {"round": 5, "generator_loss": [1.0, 3.0]}
        time = {"seconds": 1.0, "images": 500, "images_per_second": 5.0}
        add_rounds(tmp_path / "a", [line | time])
        chart.get_by_text("round 5:").wait_for()
        assert "a 2" in chart.locator(".readout").inner_text()
        page.get_by_role("link", name="All runs").click()
        page.get_by_label("Search").wait_for()
        page.close()


def test_narrow_pages_do_not_scroll_sideways(runs, visit):
    narrow = {"width": 360, "height": 740}
    page = visit(document(runs), suffix="#q=a&sort=round+down", viewport=narrow)
    assert names(page)[0] == "a", "the address keeps search and order"
    assert page.get_by_label("Sort").input_value() == "round down"
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_long_names_do_not_widen_the_page(runs, visit):
    facts = json.loads((runs / "a" / "data.json").read_text())
    facts["name"] = "folder:/scratch/projects/several-sites/site-{rank}"
    (runs / "a" / "data.json").write_text(json.dumps(facts))
    add_scores(runs / "a", score(10, "fid_10k_train_inception_100-classes_pooled-12", 20.0))
    add_scores(runs / "repeats" / "seed-000", score(2, "fid_10k_train_inception_pooled-12", 3.5))
    page = visit(document(runs))
    for width in (320, 360, 1220, 1400):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width

"""The page of a comparison in a browser: axes, choice of runs, samples, tables."""

import pytest

from remuda.reports.compare import compare
from tests.reports.compare.test_compare import FID, make_run, value
from tests.reports.page.records import add_grid

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Two seeds of two strategies; one of them sends bytes and has a hostile folder."""
    folder = tmp_path_factory.mktemp("runs")
    runs = []
    for i, name in enumerate(("standalone", "class-parallel")):
        for seed in (0, 1):
            scores = [(t, value(FID, 40.0 / t + i + seed)) for t in (2, 4)]
            place = folder / (HOSTILE if i else "plain") / str(seed)
            sections = {"strategy": {"name": name}, "run": {"seed": seed}}
            run = make_run(place, scores, bytes=100 if i else None, **sections)
            for t in (1, 4) if seed else (2, 4):
                add_grid(run, t, size=(34, 34))
            runs.append(run)
    return compare(runs).render("html")


def readout(page, chart=0):
    box = page.locator(".chart .plot").nth(chart)
    box.focus()
    page.keyboard.press("End")
    return page.locator(".chart .readout").nth(chart).inner_text()


def test_curves_over_all_axes(text, visit):
    page = visit(text)
    titles = page.locator(".chart h3").all_inner_texts()
    assert titles == [f"{FID} ↓", "generator loss", "images per second"]
    shown = readout(page)
    assert shown.startswith("round 4:")
    for words in ("standalone (mean of 2) 10.5", "class-parallel (mean of 2) 11.5", "seed 1 11"):
        assert words in shown
    for axis, words in (("seconds", "seconds of training 10 s"), ("images", "images 400")):
        page.get_by_label("x axis").select_option(axis)
        assert readout(page).startswith(words)
    page.get_by_label("x axis").select_option("bytes")
    shown = readout(page)
    assert shown.startswith("bytes sent 400 B") and "standalone" not in shown
    assert "No bytes recorded: standalone, seed 0" in page.locator("#curves > p").inner_text()
    assert page.evaluate("location.hash") == "#x=bytes"


def test_choice_of_runs_and_charts(text, visit):
    page = visit(text)
    page.get_by_label("standalone, seed 1").uncheck()
    shown = readout(page)
    assert "standalone, seed 0 10" in shown and "standalone (mean" not in shown
    assert "class-parallel (mean of 2)" in shown
    assert page.locator(".sample:visible").count() == 3
    page.get_by_text("Scores and metrics in the charts").click()
    page.get_by_role("checkbox", name="generator loss").uncheck()
    assert page.locator(".chart:visible").count() == 2
    page.get_by_label("logarithmic").check()
    again = visit(text, suffix=page.evaluate("location.hash"))
    assert again.locator(".sample:visible").count() == 3, "the address keeps the choice"
    assert again.get_by_label("logarithmic").is_checked()


def test_samples_and_tables(text, visit):
    page = visit(text)
    captions = page.locator(".sample figcaption")
    assert captions.all_inner_texts()[0].strip() == "standalone, seed 0: round 4"
    assert page.locator(".sample img").count() == 4
    page.locator("#samples input[type=range]").focus()
    page.keyboard.press("Home")
    shown = [caption.strip() for caption in captions.all_inner_texts()]
    assert shown[:2] == [
        "standalone, seed 0: nothing up to round 1",
        "standalone, seed 1: round 1",
    ]
    page.keyboard.press("ArrowRight")
    assert captions.first.inner_text().strip() == "standalone, seed 0: round 2"
    assert captions.nth(1).inner_text().strip() == "standalone, seed 1: round 1"
    scores = page.locator("#scores")
    row = scores.locator("tr", has_text=FID).first.inner_text()
    assert "10.50 ± 0.71 ★" in row and "(p = 0.67)" in row
    assert "Mann-Whitney" in scores.locator(".notes").inner_text()
    scores.get_by_text("Protocols", exact=True).click()
    assert "1111aaaa2222bbbb" in scores.locator("details").inner_text()
    assert "strategy.name" in page.locator("#settings").inner_text()


def test_zoom_and_narrow_pages(text, visit):
    page = visit(text, viewport={"width": 360, "height": 740})
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.locator("img[src=x]").count() == 0, "names stay text"
    box = page.locator(".chart .u-over").first.bounding_box()
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.75 * box["width"], box["y"] + 20, steps=4)
    page.mouse.up()
    reset = page.get_by_role("button", name="Reset zoom").first
    reset.click()
    assert not reset.is_visible()

"""Check that pages suit all readers: phones, the dark, keyboards, screen readers, no scripts."""

import re
from itertools import pairwise

import pytest

from remuda.reports.page import html
from tests.reports.browser import payloads
from tests.reports.browser.test_run_page import drawn

KINDS = [payloads.class_parallel, payloads.cellular, payloads.md_gan]


def luminance(colour):
    """Return the relative luminance of a colour such as #a4551e, as WCAG defines it."""
    digits = colour.lstrip("#")
    if len(digits) == 3:
        digits = "".join(2 * digit for digit in digits)
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """Return the contrast of two colours, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def colours(page):
    """Return the colours of the page's style sheet in the present scheme."""
    names = re.findall(r"(--[\w-]+):", html.asset("page.css"))
    read = "name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()"
    return {name: page.evaluate(read, name) for name in dict.fromkeys(names)}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_lines_have_contrast(visit, scheme):
    page = drawn(visit, payloads.payload(), color_scheme=scheme)
    found = colours(page)
    for paper in ("--paper", "--card"):
        for ink in ("--ink", "--soft", "--accent", "--good", "--bad"):
            assert contrast(found[ink], found[paper]) >= 4.5, (ink, paper)
        for i in range(8):
            assert contrast(found[f"--c{i}"], found[paper]) >= 3, (i, paper)
    assert contrast(found["--ink"], found["--bad-paper"]) >= 4.5
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", background))) < 128) == (scheme == "dark")


@pytest.mark.parametrize("make", KINDS)
def test_narrow_pages_do_not_scroll_sideways(visit, make):
    page = drawn(visit, make(), "#cell=4", viewport={"width": 360, "height": 780})
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_a_finger_zooms_a_chart(visit):
    narrow = {"width": 360, "height": 780}
    page = drawn(visit, payloads.payload(points=100), viewport=narrow, has_touch=True)
    chart = page.locator("#training .u-over").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    session = page.context.new_cdp_session(page)
    for kind, part in (("touchStart", 0.3), ("touchMove", 0.5), ("touchMove", 0.7)):
        point = {"x": box["x"] + part * box["width"], "y": box["y"] + 60}
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    reset = page.locator("#training .chart button:visible").first
    reset.wait_for()
    tap_until_hidden(reset)


def tap_until_hidden(button):
    """Tap a button up to five times: a busy browser can take a tap for a long press."""
    for _ in range(5):
        if button.count() == 0:
            return
        button.tap()
        button.page.wait_for_timeout(1000)
    button.wait_for(state="hidden")


@pytest.mark.parametrize("make", KINDS)
def test_landmarks_headings_and_names_exist(visit, make):
    page = drawn(visit, make(), "#cell=4")
    assert page.locator("main").count() == page.locator("h1").count() == 1
    assert page.locator("html").get_attribute("lang") == "en"
    levels = page.locator("h1, h2, h3").evaluate_all("all => all.map(h => Number(h.tagName[1]))")
    assert all(b - a <= 1 for a, b in pairwise(levels))
    unnamed = page.locator("input, select, button, img, [role=slider], [role=grid]").evaluate_all(
        """all => all.filter(e => !(e.getAttribute('aria-label') || e.textContent.trim()
            || e.alt || e.closest('label') || e.closest('[role=img]')))
            .map(e => e.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
    ids = page.locator("[id]").evaluate_all("all => all.map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_keyboard_reaches_the_content_and_all_controls(visit):
    page = drawn(visit, payloads.cellular())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert "#" not in page.url
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.closest('section')?.id"))
    assert {"samples", "torus", "training", "resources", "commands", "details"} <= reached


def test_contents_lead_to_sections_and_keep_the_choices(visit):
    page = drawn(visit, payloads.payload(), "#x=seconds")
    page.get_by_role("navigation").get_by_text("Next steps").click()
    assert page.evaluate("document.activeElement.id") == "commands-title"
    assert page.url.endswith("#x=seconds")


def test_without_scripts_the_page_gives_the_facts(visit):
    text = html.run_document(payloads.payload())
    page = visit(text, java_script_enabled=False)
    assert "JavaScript, which is switched off" in page.locator("noscript").inner_text()
    assert "members: 4" in page.locator("noscript").inner_text()


def test_a_policy_forbids_other_scripts(visit):
    page = visit(html.run_document(payloads.payload()))
    policy = page.locator("meta[http-equiv]").get_attribute("content")
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "unsafe" not in policy


def test_print_shows_everything_without_controls(visit):
    page = drawn(visit, payloads.payload())
    page.emulate_media(media="print")
    assert page.locator("#training .controls:visible").count() == 0
    assert page.locator("#training .plot canvas").first.is_visible()


def test_a_large_run_opens_quickly(visit):
    payload = payloads.large()
    assert len(html.run_document(payload)) < 10_000_000
    page = drawn(visit, payload)
    assert page.locator("#training .chart").count() == 4
    # On a busy computer, only the order of magnitude is meaningful.
    assert page.evaluate("Remuda.drawnAfter") < 10_000

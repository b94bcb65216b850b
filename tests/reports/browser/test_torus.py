"""Check the torus of a cellular run in a real browser."""

from tests.reports.browser import payloads
from tests.reports.browser.test_run_page import drawn


def selected(page):
    """Return the number of the chosen cell; None if there is none."""
    cells = page.locator(".torus-cell[aria-selected=true]")
    return int(cells.get_attribute("data-cell")) if cells.count() else None


def test_a_click_shows_samples_and_mixture_of_a_cell(visit):
    page = drawn(visit, payloads.cellular())
    assert not page.locator(".cell-detail").is_visible()
    page.locator(".torus-cell").nth(4).click()
    assert selected(page) == 4
    assert "cell=4" in page.url
    detail = page.locator(".cell-detail")
    assert detail.locator("h3").first.inner_text() == "row 1, column 1"
    assert detail.locator(".crop").get_attribute("aria-label") == ("Samples of this cell, round 8")
    weights = page.locator(".torus-weight:visible").all_inner_texts()
    assert len(weights) == 5
    assert 97 <= sum(int(text.removesuffix(" %")) for text in weights) <= 103
    page.locator(".torus-cell").nth(4).click()
    assert not detail.is_visible()


def test_arrow_keys_move_around_the_torus(visit):
    page = drawn(visit, payloads.cellular())
    page.locator(".torus-cell").first.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert selected(page) == 8
    assert page.locator(".torus-cell[tabindex='0']").count() == 1


def test_slider_and_field_change_the_colours(visit):
    page = drawn(visit, payloads.cellular())
    cell = page.locator(".torus-cell").first
    before = cell.get_attribute("aria-label")
    assert before.startswith("row 0, column 0: generator fitness ")
    page.get_by_label("iteration of the heat map").focus()
    page.keyboard.press("Home")
    assert page.locator("#torus output").inner_text() == "round 1"
    assert cell.get_attribute("aria-label") != before
    colour = cell.evaluate("cell => cell.style.background")
    page.get_by_label("colour by").select_option("learning_rate")
    assert "learning rate" in cell.get_attribute("aria-label")
    assert cell.evaluate("cell => cell.style.background") != colour
    assert "field=learning_rate" in page.url


def test_lost_cells_say_so(visit):
    payload = payloads.cellular()
    payload["members"][2]["lost"] = {"round": 3, "why": "rank 1 was lost"}
    page = drawn(visit, payload)
    assert page.locator(".torus-cell").nth(2).inner_text() == "lost"
    assert "row 0, column 2 (after round 3)" in page.locator("#failures").inner_text()

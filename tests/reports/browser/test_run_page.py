"""Check the page of a run in a real browser."""

import re

from remuda.reports.page import html
from tests.reports.browser import payloads


def drawn(visit, payload, suffix="", **settings):
    """Open the page of a payload and wait until its charts are drawn."""
    page = visit(html.run_document(payload), suffix, **settings)
    page.wait_for_selector("html[data-drawn]")
    return page


def test_slider_shows_the_samples_of_each_round(visit):
    page = drawn(visit, payloads.payload())
    image, slider = page.locator("#samples img"), page.locator("#samples input[type=range]")
    newest = image.get_attribute("src")
    assert page.locator("#samples output").inner_text() == "round 8"
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator("#samples output").inner_text() == "round 7"
    assert slider.get_attribute("aria-valuetext") == "round 7"
    assert image.get_attribute("src") != newest
    assert image.get_attribute("alt") == "Samples of round 7"


def test_samples_play_from_the_first_round_and_stop_at_the_last(visit):
    page = drawn(visit, payloads.payload(points=3))
    page.get_by_role("button", name="Play").click()
    assert page.locator("#samples output").inner_text() == "round 1"
    page.get_by_role("button", name="Play").wait_for()
    assert page.locator("#samples output").inner_text() == "round 3"


def test_pixels_are_enlarged_by_whole_numbers(visit):
    page = drawn(visit, payloads.payload())
    width = page.locator("#samples img").evaluate("image => image.getBoundingClientRect().width")
    assert width > 80
    assert width % 80 == 0


def test_choice_of_members_changes_the_charts_and_stays_in_the_address(visit):
    page = drawn(visit, payloads.payload())
    readout = page.locator("#training .readout").first
    assert "member 2" in readout.inner_text()
    page.get_by_label("member 2").uncheck()
    assert "member 2" not in readout.inner_text()
    assert "members=0,1,3" in page.url
    page.reload()
    page.wait_for_selector("html[data-drawn]")
    assert "member 2" not in page.locator("#training .readout").first.inner_text()
    assert not page.get_by_label("member 2").is_checked()


def test_search_finds_one_of_many_members(visit):
    page = drawn(visit, payloads.payload(size=30))
    assert "0 of 30" in page.locator(".chooser summary").inner_text()
    page.locator(".chooser summary").click()
    page.get_by_label("Search").fill("member 17")
    page.get_by_role("button", name="All").click()
    assert "1 of 30" in page.locator(".chooser summary").inner_text()
    assert "members=17" in page.url


def test_dragging_zooms_all_charts_and_double_click_resets(visit):
    page = drawn(visit, payloads.payload(points=100))
    chart = page.locator("#training .u-over").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 50, steps=3)
    page.mouse.up()
    resets = page.locator("#training .chart button:visible")
    assert resets.count() == 2
    chart.dblclick()
    assert resets.count() == 0


def test_hover_and_keyboard_show_the_values_of_a_point(visit):
    page = drawn(visit, payloads.payload())
    plot, readout = page.locator("#training .plot").first, page.locator("#training .readout").first
    page.locator("#training .u-over").first.hover(position={"x": 2, "y": 20})
    assert readout.inner_text().startswith("round 1:")
    plot.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert plot.get_attribute("aria-valuetext").startswith("round 7: mean ")
    page.keyboard.press("+")
    assert page.locator("#training .chart button:visible").count() == 2
    page.keyboard.press("Escape")
    assert page.locator("#training .chart button:visible").count() == 0


def test_x_axis_can_be_seconds_but_not_bytes_that_nobody_sent(visit):
    page = drawn(visit, payloads.payload())
    page.get_by_label("x axis").select_option("seconds")
    assert "x=seconds" in page.url
    assert "seconds of training 4 s" in page.locator("#training .readout").first.inner_text()
    assert page.locator("#x-axis option[value=bytes]").is_disabled()


def test_numbers_of_a_chart_are_a_table(visit):
    page = drawn(visit, payloads.payload(size=2))
    page.locator("#training .numbers summary").first.click()
    head = page.locator("#training .numbers thead").first.inner_text().split("\t")
    assert [name.strip() for name in head] == ["round", "mean", "member 0", "member 1"]
    assert page.locator("#training .numbers").first.locator("tbody tr").count() == 8


def test_scores_show_direction_floor_and_best_round(visit):
    page = drawn(visit, payloads.class_parallel())
    row = page.locator("#scores tbody tr").inner_text()
    assert re.search(r"lower is better.*2 ± 0.1.*1.5", row, re.DOTALL)
    label = page.locator("#scores .chart > .hidden").text_content()
    assert "first 8, last 2" in label
    assert "floor: real images: first 1.5" in label


def test_collapsed_classes_are_marked_in_words(visit):
    page = drawn(visit, payloads.class_parallel())
    rows = page.locator("#classes tbody tr")
    assert rows.count() == 4
    assert "⚠ collapsed" in rows.nth(2).inner_text()
    assert "collapsed" not in rows.nth(0).inner_text()
    page.get_by_role("button", name="images", exact=True).click()
    page.get_by_role("button", name="images", exact=True).click()
    assert rows.nth(0).inner_text().startswith("three")


def test_reasons_of_collapse_are_short_on_a_phone(visit):
    payload = payloads.class_parallel()
    names = [f"{kind}_10k_train_lenet" for kind in ("class-kid", "diversity", "class-fid")]
    for item in payload["classes"]:
        why = "its samples vary 0.25 times as much as real images"
        item.update(scores=dict.fromkeys(names, 0.25), collapsed=True, why=why)
    page = drawn(visit, payload, viewport={"width": 360, "height": 780})
    assert page.locator("#classes td.bad").first.bounding_box()["height"] < 100


def test_cells_can_be_told_apart_in_the_choice(visit):
    page = drawn(visit, payloads.cellular(), viewport={"width": 1600, "height": 900})
    names = page.locator(".chooser li span[title]")
    assert names.first.get_attribute("title").startswith("row 0, column 0")
    assert names.first.evaluate("name => name.scrollWidth <= name.clientWidth")


def test_hostile_names_stay_text(visit):
    page = drawn(visit, payloads.class_parallel())
    assert page.title() == payloads.HOSTILE
    assert page.locator("h1").inner_text() == payloads.HOSTILE
    assert page.locator("main b, main script").count() == 0
    assert page.locator("#samples .row-labels span").nth(1).inner_text() == payloads.HOSTILE
    assert page.locator("#commands pre").inner_text() == payloads.HOSTILE


def test_workers_show_shares_liars_losses_and_swaps(visit):
    page = drawn(visit, payloads.md_gan())
    rows = page.locator("#workers > .wide tbody tr")
    assert "⚠ 5 %, ignored" in rows.nth(1).inner_text()
    assert "90 %" in rows.nth(2).inner_text()
    assert "lost after round 4: rank 3 was lost" in rows.nth(3).inner_text()
    page.locator("#workers summary").click()
    assert "2 → 0" in page.locator("#workers details tbody tr").first.inner_text()
    assert "scatter down 700 kB" in page.locator("#resources").inner_text()


def test_failures_are_on_the_time_line_and_in_words(visit):
    page = drawn(visit, payloads.md_gan())
    text = "after round 4: lost rank 3 (node3) with worker 3"
    assert text in page.locator("#training .chart > .hidden").first.text_content()
    assert "training continued without their members" in page.locator("#failures").inner_text()
    assert "⚠ delayed" in page.locator("#ranks tbody tr").nth(2).inner_text()


def test_commands_are_copied_without_network(visit):
    page = drawn(visit, payloads.payload())
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#commands button").click()
    page.get_by_text("Copied", exact=True).wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "remuda resume runs/a-run"


def test_a_run_without_rounds_says_so(visit):
    payload = payloads.payload(0)
    payload["curves"] |= {"ids": [], "metrics": {}}
    page = drawn(visit, payload | {"last": {"round": 0, "metrics": {}, "means": {}}})
    assert "No samples have been drawn yet." in page.locator("#samples").inner_text()
    assert not page.locator("#training").is_visible()


def test_one_round_and_missing_numbers_are_drawn(visit):
    payload = payloads.payload(1)
    nothing = payloads.pack([float("nan")] * 4)
    payload["curves"]["metrics"] = {"generator_loss": nothing, "server_loss": payloads.pack([1.5])}
    payload["pictures"][0] |= {"src": None, "name": "round-000001.png"}
    page = drawn(visit, payload)
    assert page.locator("#samples .damaged").inner_text() == "round-000001.png is damaged."
    assert page.locator("#training .readout").nth(0).inner_text() == "round 1:"
    assert "value 1.5" in page.locator("#training .readout").nth(1).inner_text()


def test_ticks_of_an_axis_are_exact(visit):
    page = drawn(visit, payloads.payload())

    def ticks(name, *values):
        script = "([name, values]) => Remuda.chartParts.ticks(values, Remuda.FORMATS[name])"
        return page.evaluate(script, [name, values])

    assert ticks("number", 0.1375, 0.14, None, 0.145) == ["0.1375", "0.14", "", "0.145"]
    assert ticks("number", 0.5, 1, 1.5) == ["0.5", "1", "1.5"]
    assert ticks("number", 1.0005, 1.001, 1.0015) == ["1.0005", "1.001", "1.0015"]
    assert ticks("bytes", 1_012_500, 1_015_000) == ["1.0125 MB", "1.015 MB"]
    assert ticks("seconds", 200, 300, 400) == ["3.33 min", "5 min", "6.67 min"]

"""Open pages in the Chromium of the system, and check that they stay on their host."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

SIZE = {"width": 1280, "height": 900}
Visit = Callable[..., Any]  # visit(address or HTML, **context settings) -> Playwright's Page


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Start one browser for all tests of the session."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Visit]:
    """Open pages; at the end, require that none has errors or asked another host."""
    contexts: list[Any] = []
    problems: list[str] = []

    def watch(page: Any, hosts: set[str]) -> None:
        def on_console(message: Any) -> None:
            if message.type in ("error", "warning") and not message.text.startswith(ALLOWED):
                problems.append(message.text)

        def on_request(request: Any) -> None:
            address = urlparse(request.url)
            if address.scheme not in ("data", "file") and address.netloc not in hosts:
                problems.append(f"request to {request.url}")

        page.on("console", on_console)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", on_request)

    def open_page(target: str, suffix: str = "", **settings: Any) -> Any:
        context = browser.new_context(**{"viewport": SIZE, **settings})
        contexts.append(context)
        page = context.new_page()
        if target.startswith("http"):
            watch(page, {urlparse(target).netloc})
        else:
            watch(page, set())
            path = tmp_path / f"page-{len(contexts)}.html"
            path.write_text(target, encoding="utf-8")
            target = path.as_uri()
        page.goto(target + suffix)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not problems


# Chromium reports a server that is gone, which the tests of live pages cause on purpose.
ALLOWED = (
    "Failed to load resource: net::ERR_CONNECTION_",
    "Failed to load resource: net::ERR_SOCKET_NOT_CONNECTED",
)

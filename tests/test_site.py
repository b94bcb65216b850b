"""Build the documentation site as ``make docs`` does, and look into its pages."""

import importlib
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest

import remuda
from remuda.strategies import STRATEGIES
from tests.test_docs import COMMANDS, DOCS, settable

STRICT = ["--quiet", "--fail-on-warning", "--keep-going", "--nitpicky"]


def build(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", *STRICT, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    result = build("--doctree-dir", folder / "trees", DOCS, folder / "html")
    assert result.returncode == 0 and not result.stderr, result.stderr
    return folder / "html"


def text_of(page: Path) -> str:
    """Return the text of a page without marks."""
    return unescape(re.sub(r"<[^>]+>", "", page.read_text()))


def test_pages_load_nothing_from_other_hosts(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page.read_text())
        assert not [mark for mark in loaded if re.search(r'(?:src|href)="(?:https?:)?//', mark)]


def test_the_navigation_has_all_groups_and_pages(site):
    index = (site / "index.html").read_text()
    captions = re.findall(r'class="caption-text">([^<]+)', index)
    assert captions[:3] == ["Getting started", "Tutorials", "Strategies"]
    sources = [*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")]
    names = {str(path.relative_to(DOCS).with_suffix(".html")) for path in sources}
    linked = set(re.findall(r'class="reference internal" href="([^"#]+)"', index))
    assert linked >= names - {"index.html"}


def test_the_references_are_complete(site):
    commands = text_of(site / "reference" / "commands.html")
    for name, command in COMMANDS.items():
        assert f"remuda {name}" in commands
        flags = {flag for one in command.params for flag in one.opts if flag.startswith("--")}
        assert not [flag for flag in flags if flag not in commands]
    settings = text_of(site / "reference" / "settings.html")
    assert not [key for key, _ in settable() if key not in settings]
    python = (site / "reference" / "python.html").read_text()
    assert not [name for name in remuda.__all__ if f'id="remuda.{name}"' not in python]
    packages = (site / "reference" / "packages.html").read_text()
    assert 'id="remuda.strategies.MDGAN"' in packages


def test_notebooks_are_pages_with_pictures(site):
    for path in DOCS.glob("notebooks/*.ipynb"):
        page = (site / "notebooks" / f"{path.stem}.html").read_text()
        assert page.count('<img class="output"') >= 2 and "{container}" not in page


def test_broken_links_are_found(tmp_path):
    """The settings of the site apply to other pages too."""
    broken = {
        "[gone](gone.md)": "gone.md",
        "[gone](other.md#lost)": "lost",
        "[open](http://example.org/page)": "is no https address",
        "![gone](missing.png)": "missing.png",
    }
    text = "\n\n".join(broken)
    (tmp_path / "index.md").write_text(f"# Title\n\n{text}\n\n```{{toctree}}\nother\n```\n")
    (tmp_path / "other.md").write_text("# Other\n\n[back](index.md#title)\n")
    result = build("--conf-dir", DOCS, "--builder", "dummy", tmp_path, tmp_path / "out")
    assert result.returncode == 1
    warnings = [line for line in result.stderr.splitlines() if "WARNING: " in line]
    assert len(warnings) == len(broken)
    for complaint in broken.values():
        assert any(complaint in line for line in warnings), complaint


def test_links_and_titles(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    pages = importlib.import_module("extensions.pages")
    text = pages.convert("[scores.md](scores.md#kinds), [code](../Makefile)", DOCS / "page.md")
    assert text == f"[Scores](scores.md#kinds), [code]({pages.REPOSITORY}/Makefile)"
    block = "```\n[code](../Makefile)\n```\n"
    assert pages.convert(block, DOCS / "page.md") == block


# Diagrams


def diagrams(monkeypatch) -> dict:
    monkeypatch.syspath_prepend(DOCS)
    return importlib.import_module("diagrams").DIAGRAMS


def test_the_diagrams_are_those_of_the_script(monkeypatch):
    drawn = {f"diagram-{name}.svg": draw().svg() for name, draw in diagrams(monkeypatch).items()}
    stored = {path.name: path.read_text() for path in DOCS.glob("pictures/diagram-*.svg")}
    assert stored == drawn, "run python docs/diagrams.py"
    for text in drawn.values():
        names = [node.tag.rpartition("}")[2] for node in ElementTree.fromstring(text)]
        assert names[:2] == ["title", "desc"] and "prefers-color-scheme: dark" in text


@pytest.mark.parametrize("name", [name for name in STRATEGIES.own if not name.endswith("-async")])
def test_the_page_of_a_strategy_opens_with_its_diagram(name):
    opening = (DOCS / "strategies" / f"{name}.md").read_text().partition("```")[0]
    assert re.search(rf"!\[[^\]]{{20,}}\]\(\.\./pictures/diagram-{name}\.svg\)", opening)

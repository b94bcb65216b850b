"""Turn the pages of this folder into pages of the site.

The pages are plain Markdown, so that they can be read on GitHub too. Before Sphinx reads a page,
this extension changes its text:

- The tables of ``index.md`` become the navigation, with one group for each heading.
- Links to files outside of this folder lead to the repository.
- Texts of links that are names of pages become the titles of these pages.
- The text from ``<!-- generated: commands -->`` to ``<!-- end -->`` becomes the reference of all
  commands; ``GENERATED`` lists all such texts.
- Notebooks become Markdown.
"""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from extensions import api, commands, notebooks, settings

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
REPOSITORY = "https://github.com/remuda/remuda/blob/main"
GENERATED: dict[str, Callable[[], str]] = {
    "commands": commands.markdown,
    "settings": settings.markdown,
    "python": api.markdown,
    "packages": api.markdown_of_packages,
}

_FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((\.\./[^)\s]*)\)")
_NAMED_LINK = re.compile(r"\[[\w./-]+\.(?:md|ipynb)\]\(([^)#\s]+\.(?:md|ipynb))(#[^)\s]*)?\)")
_MARK = re.compile(r"^<!-- generated: (\w+) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)]+)\)", re.MULTILINE)


def convert(text: str, path: Path) -> str:
    """Return the text of a page as Sphinx shall read it."""
    if path.suffix == ".ipynb":
        text = notebooks.markdown(text)
    if path == DOCS / "index.md":
        text += navigation(text)
    text = outside_links(text, path.parent)
    text = titled_links(text, path.parent)
    return _MARK.sub(lambda match: GENERATED[match[1]](), text)


def navigation(text: str) -> str:
    """Return hidden tables of contents with the pages in the tables of a text, by heading."""
    groups = []
    for caption, body in _SECTION.findall(text):
        if rows := _ROW.findall(body):
            entries = "\n".join(_entry(title, target) for title, target in rows)
            groups.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n")
    return "\n" + "\n".join(groups)


def _entry(title: str, target: str) -> str:
    if target.startswith(".."):
        return f"{title} <{repository_address(DOCS / target)}>"
    return target.rpartition(".")[0]


def outside_links(text: str, folder: Path) -> str:
    """Let links to files outside of the documentation lead to the repository."""

    def replace(match: re.Match[str]) -> str:
        name, _, anchor = match[1].partition("#")
        path = (folder / name).resolve()
        if path.is_relative_to(DOCS):
            return match[0]
        return f"]({repository_address(path)}{'#' * bool(anchor)}{anchor})"

    parts = _FENCE.split(text)
    parts[::2] = [_LINK.sub(replace, part) for part in parts[::2]]
    return "".join(parts)


def titled_links(text: str, folder: Path) -> str:
    """Show the titles of pages instead of their file names."""

    def replace(match: re.Match[str]) -> str:
        path = folder / match[1]
        return f"[{title(path)}]({match[1]}{match[2] or ''})" if path.exists() else match[0]

    return _NAMED_LINK.sub(replace, text)


@cache
def title(path: Path) -> str:
    """Return the first heading of a page or notebook."""
    text = path.read_text()
    if path.suffix == ".ipynb":
        text = notebooks.markdown(text)
    return text.partition("# ")[2].partition("\n")[0]


def repository_address(path: Path) -> str:
    """Return the address of a file in the repository."""
    return f"{REPOSITORY}/{path.resolve().relative_to(ROOT)}"


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    is_generated = bool(_MARK.search(source[0]))
    source[0] = convert(source[0], Path(app.env.doc2path(name)))
    if is_generated:
        for path in (ROOT / "remuda").rglob("*.py"):
            app.env.note_dependency(str(path))


def _check_addresses(app: Sphinx, document: nodes.document, name: str) -> None:
    """Warn of addresses that cannot be right; the build needs no network."""
    for node in document.findall(nodes.reference):
        address = str(node.get("refuri", ""))
        if ":" in address and not is_web_address(address):
            logger = logging.getLogger(__name__)
            logger.warning("%s is no https address", address, location=node, type="address")


def is_web_address(address: str) -> bool:
    """Return whether an address has the form of one that readers can open safely."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    return parts.scheme == "https" and "." in host and not re.search(r"\s|\.\.", address)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", _read)
    app.connect("doctree-resolved", _check_addresses)
    app.connect("autodoc-process-docstring", api.fix_docstring)
    app.connect("autodoc-process-signature", api.shorten_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Write Markdown and YAML in which names from outside stay plain text.

Names of classes and data sets come from files and folders, so they may contain anything: Markdown,
HTML, line breaks, or the end of the front matter.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

LONGEST = 60  # characters of a name from outside
# Some pages turn addresses into links even if their punctuation is escaped. An invisible character
# inside of http://..., www... and ...@... prevents this.
JOINER = "\u2060"
_ADDRESS = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)|(?<=@)", re.IGNORECASE)
# Characters that Markdown, HTML, tables, formulas, links, mentions or emoji begin with.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#|~!&$@:])")
_FIRST = re.compile(r"^(\d+(?=\.( |$)))?([-+=.])")  # may begin a list or underline a heading


def plain(value: object, longest: int = LONGEST) -> str:
    """Return a value as Markdown that shows exactly its characters, on one line."""
    text = "".join(char if char.isprintable() else " " for char in str(value))
    text = " ".join(text.split())
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    text = _ADDRESS.sub(JOINER, text)
    return _FIRST.sub(r"\1\\\3", _SPECIAL.sub(r"\\\1", text))


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def fenced(text: str, language: str) -> str:
    """Return a block of code, with a fence that is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.strip()}\n{fence}"


def front_matter(values: dict[str, Any], comments: Sequence[str] = ()) -> str:
    """Return a YAML header of one line per key."""
    lines = [f"{key}: {_yaml(value)}" for key, value in values.items()]
    return "\n".join(["---", *lines, *(f"# {comment}" for comment in comments), "---"])


def _yaml(value: Any) -> str:
    """Return a value in YAML's flow style, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_yaml(key)}: {_yaml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    if isinstance(value, bool | int):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    return '"' + "".join(map(_yaml_char, str(value))) + '"'


def _yaml_char(char: str) -> str:
    """Escape everything that could end a string in quotes, or that YAML forbids."""
    if char in '"\\' or not " " <= char <= "~":
        # Lone surrogates stand for bytes of a file name that are no text; YAML forbids them.
        number = 0xFFFD if 0xD800 <= ord(char) <= 0xDFFF else ord(char)
        return f"\\U{number:08X}"
    return char

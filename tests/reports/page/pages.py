"""Parse pages."""

import re
from html.parser import HTMLParser
from pathlib import Path

from remuda.reports import page as report

VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """A page's tags, attributes and visible text; asserts that tags are closed in order."""

    def __init__(self, path: Path):
        super().__init__()
        self.tags, self.attributes, self.open, self.pieces = [], [], [], []
        self.feed(path.read_text(encoding="utf-8"))
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append(dict(attrs))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.pieces.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.pieces))

    def images(self):
        return [a for tag, a in zip(self.tags, self.attributes, strict=False) if tag == "img"]


def page_of(folder) -> Page:
    path = report.write(folder)
    assert path == folder / "index.html"
    assert not (folder / ".index.html.new").exists()
    page = Page(path)
    assert not re.search(r"\bnan\b", path.read_text(encoding="utf-8"), re.IGNORECASE)
    return page

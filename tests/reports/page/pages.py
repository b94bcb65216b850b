"""Read payloads, and the payload of a written page."""

import base64
import json
import re
import struct
from datetime import UTC, datetime
from pathlib import Path

from remuda.reports import page as report
from remuda.reports.page.payload import payload
from remuda.reports.page.run import read

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def source(path: Path) -> dict:
    return {"src": path.name, "width": 1, "height": 1}


def payload_of(folder: Path, start: int = 0) -> dict:
    """Return the payload of a folder, as a page receives it."""
    found = payload(read(folder), source, start, NOW)
    return json.loads(json.dumps(found, allow_nan=False))


def decode(text: str) -> list[float]:
    content = base64.b64decode(text)
    return list(struct.unpack(f"<{len(content) // 4}f", content))


def facts_of(folder: Path) -> dict[str, str]:
    return dict(payload_of(folder)["facts"])


def written_payload(folder: Path) -> dict:
    """Write the page of a run, and return the payload in it."""
    path = report.write(folder)
    assert path == folder / "index.html"
    assert not (folder / ".index.html.new").exists()
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', text, re.S)
    assert found is not None
    return json.loads(found[1])

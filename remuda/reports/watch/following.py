"""Follow a run for all clients together: read what changed at most once a second."""

import gzip
import hashlib
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from remuda.reports.page import html
from remuda.reports.page.payload import payload
from remuda.reports.page.pictures import png_size
from remuda.reports.page.run import Run, explained
from remuda.reports.tail import leads_into, stamp_of

INTERVAL = 1.0  # seconds between two looks at the files of a run
POLL = 2000  # milliseconds between two requests of a page
MAX_ANSWERS = 64  # kept for one state of a run; clients ask from different points
SMALL = 1000  # bytes that are not worth compressing


class Answer(NamedTuple):
    """What the server sends: a JSON or HTML text, as it is and compressed, and its tag."""

    plain: bytes
    packed: bytes | None
    tag: str
    is_page: bool


def encode(content: dict[str, Any] | str, name: str) -> Answer:
    """Return an answer with a page (text) or data (a dict)."""
    is_page = isinstance(content, str)
    if isinstance(content, str):
        plain = content.encode("utf-8", "backslashreplace")
    else:
        text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        plain = text.encode()
    packed = gzip.compress(plain, 5, mtime=0) if len(plain) > SMALL else None
    digest = hashlib.sha256(name.encode() + plain).hexdigest()[:24]
    return Answer(plain, packed, f'"{digest}"', is_page)


class Kept:
    """Answers that are made again at most once per ``interval`` seconds."""

    def __init__(self, interval: float):
        self.interval = interval
        self._time = -interval
        self._payload: dict[str, Any] = {}
        self._answers: dict[str, Answer] = {}

    def get(
        self,
        kind: str,
        make: Callable[[], dict[str, Any]],
        document: Callable[..., str],
        live: dict[str, Any],
    ) -> Answer:
        """Return the page or the data; ``make`` returns the data, ``document`` the page."""
        if time.monotonic() - self._time >= self.interval:
            found = make()
            if found != self._payload:
                self._payload = found
                self._answers.clear()
            self._time = time.monotonic()
        if kind not in self._answers:
            content = self._payload
            if kind == "page":
                content = document(content, {"interval": POLL, **live})
            self._answers[kind] = encode(content, "")
        return self._answers[kind]


class Followed:
    """A run that clients look at. ``name`` differs between servers.

    Pictures outside ``root``, to which links in the run's folder may lead, are left out.
    """

    def __init__(self, folder: Path, name: str, root: Path):
        self.folder, self.name, self.root = folder, name, root
        self._lock = threading.Lock()
        self._run: Run | None = None
        self._time = -INTERVAL
        self._state: Any = None
        self._pictures: dict[Path, dict[str, Any]] = {}
        self._start = -1  # of the curves; changes if the run was resumed
        self._answers: dict[tuple[str, int], Answer] = {}

    def page(self) -> Answer:
        """Return the page of the run."""
        return self._answer("page", "", 0)

    def data(self, generation: str, start: int) -> Answer:
        """Return the payload; if the generation is still valid, from a point on."""
        return self._answer("data", generation, start)

    def fresh(self, generation: str, start: int) -> Answer | None:
        """Return the same, but only if it is known without any work."""
        run = self._run
        if run is None or time.monotonic() - self._time >= INTERVAL:
            return None
        return self._answers.get(("data", _start(run, generation, start)))

    def _answer(self, kind: str, generation: str, start: int) -> Answer:
        with explained(self.folder):
            return self._make(kind, generation, start)

    def _make(self, kind: str, generation: str, start: int) -> Answer:
        with self._lock:
            run = self._refresh()
            key = kind, _start(run, generation, start)
            if key not in self._answers:
                found = payload(run, self._source, key[1])
                if kind == "page":
                    found = html.run_document(found, {"url": "data", "interval": POLL})
                while len(self._answers) >= MAX_ANSWERS:
                    del self._answers[next(iter(self._answers))]
                self._answers[key] = encode(found, self.name)
            return self._answers[key]

    def _refresh(self) -> Run:
        """Read what changed, at most once a second; forget old answers if anything did."""
        now = time.monotonic()
        if self._run is not None and now - self._time < INTERVAL:
            return self._run
        if self._run is None:
            self._run, changed = Run(self.folder, f"{self.name}."), True
        else:
            try:
                changed = self._run.refresh()
            except Exception:
                self._run = None  # read everything again when the files are intact
                raise
        state = self._run.state()  # a killed run changes its state without writing anything
        if changed or state != self._state:
            self._state = state
            self._answers.clear()
        if self._run.rounds.curves.start != self._start:
            self._start = self._run.rounds.curves.start
            self._pictures.clear()
        self._time = time.monotonic()
        return self._run

    def _source(self, path: Path) -> dict[str, Any] | None:
        """Return the address of a picture, from the address of the page.

        The address contains the time of the file, because a resumed run draws pictures again.
        """
        if path not in self._pictures:
            size = png_size(path) if leads_into(self.root, path) else None
            stamp = stamp_of(path) if size else None
            if size is None or stamp is None:
                return None
            src = f"{path.relative_to(self.folder).as_posix()}?v={stamp[0] // 1_000_000}"
            self._pictures[path] = {"src": src, "width": size[0], "height": size[1]}
        return self._pictures[path]


def _start(run: Run, generation: str, start: int) -> int:
    curves = run.rounds.curves
    return min(start, curves.length) if generation == curves.generation else 0

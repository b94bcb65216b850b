"""Find runs in a folder. No part of a request ever becomes part of a path."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

from remuda.errors import UserError
from remuda.reports import index
from remuda.reports.page.pictures import PNG, png_size
from remuda.reports.page.run import WATCHED
from remuda.reports.tail import leads_into
from remuda.reports.watch.following import Answer, Followed, Kept, encode

PICTURE = re.compile(r"samples/(?:cells/)?round-\d{6,12}\.png")
MAX_PICTURE = 64 << 20  # bytes
MAX_FOLLOWED = 32  # runs that are kept in memory
INDEX_INTERVAL = 1.0  # seconds between two looks at a folder
COMPARISONS = "remuda.reports.compare.live"  # imports PyTorch, which is slow


class NotFound(LookupError):
    """Report that an address does not exist."""


class Library:
    """The runs below a folder, or one run. ``name`` differs between servers.

    Make it before the priority of the process is lowered: on Linux, the thread that imports then
    keeps the priority it has now. With the lowest one, beside runs on all cores, importing PyTorch
    takes longer than a request may take.
    """

    def __init__(self, folder: Path, name: str):
        self._importer = ThreadPoolExecutor(1)
        self._importer.submit(int)  # starts its thread
        self.folder, self.name = folder, name
        self.root = folder.resolve()
        self.is_run = (folder / "config.toml").is_file()
        self._followed: dict[str, Followed] = {}
        self._lock = threading.Lock()  # of the runs that are followed
        self._slow = threading.Lock()  # of the caches of the index and of comparisons
        self._cache = index.Cache()
        self._comparisons: Any = None
        self._index = Kept(INDEX_INTERVAL)

    # Runs

    def run(self, name: str) -> Followed:
        """Return the run with this name, the path from the folder; "" is the folder itself."""
        path = self._path(name)
        with self._lock:
            found = self._followed.pop(name, None) or Followed(path, self.name, self.root)
            self._followed[name] = found  # the last one is the newest
            while len(self._followed) > MAX_FOLLOWED:
                del self._followed[next(iter(self._followed))]
            return found

    def fresh(self, name: str, generation: str, start: int) -> Answer | None:
        """Return the data of a run, but only if they are known without any work."""
        run = self._followed.get(name)
        return None if run is None else run.fresh(generation, start)

    def _path(self, name: str) -> Path:
        """Return the path of a run; raise unless the run was found in the folder."""
        if self.is_run:
            found = {"": self.folder}
        else:
            known = self._followed.get(name)
            paths = [known.folder] if known else index.find(self.folder)
            found = {path.relative_to(self.folder).as_posix(): path for path in paths}
        path = found.get(name)
        if path is None or not index.is_run(path) or not self.is_inside(path):
            raise NotFound(name)
        return path

    def is_inside(self, run: Path) -> bool:
        """Return whether a run and all its files are in the folder; links may lead elsewhere."""
        links = (path for name in WATCHED if _is_link(path := run / name))
        return all(leads_into(self.root, path) for path in (run, *links))

    def picture(self, run: Followed, name: str) -> bytes:
        """Return a PNG of a run, such as ``samples/round-000010.png``."""
        if not PICTURE.fullmatch(name):
            raise NotFound(name)
        path = run.folder / name
        if not leads_into(self.root, path):
            raise NotFound(name)
        try:
            size = path.stat().st_size if path.is_file() else 0  # a pipe would block
            content = path.read_bytes() if 0 < size <= MAX_PICTURE else b""
        except OSError:
            raise NotFound(name) from None
        if not content.startswith(PNG):
            raise NotFound(name)
        return content

    # The index, and comparisons

    def index(self, kind: str) -> Answer:
        """Return the index of all runs: ``page`` or ``data``."""
        with self._slow:
            return self._index.get(kind, self._index_payload, index.document, {"url": "data"})

    def _index_payload(self) -> dict[str, Any]:
        found = index.payload(self.folder, self._cache, self._address)
        if not found["runs"] and index.is_run(self.folder):  # it was empty when the server started
            self.is_run = True
            raise UserError(f"{self.folder} has become a run: load the page again")
        inside = [one for one in found["runs"] if self.is_inside(self.folder / one["id"])]
        return {**found, "runs": inside}

    def _address(self, picture: Path) -> str:
        """Return the address of a picture of a run, from the address of the index."""
        return "run/" + quote(picture.relative_to(self.folder).as_posix())

    def comparison(self, names: list[str], kind: str) -> Answer:
        """Return the comparison of several runs: ``page`` or ``data``."""
        if not names:
            raise UserError("no runs to compare: choose some on the index")
        folders = [self._path(name) for name in names]
        comparisons = self._importer.submit(import_module, COMPARISONS).result()
        with self._slow:
            if self._comparisons is None:
                self._comparisons = comparisons.Cache()
            found = comparisons.payload(folders, self._source, self._comparisons)
            if kind == "data":
                return encode(found, self.name)
            query = "&".join(f"run={quote(name, safe='')}" for name in names)
            live = {"url": f"compare/data?{query}", "interval": 2000}
            return encode(comparisons.document(found, live), self.name)

    def _source(self, picture: Path) -> dict[str, Any] | None:
        size = png_size(picture) if leads_into(self.root, picture) else None
        if size is None:
            return None
        return {"src": self._address(picture), "width": size[0], "height": size[1]}


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except OSError:  # in a folder of another user
        return False

"""Compare runs again and again while they train, for a page on a server."""

from collections import OrderedDict
from pathlib import Path
from typing import Any

from remuda.reports.compare import compare_runs
from remuda.reports.compare.curves import Curves
from remuda.reports.compare.page import Source, build, document, evenly_chosen
from remuda.reports.compare.runs import expand, read
from remuda.reports.tail import stamp_of

__all__ = ["Cache", "document", "payload"]

FILES = ("config.toml", "data.json", "environment.json", "rounds.jsonl", "scores.jsonl", "samples")
MAX_PAYLOADS = 8  # comparisons that are kept

Key = tuple[tuple[Path, tuple[object, ...]], ...]


class Cache:
    """What is known about runs, so that a comparison reads only what changed."""

    def __init__(self) -> None:
        self._curves: dict[Path, Curves] = {}
        self._payloads: OrderedDict[Key, dict[str, Any]] = OrderedDict()

    def payload(self, folders: list[Path], source: Source) -> dict[str, Any]:
        """Return the payload of a comparison; if nothing changed, the last one."""
        paths = expand(folders)
        key = tuple((path, tuple(stamp_of(path / name) for name in FILES)) for path in paths)
        if key not in self._payloads:
            self._payloads[key] = self._build(paths, source)
            while len(self._payloads) > MAX_PAYLOADS:
                self._payloads.popitem(last=False)
        self._payloads.move_to_end(key)
        return self._payloads[key]

    def _build(self, paths: list[Path], source: Source) -> dict[str, Any]:
        curves = [self._curves.setdefault(path, Curves(path)) for path in paths]
        pairs = zip(paths, curves, strict=True)
        found = compare_runs([read(path, curves=known) for path, known in pairs])
        grids = evenly_chosen(found.groups)
        return build(found.groups, found.columns, found.notes, grids, source)


def payload(folders: list[Path], source: Source, cache: Cache | None = None) -> dict[str, Any]:
    """Return everything that the page of a comparison shows.

    ``source`` returns {src, width, height} of a picture, or None if it is damaged.
    """
    return (cache or Cache()).payload(folders, source)

"""Start every test with an empty cache and without the user's settings."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from remuda.data.files import locate
from remuda.data.sources import SOURCES

_REAL = os.environ.get("REMUDA_DATA", "")


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("REMUDA_DATA", raising=False)
    monkeypatch.delenv("REMUDA_MIRROR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def real_path() -> Callable[[str], str]:
    """Return a function that finds the folder of a real data set, or skips the test without one."""

    def find(name: str) -> str:
        if not _REAL:
            pytest.skip("REMUDA_DATA is not set, so there are no real data sets to test with")
        if not all(locate(SOURCES[name], split, [Path(_REAL)]) for split in ("train", "test")):
            pytest.skip(f"REMUDA_DATA has no {name}")
        return _REAL

    return find

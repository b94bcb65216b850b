"""A folder of runs, and a server for it."""

import pytest

from tests.reports.page.records import add_grid, make_record

from .serving import serving


@pytest.fixture
def runs(tmp_path):
    """Make two runs, one of them deeper; and secrets next to them, to which links lead."""
    folder = tmp_path / "runs"
    add_grid(make_record(folder / "one"), 4)
    make_record(folder / "many" / "seed <0>", strategy="fl-gan")
    (tmp_path / "secret.txt").write_text("SECRET")
    make_record(tmp_path / "outside")
    add_grid(tmp_path / "outside", 1)
    return folder


@pytest.fixture
def client(runs):
    with serving(runs) as found:
        yield found

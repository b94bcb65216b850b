"""Training in one process gives what it gave before; on ranks see tests/mpi/test_golden.py."""

import pytest

from tests.golden.cases import CASES, GROUPS, LAYOUTS, ON_RANKS, RANKS, golden, run_stacked
from tests.golden.compare import assert_golden


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_what_training_gives(case, layout, tmp_path):
    """Train a case and compare it with its golden file."""
    assert_golden(case, layout, run_stacked(case, layout, tmp_path / "run"))


@pytest.mark.parametrize("strategy", GROUPS)
def test_files_have_the_cases_and_no_others(strategy):
    """Read a golden file without training."""
    expected = {case for case in CASES if case.split("/")[0] == strategy}
    kept = golden(strategy)
    assert set(kept) == expected
    for case in expected:
        assert set(kept[case]) == {*LAYOUTS, *([RANKS] if case in ON_RANKS else [])}

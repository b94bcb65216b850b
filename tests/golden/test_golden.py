"""Check that training in one process gives the golden results; tests/mpi checks ranks."""

import pytest

from tests.golden.cases import CASES, GROUPS, LAYOUTS, ON_RANKS, RANKS, golden, run_stacked
from tests.golden.compare import assert_golden


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_results_equal_the_golden_file(case, layout, tmp_path, empty_pages):
    assert_golden(case, layout, run_stacked(case, layout, tmp_path / "run"))


@pytest.mark.parametrize("strategy", GROUPS)
def test_golden_files_hold_exactly_the_cases(strategy):
    expected = {case for case in CASES if case.split("/")[0] == strategy}
    kept = golden(strategy)
    assert set(kept) == expected
    for case in expected:
        assert set(kept[case]) == {*LAYOUTS, *([RANKS] if case in ON_RANKS else [])}

"""Results on ranks equal those of ``stacked``. One job per number of ranks; see cases.py."""

import pytest

from tests.mpi.starting import on_ranks

LONG = [pytest.param(num_ranks, marks=pytest.mark.soak) for num_ranks in (1, 5)]


@pytest.mark.parametrize("num_ranks", [2, 3, *LONG])
def test_all_verbs_and_strategies_equal_stacked(num_ranks):
    result = on_ranks(num_ranks, "tests.mpi.cases")
    assert result.returncode == 0, result.stderr[-3000:]
    assert f"all checks passed on {num_ranks} ranks" in result.stdout

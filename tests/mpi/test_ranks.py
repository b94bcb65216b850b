"""Results on ranks are those of ``stacked``; one job for each number of ranks, see cases.py."""

import pytest

from tests.mpi.starting import on_ranks


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5])
def test_every_verb_and_strategy(num_ranks):
    result = on_ranks(num_ranks, "tests.mpi.cases")
    assert result.returncode == 0, result.stderr[-3000:]
    assert f"all is well on {num_ranks} ranks" in result.stdout

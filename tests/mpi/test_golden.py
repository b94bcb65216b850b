"""Training on two ranks gives the same results as before; see tests/golden for the cases."""

import pytest

from tests.golden.cases import ON_RANKS, RANKS, has_ranks, summary
from tests.golden.compare import assert_golden

if not has_ranks():
    pytest.skip("ranks need mpi4py and mpirun", allow_module_level=True)

from tests.mpi.starting import on_ranks


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Run all cases in one job, since a job takes longer to start than a case to train."""
    folder = tmp_path_factory.mktemp("golden")
    return folder, on_ranks(2, "tests.golden.ranks", folder, *ON_RANKS)


@pytest.mark.parametrize("case", ON_RANKS)
def test_results_on_ranks_equal_the_golden_file(case, job):
    folder, result = job
    assert list((folder / case).rglob("*.safetensors")), result.stderr
    assert_golden(case, RANKS, summary(folder / case))


def test_the_job_succeeds(job):
    assert job[1].returncode == 0, job[1].stderr

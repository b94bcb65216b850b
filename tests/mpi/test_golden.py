"""Training on two ranks gives what it gave before; golden files and cases are in tests/golden."""

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
def test_what_training_gives_on_ranks(case, job):
    """Compare a case that two ranks have trained with its golden file."""
    folder, result = job
    assert list((folder / case).rglob("*.safetensors")), result.stderr
    assert_golden(case, RANKS, summary(folder / case))


def test_the_job_ends_well(job):
    """Fail if ranks have said anything on their way."""
    assert job[1].returncode == 0, job[1].stderr

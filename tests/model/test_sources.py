"""Find the images of all sites of a run."""

from dataclasses import replace

import pytest

from remuda.config import from_dict
from remuda.engines import SingleProcess
from remuda.errors import UserError
from remuda.model.sources import data_rank


@pytest.mark.parametrize(("ranks", "names"), [((1, 3), "ranks 1, 3"), ((1,), "rank 1")])
def test_a_wrong_number_of_ranks_has_a_remedy_for_every_command(ranks, names):
    run = from_dict({"data": {"name": "folder:sites/{rank}"}, "strategy": {"name": "fl-gan"}})
    run = replace(run, data=replace(run.data, ranks=ranks))
    job = SingleProcess()
    job.num_ranks = 4
    with pytest.raises(UserError) as error:
        data_rank(run, job)
    assert str(error.value) == (
        f"the data of this run belong to {names}, but this job has 4 ranks: use --ranks "
        f"{len(ranks)}, or resume the run with --members to divide the data again"
    )

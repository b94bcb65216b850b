"""Means of members on several ranks, and the bytes that they cost."""

import pytest
import torch

from remuda.engines import Metered, MPIEngine, Stacked
from tests.contract.threads import run_ranks

SPANS = [range(0, 2), range(2, 3), range(3, 6)]
# The families 0, 4 and 1, 2 live on two ranks each, the family 3, 5 on one.
FAMILIES = torch.eye(6)
for a, b in ((0, 4), (1, 2), (3, 5)):
    FAMILIES[a, b] = FAMILIES[b, a] = 1
WEIGHTS = {
    "everyone": (torch.ones(6), 1),
    "one sender": (torch.eye(6)[4], 1),
    "families": (FAMILIES, 2),
    "nobody": (torch.eye(6), 0),
    "one family": (torch.ones(6, 6), 1),
    "on one rank": (torch.block_diag(torch.ones(2, 2), torch.ones(1, 1), torch.ones(3, 3)), 0),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", WEIGHTS)
def test_only_means_of_several_ranks_travel(name, dtype):
    weights, num_kinds = WEIGHTS[name]
    rows = {"a": torch.randn(6, 2, 3), "b": torch.randn(6), "steps": torch.arange(6)}

    def work(communicator):
        engine = MPIEngine(communicator, 6, hosted=SPANS)
        mine = {key: leaf[list(engine.members)] for key, leaf in rows.items()}
        return engine.mean(mine, weights, dtype), engine.sent["mean"]

    results, _ = run_ranks(3, work)
    expected = Stacked(6).mean(rows, weights, dtype)
    for key, leaf in expected.items():
        assert torch.allclose(torch.cat([means[key] for means, _ in results]), leaf, atol=1e-6)
    assert [sent for _, sent in results] == [num_kinds * 7 * dtype.itemsize] * 3


def test_members_without_a_family_send_nothing():
    engine = Metered(Stacked(6))
    weights = torch.eye(6)
    weights[0, 4] = weights[4, 0] = 1
    engine.mean(torch.ones(6, 5), weights, torch.float32)
    assert engine.bytes == {("mean", "up"): 2 * 20, ("mean", "down"): 2 * 20}

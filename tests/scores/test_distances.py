import pytest
import torch

from remuda.scores import distances
from remuda.scores.distances import blocks, blocks_of_pairs

from .samples import DEVICES, normal


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("block", [1, 50, 1 << 24])
def test_differences_agree(device, block, monkeypatch):
    monkeypatch.setattr(distances, "_BLOCK", block)
    x, y = normal(23, 5, 0, shift=100).to(device), normal(17, 5, 1, shift=100).to(device)
    expected = (x.double()[:, None] - y.double()).square().sum(2)
    places, found = zip(*blocks(x, y), strict=True)
    assert torch.allclose(torch.cat(found), expected, rtol=1e-9)
    assert [i for place in places for i in range(23)[place]] == list(range(23))
    pairs = torch.cat([block for _, block in blocks_of_pairs(x, own=-1.0)])
    assert (pairs.diagonal() == -1).all() and (pairs >= 0).sum() == 23 * 22

"""Random layers with keys have PyTorch's distributions, and draw new numbers in every call."""

import pytest
import torch
from torch import nn

from remuda.networks import RandomStream
from remuda.networks.streams import KeyedDropout, with_keys

ONES = torch.ones(50, 40, 6, 6)


def keyed(layer, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return with_keys(layer)


@pytest.mark.parametrize("p", [0.0, 0.1, 0.3, 0.5, 1.0])
def test_dropout(p):
    layer = keyed(nn.Dropout(p))
    first, second = layer(ONES), layer(ONES)
    assert first.eq(0).float().mean() == pytest.approx(p, abs=0.01)
    kept = first[first != 0]
    assert torch.allclose(kept, torch.full_like(kept, 1 / (1 - p) if p < 1 else 0.0))
    assert torch.equal(first, second) == (p in (0.0, 1.0)), "every call draws new masks"


@pytest.mark.parametrize("kind", [nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout])
def test_whole_channels(kind):
    x = ONES[..., None] if kind is nn.Dropout3d else ONES
    outputs = keyed(kind(0.25))(x).flatten(2)
    assert torch.equal(outputs.amin(2), outputs.amax(2))
    assert outputs[..., 0].unique().numel() == 2
    dropped = (outputs[..., 0] == outputs.min()).float().mean()
    assert dropped == pytest.approx(0.25, abs=0.04)


def test_dropout_of_sequences():
    outputs = keyed(nn.Dropout1d(0.25))(ONES.flatten(2))
    assert torch.equal(outputs.amin(2), outputs.amax(2)) and outputs.eq(0).any()


@pytest.mark.parametrize("kind", [nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_alpha_dropout_keeps_mean_and_variance(kind):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 50, 2, generator=generator)
    outputs = keyed(kind(0.3))(x)
    assert outputs.mean().abs() < 0.02 and outputs.var() == pytest.approx(1, abs=0.03)
    with torch.random.fork_rng(devices=[]):
        theirs = kind(0.3)(ONES).unique()
    assert torch.allclose(keyed(kind(0.3))(ONES).unique(), theirs), "kept and dropped ones"
    assert not keyed(kind(1.0))(x).any()


def test_rrelu():
    layer = keyed(nn.RReLU(0.1, 0.5))
    slopes = layer(-ONES).neg()
    assert slopes.min() >= 0.1 and slopes.max() < 0.5
    assert slopes.mean() == pytest.approx(0.3, abs=0.005) and torch.equal(layer(ONES), ONES)
    assert torch.allclose(layer.eval()(-ONES), nn.RReLU(0.1, 0.5).eval()(-ONES))


def test_evaluation_mode_draws_nothing():
    for layer in (nn.Dropout(0.5), nn.AlphaDropout(0.5), nn.Dropout2d(0.5)):
        assert torch.equal(keyed(layer.eval())(ONES), ONES)


def test_what_is_replaced():
    class Own(nn.Dropout):
        """A subclass may compute something else."""

    shared = nn.Dropout(0.1)
    network = keyed(nn.Sequential(shared, nn.Sequential(shared, nn.Tanh()), Own(0.1)))
    assert isinstance(network[0], KeyedDropout) and network[0] is network[1][0]
    assert isinstance(network[2], Own)
    assert [name for name, _ in network.named_buffers()] == ["0.stream.key"]
    plain = nn.Sequential(nn.Linear(2, 3))
    assert with_keys(plain) is plain


def test_a_stream_depends_only_on_its_key():
    stream = keyed(nn.ModuleList([RandomStream()]))[0]
    start = stream.key.clone()
    draws = [stream.normal(2, 3), stream.uniform(4), stream.normal(2, 3)]
    assert not torch.equal(draws[0], draws[2])
    stream.key.copy_(start)
    assert torch.equal(draws[0], stream.normal(2, 3)) and torch.equal(draws[1], stream.uniform(4))
    assert stream.key.dtype == torch.int64

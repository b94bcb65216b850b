"""Networks that break the contract are refused in one sentence, before a run starts."""

import functools
import random as python_random

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from remuda.engines import Stacked
from remuda.errors import UserError
from remuda.gan import LOSSES
from remuda.networks import RandomStream, wrap
from remuda.networks.base import Networks
from remuda.strategies import STRATEGIES
from remuda.tensors import trees
from tests.contract.cases import Small

SHAPE = (1, 8, 8)


class Generator(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.layer = nn.Linear(latent, 64)

    def forward(self, noise):
        return torch.tanh(self.layer(noise)).reshape(-1, *SHAPE)


def with_layer(build):
    """Return a family whose discriminator has this layer for feature maps (b, 4, 8, 8)."""

    class Discriminator(nn.Module):
        def __init__(self):
            super().__init__()
            self.input = nn.Conv2d(1, 4, 3, padding=1)
            self.body = nn.Sequential(nn.LeakyReLU(), build())
            self.output = nn.Linear(256, 1)

        def forward(self, images):
            return self.output(self.body(self.input(images)).flatten(1))

    return wrap(Generator, Discriminator, latent=6)


def computing(function):
    """Return a layer that computes this function."""

    class Layer(nn.Module):
        def forward(self, x):
            return function(x)

    return Layer


class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.random = RandomStream()

    def forward(self, x):
        return x + 0.1 * self.random.normal(*x.shape) if self.training else x


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        return x * (1 + 1 / self.count)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = self.second = nn.Conv2d(4, 4, 1)
        self.unused = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return self.second(self.first(x))


class Rows(nn.Module):
    """Read feature maps as sequences."""

    def __init__(self, kind):
        super().__init__()
        self.layer = kind(8, 8, batch_first=True)

    def forward(self, x):
        return self.layer(x.flatten(1, 2))[0].reshape(x.shape)


class Attention(nn.MultiheadAttention):
    def __init__(self, size, _, batch_first, dropout):
        super().__init__(size, 2, dropout=dropout, batch_first=batch_first)
        self.__class__ = nn.MultiheadAttention
        self.forward = lambda x: nn.MultiheadAttention.forward(self, x, x, x)


class Transformer(nn.Module):
    """Call PyTorch's fused attention, which could draw random numbers."""

    def __init__(self, size, hidden, batch_first):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(size, 2, hidden, 0.0, batch_first=batch_first)

    def forward(self, x):
        return (self.layer(x),)


class Trial(Small):
    """Three pairs with own networks on toy data."""

    def __init__(self, data, layout, family):
        super().__init__(data, "class-parallel", f"stacked-{layout}", "mlp")
        self.context = self.strategy.prepare(family(), data.shape, 3, seed=3)


WORKING = {
    "dropout": lambda: nn.Dropout(0.3),
    "dropout2d": lambda: nn.Dropout2d(0.3),
    "alpha": lambda: nn.AlphaDropout(0.2),
    "feature-alpha": lambda: nn.FeatureAlphaDropout(0.2),
    "rrelu": nn.RReLU,
    "stream": Noise,
    "batch-norm": lambda: nn.BatchNorm2d(4),
    "batch-norm-1d": lambda: nn.Sequential(nn.Flatten(2), nn.BatchNorm1d(4)),
    "instance-norm": lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
    "group-norm": lambda: nn.GroupNorm(2, 4),
    "layer-norm": lambda: nn.LayerNorm([4, 8, 8]),
    "orthogonal": lambda: parametrizations.orthogonal(nn.Conv2d(4, 4, 1)),
    "counting": Counting,
    "shared": Shared,
    "gru": lambda: Rows(nn.GRU),
    "lstm": lambda: Rows(nn.LSTM),
    "attention": lambda: Rows(functools.partial(Attention, dropout=0.0)),
    "transformer": lambda: Rows(Transformer),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("layer", WORKING)
def test_layers_that_work(toy_data, layer):
    """Two runs are equal, both layouts agree to rounding, and a resume is exact."""
    family, states = with_layer(WORKING[layer]), []
    for layout in ("loop", "vmap"):
        trial, again = (Trial(toy_data, layout, family) for _ in range(2))
        half, _ = trial.train(2)
        assert trees.equal(half, again.train(2)[0])
        saved = {name: leaf.clone() for name, leaf in trees.named_leaves(half)}
        whole, _ = trial.train(1, half, start=2)
        assert trees.equal(whole, again.train(1, trees.fill(again.start(), saved), start=2)[0])
        states.append(whole)
    for (name, a), (_, b) in zip(*map(trees.named_leaves, states), strict=True):
        # A bias before a normalisation, and that of keys in attention, have gradients that are only
        # rounding.
        atol = 5e-3 if "input.bias" in name or "in_proj_bias" in name else 1e-5
        assert torch.allclose(a.double(), b.double(), atol=atol, rtol=1e-4), name


def test_members_have_their_own_masks(toy_data):
    trial = Trial(toy_data, "loop", with_layer(WORKING["dropout"]))
    state, _ = trial.train(1)
    (key,) = [leaf for name, leaf in state.discriminator.buffers.items() if name.endswith("key")]
    before = trial.start().discriminator.buffers["network.body.1.stream.key"]
    assert len(key.unique()) == len(key) == 3 and not (key == before).any()


class Attribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = [torch.ones(1)]

    def forward(self, x):
        return x * self.scale[0]


class Attempts(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        self.count += 1
        return x


class Replacing(Counting):
    def forward(self, x):
        self.count = self.count + 1
        return x


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(self.first(x))


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1, dtype=torch.complex64))

    def forward(self, x):
        return (x * self.scale).abs()


def old_weight_norm():
    with pytest.warns(FutureWarning, match="deprecated"):
        return nn.utils.weight_norm(nn.Conv2d(4, 4, 1))


REFUSED = {
    "lazy": (lambda: nn.LazyConv2d(4, 1), r"is a LazyConv2d.*write nn\.Conv2d"),
    "spectral": (
        lambda: parametrizations.spectral_norm(nn.Conv2d(4, 4, 1)),
        r"spectral_norm.*strategy\.lipschitz=spectral",
    ),
    "old-spectral": (
        lambda: nn.utils.spectral_norm(nn.Conv2d(4, 4, 1)),
        r"spectral_norm.*strategy\.lipschitz=spectral",
    ),
    "old-weight-norm": (old_weight_norm, r"use torch\.nn\.utils\.parametrizations\.weight_norm"),
    "attribute": (Attribute, r'a tensor in its attribute scale.*register_buffer\("scale", tensor'),
    "attempts": (Attempts, "changes its attribute count in forward"),
    "replacing": (Replacing, r"replaces its buffer count.*self\.count\.copy_\(value\)"),
    "tied": (Tied, r"\.second\.weight is the same tensor as discriminator\.body\.1\.first\.weight"),
    "frozen": (
        lambda: nn.Conv2d(4, 4, 1).requires_grad_(False),
        r"1\.weight is a parameter that needs no gradient.*register_buffer\(\"weight\"",
    ),
    "complex": (Complex, r"1\.scale is a parameter of complex numbers"),
    "dropout": (computing(F.dropout), "with PyTorch's bernoulli_.*RandomStream"),
    "randn": (computing(lambda x: x + torch.randn_like(x)), "with PyTorch's randn_like"),
    "normal": (computing(lambda x: x + torch.empty(1).normal_()), "with PyTorch's normal_"),
    "randperm": (computing(lambda x: x[torch.randperm(len(x))]), "with PyTorch's randperm"),
    "attention": (
        lambda: Rows(functools.partial(Attention, dropout=0.1)),
        "set its argument dropout to 0",
    ),
}


@pytest.mark.parametrize("layer", REFUSED)
def test_layers_that_are_refused(layer):
    build, sentence = REFUSED[layer]
    family = with_layer(build)
    with pytest.raises(UserError, match=sentence) as caught:
        prepare(family())
    assert str(caught.value).startswith("discriminator.body.1")


def prepare(networks, strategy="md-gan", **settings):
    return STRATEGIES[strategy](**settings).prepare(networks, SHAPE, 3, seed=0).gan


@pytest.mark.parametrize(
    ("role", "function", "sentence"),
    [
        ("discriminator", lambda real, fake, _: fake - real, "must return a finite tensor without"),
        ("discriminator", lambda real, fake: real.mean(), r"discriminator raises TypeError: .*"),
        ("discriminator", lambda *_: 3.0, r"depends on its arguments: end it with \.mean\(\)"),
        ("generator", lambda fake: fake.detach().mean(), "for the generator must return a finite"),
        ("generator", lambda fake: (fake / 0).mean(), "for the generator must return a finite"),
        ("generator", lambda fake: fake.nope(), "raises AttributeError.*: correct it"),
    ],
)
def test_losses_that_are_refused(monkeypatch, role, function, sentence):
    monkeypatch.setitem(LOSSES, "mine", LOSSES["hinge"]._replace(**{role: function}))
    with pytest.raises(UserError, match=sentence) as caught:
        prepare(with_layer(nn.Identity)(), loss="mine")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("setting", [{"lipschitz": "penalty"}, {"r1": 1.0}, {"r2": 1.0}])
def test_penalties_need_second_derivatives(setting):
    prepare(with_layer(WORKING["gru"])(), **setting)
    family = with_layer(WORKING["transformer"])
    prepare(family())
    with pytest.raises(UserError, match=r"r2\) need second derivatives .*: train without these"):
        prepare(family(), **setting)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        prepare(family(), **setting)


def test_randomness_from_elsewhere_is_noticed():
    family = with_layer(computing(lambda x: x * python_random.random()))
    with pytest.raises(UserError, match="different outputs for the same weights and inputs"):
        prepare(family())


def test_a_stream_draws_only_in_training():
    with pytest.raises(UserError, match=r"write `if self\.training:`"):
        RandomStream().eval().uniform(3)

    class Noisy(Generator):
        def __init__(self, latent):
            super().__init__(latent)
            self.random = RandomStream()

        def forward(self, noise):
            return super().forward(noise) + self.random.normal(1)

    with pytest.raises(UserError, match=r"write `if self\.training:`"):
        prepare(wrap(Noisy, lambda: nn.Conv2d(1, 1, 8), latent=6)())


class Own(Networks):
    """A family whose networks compute what a test wants."""

    def __init__(self, generator=None, discriminator=None):
        super().__init__(latent=6)
        values = {"of_generator": generator, "of_discriminator": discriminator}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def generator(self, shape, num_classes):
        return Computing(nn.Linear(6, 64), self.of_generator or (lambda x: x.view(-1, *shape)))

    def discriminator(self, shape, num_classes):
        return Computing(nn.Linear(64, 1), self.of_discriminator or (lambda x: x[:, 0]))


class Computing(nn.Module):
    def __init__(self, layer, function):
        super().__init__()
        self.layer, self.function = layer, function

    def forward(self, x, labels):
        return self.function(self.layer(x.flatten(1)))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"generator": lambda x: x},
            r"returns \(2, 64\) for 2.* of \(2, 1, 8, 8\): end .*\.reshape\(-1, 1, 8, 8\)",
        ),
        ({"generator": lambda x: x[:, :9]}, "change its last layers"),
        ({"generator": lambda x: x.double()}, r"must return a tensor of torch\.float32"),
        ({"generator": lambda x: (x, x)}, r"must return a tensor of torch\.float32, not tuple"),
        ({"generator": lambda x: x / 0}, "not finite for new weights"),
        ({"generator": lambda x: x.detach().view(-1, *SHAPE)}, "does not depend on its parameters"),
        (
            {"generator": lambda x: x @ x},
            r"generator's forward failed with inputs of",
        ),
        (
            {"discriminator": lambda x: x},
            r"returns \(2, 1\) for 2 images.*with \[:, 0\]",
        ),
        ({"discriminator": lambda x: x[..., None]}, r"end forward with \.flatten\(\)"),
        ({"discriminator": lambda x: x.mean()}, r"returns \(\) for 2 images.*one number for each"),
    ],
)
def test_shapes_and_values_that_are_refused(changes, sentence):
    prepare(Own())
    with pytest.raises(UserError, match=sentence):
        prepare(Own(**changes))


def test_changes_in_place_of_what_the_gradients_need_are_an_error():
    class Scaled(nn.Linear):
        def forward(self, input):
            x = super().forward(input.flatten(1)).sigmoid()
            x *= 2.0
            return x

    def generator(latent):
        return nn.Sequential(Scaled(latent, 64), nn.Unflatten(1, SHAPE))

    def discriminator():
        return Scaled(64, 1)

    sentence = r"^computing the gradients of the {} failed.*\): write x = x \* y"
    with pytest.raises(UserError, match=sentence.format("generator")):
        prepare(wrap(generator, discriminator, latent=6)())
    with pytest.raises(UserError, match=sentence.format("discriminator")):
        prepare(wrap(Generator, discriminator, latent=6)())


def test_the_discriminator_ends_with_raw_outputs_that_depend_on_the_images():
    def sigmoid():
        return nn.Sequential(nn.Conv2d(1, 1, 8), nn.Sigmoid())

    with pytest.raises(UserError, match=r"^discriminator\.1 is a Sigmoid at the end"):
        prepare(wrap(Generator, sigmoid, latent=6)())

    class Blind(nn.Conv2d):
        def forward(self, input):
            return super().forward(input.detach())

    with pytest.raises(UserError, match="does not depend on the images"):
        prepare(wrap(Generator, lambda: Blind(1, 1, 8), latent=6)())


def test_constructors_that_fail():
    with pytest.raises(UserError, match=r"building the generator for images of 1x8x8 failed"):
        prepare(wrap(lambda latent: nn.Linear(-latent, 64), lambda: nn.Conv2d(1, 1, 8), latent=6)())

    class Nothing(Own):
        def generator(self, shape, num_classes):
            return lambda noise, labels: noise

    with pytest.raises(UserError, match=r"Nothing\.generator must return an nn\.Module"):
        prepare(Nothing())

    class Empty(nn.Module):
        def forward(self, noise):
            return noise

    with pytest.raises(UserError, match="the generator has no parameters"):
        prepare(wrap(Empty, lambda: nn.Conv2d(1, 1, 8), latent=6)())


UNSTACKED = {
    "item": (
        lambda x: x * float(x.mean().item()),
        r"in discriminator\.body\.1, forward turns a tensor",
    ),
    "if": (lambda x: x if x.mean() > 0 else -x, r"into a Python value, as \.item\(\)"),
    "shape": (lambda x: x * len(torch.nonzero(x)), "dynamic shape"),
    "in-place": (lambda x: torch.zeros(x.shape).copy_(x), "inplace arithmetic"),
}


@pytest.mark.parametrize("operation", UNSTACKED)
def test_operations_that_cannot_be_stacked(toy_data, operation):
    """They train in a loop; vmap and cellular training refuse them with the cause."""
    function, cause = UNSTACKED[operation]
    family = with_layer(computing(function))
    Trial(toy_data, "loop", family).train(1)
    assert prepare(family()).stacking.problem
    with pytest.raises(UserError, match=cause) as caught:
        prepare(family(), "cellular")
    assert "vmap cannot stack these networks" in str(caught.value)
    assert "choose another strategy" in str(caught.value)


def test_operations_that_are_slow_under_vmap(toy_data):
    """LSTMs have no batching rule, so members run one after the other."""
    assert prepare(with_layer(lambda: Rows(nn.LSTM))()).stacking.slow == ("aten::mkldnn_rnn_layer",)


def test_penalties_are_part_of_the_trial():
    """Some operations can be stacked, but not their second derivatives; ours can."""
    settings = dict(loss="wasserstein", penalty_every=4)
    assert prepare(with_layer(nn.Identity)(), **settings).stacking == ("", ())


def test_the_check_leaves_the_first_weights_alone():
    """A checked network starts as an unchecked one, and PyTorch's generator does not move."""
    before = torch.get_rng_state()
    family = with_layer(lambda: nn.BatchNorm2d(4))
    gan = prepare(family(), lipschitz="spectral")
    assert torch.equal(torch.get_rng_state(), before)
    mine, fresh = (gan.build_networks(0, is_checked=checked)[1] for checked in (True, False))
    assert trees.equal(dict(mine.state_dict()), dict(fresh.state_dict()))
    assert Stacked(2, layout="loop").looped

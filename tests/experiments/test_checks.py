"""``remuda check`` finds every kind of broken promise, and all our own parts pass."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import nn

from remuda.cli import app
from remuda.data import DATASETS, Dataset
from remuda.errors import UserError
from remuda.experiments import check
from remuda.gan import LOSSES, Loss
from remuda.networks import MLP, NETWORKS, wrap
from remuda.strategies import STRATEGIES, Strategy
from remuda.tensors import calculus, trees
from tests.networks.small import SETTINGS


def problems(name, *settings):
    """Return the verdict and the problem of every promise that is not kept."""
    outcomes = list(check(name, settings))
    return {(outcome.verdict, outcome.problem) for outcome in outcomes if outcome.problem}


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_passes(name):
    assert problems(name) == set()


@pytest.mark.parametrize("name", [name for name in NETWORKS if not name.startswith("acgan-c")])
def test_networks_pass(name):
    """All but the two largest; tests/contract covers those."""
    settings = {**SETTINGS[name], "latent": 12}
    settings |= {"attention_size": 16} if name == "sagan" else {}
    changes = [f"networks.{key}={str(value).lower()}" for key, value in settings.items()]
    assert problems(name, *changes) == set()


@pytest.mark.parametrize("name", [*LOSSES, "digits", "ring"])
def test_losses_and_data_sets_pass(name):
    assert problems(name) == set()


class Generator(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.layer = nn.Linear(latent, 64)

    def forward(self, noise):
        return torch.tanh(self.layer(noise)).reshape(-1, 1, 8, 8)


class Discriminator(nn.Module):
    def __init__(self, dropout: float = 0.2):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Dropout(dropout), nn.Linear(64, 1))

    def forward(self, images):
        return self.layers(images)


class Centred(Generator):
    """Depend on the batch also in evaluation mode."""

    def forward(self, noise):
        return super().forward(noise - noise.mean(0))


class Bright(Generator):
    def forward(self, noise):
        return 30 * super().forward(noise)


class Transformed(Discriminator):
    """Compute something else under vmap."""

    def forward(self, images):
        return super().forward(images) * (3 if calculus.transformed() else 1)


class Mixing(torch.autograd.Function):
    """Average over members, which a wrong rule for vmap can do."""

    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient

    @staticmethod
    def vmap(info, in_dims, x):
        return x.mean(0, keepdim=True).expand_as(x), 0


class Mixed(Discriminator):
    def forward(self, images):
        return Mixing.apply(super().forward(images))


class Branching(Discriminator):
    def forward(self, images):
        return super().forward(images if images.mean() > 0 else -images)


class Random(Discriminator):
    def forward(self, images):
        return super().forward(images + torch.randn(1))


BROKEN_NETWORKS = [
    (Centred, Discriminator, "fails", "an image changes with its batch"),
    (Bright, Discriminator, "fails", "samples exceed [-1, 1] in evaluation mode"),
    (Generator, Transformed, "fails", "differs between loop and vmap"),
    (Generator, Mixed, "fails", "depends on another member's weights"),
    (Generator, Branching, "note", "use engine.layout=loop"),
    (Generator, Random, "fails", "draws random numbers with PyTorch's randn"),
]


@pytest.mark.parametrize(("generator", "discriminator", "verdict", "part"), BROKEN_NETWORKS)
def test_broken_networks(generator, discriminator, verdict, part, monkeypatch):
    monkeypatch.setitem(NETWORKS, "own", wrap(generator, discriminator, latent=6))
    assert any(found == verdict and part in problem for found, problem in problems("own"))


def test_buffers_of_any_type(monkeypatch):
    class Masked(Discriminator):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", torch.arange(64) % 2 == 0)
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

        def forward(self, images):
            self.calls.add_(1)
            return super().forward(images.flatten(1) * self.mask)

    monkeypatch.setitem(NETWORKS, "mine", wrap(Generator, Masked, latent=6))
    assert {verdict for verdict, _ in problems("mine")} == {"note"}


def test_slow_operations_are_a_note(monkeypatch, recwarn):
    """PyTorch would warn about them in words for its developers."""

    class Slow(Generator):
        def __init__(self, latent):
            super().__init__(latent)
            self.layer = nn.utils.parametrizations.weight_norm(self.layer)

    monkeypatch.setitem(NETWORKS, "slow", wrap(Slow, Discriminator, latent=8))
    notes = [problem for verdict, problem in problems("slow") if verdict == "note"]
    (note,) = [each for each in notes if "stack" in each]
    assert "_weight_norm_interface" in note and "engine.layout=loop" in note
    assert not [each for each in recwarn if "performance drop" in str(each.message)]


def test_shapes_that_are_not_supported_are_notes(monkeypatch):
    monkeypatch.setitem(NETWORKS, "own", wrap(Generator, Discriminator, latent=6))
    found = problems("own")
    assert {verdict for verdict, _ in found} == {"note"} and len(found) == 2
    assert all("instead of (2, " in problem for _, problem in found)
    assert problems("own", "data.size=16"), "only 8x8 works"


KEPT = []  # state outside the tensors


@dataclass(frozen=True, kw_only=True)
class Pairs(STRATEGIES["fl-gan"]):  # type: ignore[misc]
    """A strategy that breaks one promise after each round."""

    sin: str = ""
    partitions: ClassVar[tuple[str, ...]] = ("iid",)

    def round(self, context, engine, state, real, t):
        if self.sin == "idle":
            return state, {"loss": torch.zeros(engine.size)}
        after, metrics = super().round(context, engine, state, real, t)
        leaf = trees.leaves(after)[0]
        if self.sin == "random":
            leaf += torch.rand(1)
        elif self.sin == "in place":
            trees.leaves(state)[0].add_(1)
        elif self.sin == "infinite":
            leaf /= 0
        elif self.sin == "layout":
            leaf += 10.0 * calculus.transformed() + (0.0 if engine.engine.looped else 10.0)
        elif self.sin == "shape":
            metrics = {name: values[:1] for name, values in metrics.items()}
        elif self.sin == "error":
            raise KeyError("lost")
        elif self.sin == "memory":
            KEPT.append(t)
            leaf += len(KEPT)
        return after, metrics

    def steps_in(self, num_batches):
        return num_batches + (self.sin == "count")


BROKEN_STRATEGIES = {
    "idle": "a round changes nothing",
    "random": "differs when the round runs again",
    "in place": "of the state that it receives in place",
    "infinite": "is not finite after a round",
    "layout": "differ by more than rounding",
    "shape": "not one per member",
    "memory": "differs after a resume",
    "error": "KeyError: 'lost'",
    "count": "steps_in(batches_for(n)) gives [2, 3, 13]",
}


@pytest.mark.parametrize("sin", BROKEN_STRATEGIES)
def test_broken_strategies(sin, monkeypatch):
    monkeypatch.setitem(STRATEGIES, "own", Pairs)
    assert problems("own") == set()
    found = problems("own", f"strategy.sin={sin}")
    assert any(BROKEN_STRATEGIES[sin] in problem for _, problem in found), found


def test_a_strategy_without_seed(monkeypatch):
    @dataclass(frozen=True, kw_only=True)
    class Seedless(Pairs):
        def init(self, context, engine):
            return trees.map(torch.zeros_like, super().init(context, engine))

        def round(self, context, engine, state, real, t):
            return trees.map(lambda leaf: leaf + 1, state), {"loss": torch.zeros(engine.size)}

    monkeypatch.setitem(STRATEGIES, "own", Seedless)
    assert any("another seed gives the same result" in problem for _, problem in problems("own"))


def test_broken_losses_and_data_sets(monkeypatch):
    wrong = Loss(LOSSES["hinge"].discriminator, lambda fake: fake.mean(), has_targets=False)
    per_image = wrong._replace(generator=lambda fake: -fake)
    for loss, part in ((wrong, "look more real"), (per_image, "one finite number")):
        monkeypatch.setitem(LOSSES, "own", loss)
        assert any(part in problem for _, problem in problems("own"))
    monkeypatch.delitem(LOSSES, "own")

    def load(config, split):
        images = torch.randint(0, 255, (4, 1, 8, 8)).to(torch.uint8)
        return Dataset("own", images, torch.zeros(4, dtype=torch.int64), ("full", "empty"))

    monkeypatch.setitem(DATASETS, "own", load)
    found = {problem for _, problem in problems("own")}
    assert found == {"a second call gives other images or labels", "the class empty has no images"}
    monkeypatch.setitem(DATASETS, "own", lambda config, split: 3)
    ((verdict, problem),) = problems("own")
    assert verdict == "fails" and problem.endswith("is int instead of remuda.data.Dataset")


def test_the_command_prints_a_line_per_check(monkeypatch, capsys):
    monkeypatch.setitem(NETWORKS, "own", wrap(Generator, Random, latent=6))
    assert app(["check", "own"], standalone_mode=False) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("fails  layers, random operations and shapes keep the contract: discr")
    assert not app(["check", "mlp", "--set", "networks.hidden=8"], standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 11 and all(line.startswith("ok     ") for line in lines)


def test_what_cannot_be_checked():
    with pytest.raises(
        UserError, match=r"no networks, strategy, loss or data set is called .nonsense"
    ):
        check("nonsense")
    assert issubclass(MLP, NETWORKS["mlp"]) and issubclass(Pairs, Strategy)

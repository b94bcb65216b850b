"""Plain modules become a family of networks, with their arguments as settings."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from remuda.config import from_dict, to_dict
from remuda.errors import UserError
from remuda.networks import NETWORKS, Networks, one_hot, wrap
from remuda.networks.groups import tensor_groups
from remuda.strategies import STRATEGIES

SHAPE = (1, 8, 8)


class Generator(nn.Module):
    """Map noise to 64 pixels."""

    def __init__(self, latent, shape, width: int = 12, activation=nn.ReLU, rate: float = 1):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(latent, width), activation(), nn.Linear(width, 64))
        self.shape, self.rate = shape, rate

    def forward(self, noise):
        return torch.tanh(self.rate * self.layers(noise)).reshape(-1, *self.shape)


class Discriminator(nn.Module):
    def __init__(self, width: int = 12, dropout: float = 0.25):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(64, width), nn.LeakyReLU(), nn.Dropout(dropout)
        )
        self.output = nn.Linear(width, 1)

    def forward(self, images):
        return self.output(self.layers(images))  # (b, 1)


class Labelled(nn.Module):
    def __init__(self, latent, num_classes):
        super().__init__()
        self.num_classes = num_classes
        self.layer = nn.Linear(latent + num_classes, 64)

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        return self.layer(torch.cat([noise, one_hot(labels, self.num_classes)], 1)).view(-1, *SHAPE)


def linear(latent: int) -> nn.Module:
    return nn.Sequential(nn.Linear(latent, 64), nn.Unflatten(1, SHAPE))


def prepare(family, **settings):
    return STRATEGIES["md-gan"]().prepare(family(**settings), SHAPE, 3, seed=0).gan


def test_arguments_with_defaults_become_settings(monkeypatch):
    family = wrap(Generator, Discriminator, latent=6)
    assert issubclass(family, Networks) and family.__doc__ == "Map noise to 64 pixels."
    assert wrap(linear, Discriminator, latent=6).__doc__ == "Build linear and Discriminator."
    monkeypatch.setitem(NETWORKS, "own", family)

    def networks(**table):
        return from_dict({"networks": {"name": "own", **table}}).networks

    assert networks() == family(latent=6, width=12, rate=1.0, dropout=0.25)
    table = to_dict(from_dict({"networks": {"name": "own", "width": 5}}))["networks"]
    assert table == {
        "name": "own",
        "latent": 6,
        "conditional": False,
        "width": 5,
        "rate": 1.0,
        "dropout": 0.25,
    }
    generator = networks(width=7, latent=9).generator(SHAPE, 3)
    assert generator.network.layers[0].weight.shape == (7, 9)
    for table, complaint in {
        ("width", 1.5): r"networks\.width: expected a whole number",
        ("widht", 3): "did you mean width",
        ("activation", "relu"): r"networks\.activation does not exist",
        ("conditional", True): r"write conditional=True in the call of remuda\.networks\.wrap",
    }.items():
        with pytest.raises(UserError, match=complaint):
            networks(**dict([table]))


def test_one_plan_is_one_class_and_its_instances_can_be_copied():
    family = wrap(Generator, Discriminator, latent=6)
    assert wrap(Generator, Discriminator, latent=6) is family
    assert wrap(Generator, Discriminator, latent=7) is not family
    networks = family(width=5)
    assert pickle.loads(pickle.dumps(networks)) == copy.deepcopy(networks) == networks
    assert hash(networks) == hash(family(width=5))


def test_modules_train_unchanged():
    gan = prepare(wrap(Generator, Discriminator, latent=6))
    pair = gan.init(3)
    noise, labels = torch.zeros(4, 6), torch.zeros(4, dtype=torch.int64)
    fakes = gan.sample(pair, noise, labels)
    _, feedback, _, outputs = gan.feedback_and_outputs(pair.discriminator, fakes, labels)
    assert fakes.shape == feedback.shape == (4, *SHAPE)
    assert outputs.shape == (4,), "(b, 1) becomes (b,)"
    assert gan.stacking == ("", ())


def test_labels_reach_modules_that_take_them():
    gan = prepare(wrap(Labelled, Discriminator, latent=6, conditional=True))
    noise, pair = torch.zeros(3, 6), gan.init(0)
    images = gan.sample(pair, noise, torch.arange(3))
    assert not torch.equal(images[0], images[1])

    class Optional(Discriminator):
        def forward(self, images, return_features=False):
            assert return_features is False
            return super().forward(images)

    class Named(Discriminator):
        def forward(self, images, labels=None):
            assert labels is not None
            return super().forward(images)

    for discriminator in (Optional, Named):
        prepare(wrap(Generator, discriminator, latent=6))
    with pytest.raises(UserError, match=r"forward takes no labels.*forward\(self, noise, labels"):
        prepare(wrap(Generator, Discriminator, latent=6, conditional=True))


def test_a_builder_may_choose_whether_it_is_conditional():
    def build(latent, num_classes, conditional):
        return Labelled(latent, num_classes) if conditional else linear(latent)

    family = wrap(build, Discriminator, latent=6)
    assert not prepare(family).networks.conditional
    assert prepare(family, conditional=True).networks.conditional


def test_noise_as_an_image():
    """As in the well-known DCGAN: (b, latent, 1, 1) in, (b, 1, 1, 1) out."""

    def generator(latent):
        return nn.Sequential(nn.ConvTranspose2d(latent, 1, 8), nn.Tanh())

    def discriminator():
        return nn.Conv2d(1, 1, 8)

    prepare(wrap(generator, discriminator, latent=6, noise_as_image=True))
    with pytest.raises(UserError, match="noise_as_image=True"):
        prepare(wrap(generator, discriminator, latent=6))


def test_an_auxiliary_classifier():
    def discriminator(num_classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 1 + num_classes))

    assert prepare(wrap(linear, discriminator, latent=6, auxiliary=True)).objective.auxiliary
    with pytest.raises(UserError, match=r"returns \(2, 4\) for 2 images instead of \(2,\)"):
        prepare(wrap(linear, discriminator, latent=6))


def test_layer_groups_of_the_own_module_count():
    class Grouped(Discriminator):
        layer_groups = {"output": "head"}  # noqa: RUF012

    network = wrap(linear, Grouped, latent=6)().discriminator(SHAPE, 3)
    groups = tensor_groups(network)
    assert groups["network.output.weight"] == "head"
    assert groups["network.layers.1.weight"] == "body"


def wrong_width(width: int = 3):
    raise AssertionError


def needs(size):
    raise AssertionError


def named(name="x"):
    raise AssertionError


@pytest.mark.parametrize(
    ("builder", "complaint"),
    [
        (nn.Linear(2, 3), "needs the class Linear, or a function that builds the module"),
        (needs, r"cannot fill in the argument size of needs: give it a default.*networks\.size"),
        (wrong_width, "different defaults for width: use one default, or two names"),
        (named, r"networks\.name has a meaning in remuda.*rename it"),
    ],
)
def test_builders_that_cannot_be_wrapped(builder, complaint):
    with pytest.raises(UserError, match=complaint):
        wrap(builder, Discriminator, latent=6)


def test_forward_with_other_arguments():
    class Three(Discriminator):
        def forward(self, images, labels, more):
            return super().forward(images)

    with pytest.raises(UserError, match=r"define forward\(self, images\) or forward\(self, images"):
        prepare(wrap(Generator, Three, latent=6))
    with pytest.raises(UserError, match=r"must return an nn\.Module, not a int"):
        prepare(wrap(Generator, lambda: 3, latent=6))

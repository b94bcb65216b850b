"""A pair can be divided by names and put together again."""

import torch

from remuda.gan.parts import PairNames, merge, names_in, split
from remuda.networks import ResNet
from remuda.strategies import Standalone
from remuda.tensors import trees


def make_gan():
    networks = ResNet(latent=4, width=4, discriminator_width=4)
    strategy = Standalone(loss="hinge", lipschitz="spectral", ema=0.9)
    return strategy.prepare(networks, (3, 16, 16), 3, 0).gan


def test_parts_are_disjoint_and_complete():
    gan = make_gan()
    pair = gan.init(0)
    names = PairNames(names_in(gan.generator, ["body"]), names_in(gan.discriminator, ["head"]))
    chosen, rest = split(pair, names)
    for part, whole in ((0, pair.generator), (1, pair.discriminator)):
        for field in ("params", "buffers"):
            first, second = getattr(chosen[part], field), getattr(rest[part], field)
            assert not first.keys() & second.keys()
            assert first.keys() | second.keys() == getattr(whole, field).keys()
    assert set(chosen.average) == set(chosen.generator.params)
    assert set(chosen.discriminator.params) == {"network.output.weight", "network.output.bias"}
    assert set(chosen.discriminator.buffers) == {"left_output_weight"}
    assert trees.equal(merge(chosen, rest), pair) and trees.equal(merge(rest, chosen), pair)


def test_both_parts_count_updates_and_the_second_count_is_used():
    gan = make_gan()
    names = PairNames(names_in(gan.generator, ["body"]), frozenset())
    chosen, rest = split(gan.init(0), names)
    moments = rest.generator.moments._replace(steps=torch.tensor(7.0))
    rest = rest._replace(generator=rest.generator._replace(moments=moments))
    assert merge(chosen, rest).generator.moments.steps == 7

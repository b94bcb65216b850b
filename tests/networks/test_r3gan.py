"""Check R3GAN's networks: sizes, initial weights, resampling, and agreement of both layouts."""

import math
import re
import warnings
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from remuda import config
from remuda.errors import UserError
from remuda.gan.lipschitz import SpectralNorm
from remuda.networks import NETWORKS, R3GAN, count_parameters, layers
from remuda.networks.layers import Pointwise
from remuda.networks.r3gan_modules import GAIN, Block, GroupedConv2d
from remuda.networks.resampling import Downsampling, Upsampling

LABELS = torch.tensor([0, 2, 1])
SMALL = dict(latent=6, width=8, blocks=1, group_width=4)


def pair(shape, num_classes=10, **settings):
    networks = R3GAN(**settings)
    return networks.generator(shape, num_classes), networks.discriminator(shape, num_classes)


def block(width, group_width=16):
    """Count the parameters of a residual block: 1x1, grouped 3x3, 1x1, two biases."""
    return 2 * width * width + 2 * width * group_width * 9 + 2 * width * width + 4 * width


COUNTS = {
    # image channels, smallest map, widths of the stages
    (3, 32, 32): (16, [256] * 4),
    (3, 64, 64): (16, [256] * 4 + [128]),
    (1, 28, 28): (49, [256] * 3),
    (3, 48, 32): (24, [256] * 3 + [128]),
}


@pytest.mark.parametrize("shape", COUNTS)
def test_parameter_counts(shape):
    pixels, widths = COUNTS[shape]
    body = sum(2 * block(width) for width in widths)
    body += sum(a * b for a, b in pairwise(widths) if a != b)
    ends = widths[0] * pixels + widths[-1] * shape[0]
    generator, discriminator = (count_parameters(network) for network in pair(shape))
    assert generator == body + ends + 64 * 256 and discriminator == body + ends + 256
    generator, discriminator = (count_parameters(net) for net in pair(shape, conditional=True))
    assert generator == body + ends + 2 * 64 * 256 + 10 * 64
    assert discriminator == body + ends + 256 * 256 + 10 * 256


def test_the_papers_configuration_has_96_groups_of_16_channels():
    network = R3GAN(width=768).generator((3, 32, 32), 10)
    blocks = [module for module in network.modules() if isinstance(module, Block)]
    assert [b.convolution.groups for b in blocks] == [96] * 8
    assert {b.convolution.weight.shape for b in blocks} == {(1536, 16, 3, 3)}
    assert count_parameters(network) == 8 * block(768) + 768 * (16 + 64 + 3) == 20_732_160


def test_the_documentation_has_these_counts():
    text = (Path(__file__).parents[2] / "docs" / "networks.md").read_text()
    row = (
        r"^\| `r3gan` \| (\d+) x (\d+) x (\d+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$"
    )
    rows = re.findall(row, text, re.MULTILINE)
    assert len(rows) == 3
    for *numbers, a, b, c, d in rows:
        shape = tuple(map(int, numbers))
        networks = *pair(shape), *pair(shape, conditional=True)
        assert [a, b, c, d] == [f"{count_parameters(network):,}" for network in networks], shape


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 12, 20), (2, 36, 64)])
def test_shapes_and_labels(shape, conditional):
    generator, discriminator = pair(shape, 3, **SMALL, conditional=conditional)
    noise = 9 * torch.randn(3, 6)
    images = generator(noise, LABELS)
    assert images.shape == (3, *shape) and images.abs().max() > 1
    assert torch.equal(generator.eval()(noise, LABELS), images.clamp(-1, 1))
    outputs = discriminator(images, LABELS)
    assert outputs.shape == (3,)
    other = LABELS.flip(0)
    assert torch.equal(generator(noise, other), generator(noise, LABELS)) != conditional
    assert torch.equal(discriminator(images, other), outputs) != conditional


@pytest.mark.parametrize("shape", [(1, 9, 8), (1, 6, 8), (2, 1, 1), (1, 8, 31)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(UserError, match=r"sides are even and at least 8.*data\.size"):
        R3GAN().discriminator(shape, 10)


def test_bad_settings_are_refused_with_a_message():
    for name in ("width", "blocks", "expansion", "group_width", "latent"):
        with pytest.raises(UserError, match=rf"networks\.{name} must be at least 1, not 0"):
            R3GAN(**{name: 0})
    R3GAN(width=24).generator((1, 8, 8), 10)
    with pytest.raises(UserError, match=r"networks\.width must be a multiple of 8 .*not 20"):
        R3GAN(width=20).generator((1, 8, 8), 10)
    with pytest.raises(UserError, match=r"a multiple of 16 for 64x64 images"):
        R3GAN(width=24).generator((1, 64, 64), 10)
    with pytest.raises(UserError, match=r"start at 0: set strategy\.lipschitz=auto"):
        SpectralNorm(R3GAN(**SMALL).discriminator((1, 8, 8), 3))


def test_settings_survive_a_round_trip_through_a_file():
    made = config.from_dict({"networks": {"name": "r3gan", "width": 64, "conditional": True}})
    assert made.networks == NETWORKS["r3gan"](width=64, conditional=True)
    assert config.from_dict(config.to_dict(made)) == made


def test_initial_weights():
    """Blocks are the identity at first; the gain falls with the fourth root of their number."""
    torch.manual_seed(0)
    generator, discriminator = pair((1, 16, 16), width=64, blocks=3, conditional=True)
    blocks = [module for module in generator.modules() if isinstance(module, Block)]
    images = torch.randn(2, 64, 4, 4)
    assert len(blocks) == 9 and torch.equal(blocks[0](images), images)
    gain = math.sqrt(2 / 1.04) * 9**-0.25
    assert pytest.approx(math.sqrt(2 / 1.04)) == GAIN
    expected = [
        (blocks[0].expand.weight, gain / math.sqrt(64)),
        (blocks[8].convolution.weight, gain / math.sqrt(9 * 16)),
        (generator.basis.basis, 1.0),
        (generator.basis.weights.weight, 1 / math.sqrt(128)),
        (generator.embedding.weight, 1 / math.sqrt(10)),
        (discriminator.basis.basis, 1 / math.sqrt(16)),
        (discriminator.output.weight, 1 / math.sqrt(64)),
        (discriminator.embedding.weight, 1 / math.sqrt(64 * 10)),
    ]
    for weight, deviation in expected:
        assert weight.std().item() == pytest.approx(deviation, rel=0.1)
    assert not any(b.reduce.weight.any() for b in blocks)
    assert not any(p.any() for name, p in generator.named_parameters() if name.endswith("bias"))


def test_the_ends_by_hand():
    generator, discriminator = pair((1, 8, 8), 2, latent=1, width=1, blocks=1, group_width=1)
    with torch.no_grad():
        generator.basis.basis.fill_(0.5)
        generator.basis.weights.weight.fill_(3.0)
        generator.output.weight.fill_(2.0)
        discriminator.input.weight.fill_(1.0)
        discriminator.basis.basis.copy_(torch.arange(16.0).view(1, 4, 4))
        discriminator.output.weight.fill_(-1.0)
    images = generator(torch.tensor([[0.1]]), LABELS[:1])
    # 0.1 * 3 * 0.5 * 2 inside; towards the zeros outside, 3/4 of it per axis
    assert images[0, 0, 4, 4].item() == pytest.approx(0.3)
    assert images[0, 0, 0, 4].item() == pytest.approx(0.3 * 3 / 4)
    assert images[0, 0, 0, 0].item() == pytest.approx(0.3 * 9 / 16)
    image = torch.zeros(1, 1, 8, 8)
    image[0, 0, 2, 2] = (
        64.0  # along each axis, 3/8 for its own pair of pixels, 1/8 for the one before
    )
    weighted = 9 * 5 + 3 * 4 + 3 * 1 + 1 * 0
    assert discriminator(image, LABELS[:1]).item() == pytest.approx(-weighted)


def library(x, factor, transposed):
    line = torch.tensor([1.0, 3.0, 3.0, 1.0], dtype=x.dtype)
    kernel = (factor * torch.outer(line, line) / 64).expand(x.shape[1], 1, 4, 4)
    convolve = F.conv_transpose2d if transposed else F.conv2d
    return convolve(x, kernel, stride=2, padding=1, groups=x.shape[1])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("module, factor", [(Upsampling(), 4), (Downsampling(), 1)])
def test_resampling_equals_convolutions(module, factor, compiled, monkeypatch):
    monkeypatch.setattr(layers, "is_compiled", lambda: compiled)
    x = torch.randn(2, 3, 6, 4, dtype=torch.float64)
    result = layers.channels_first(module(layers.channels_last(x)))
    assert torch.allclose(result, library(x, factor, factor == 4))


@pytest.mark.parametrize(
    "layer", [Pointwise(8, 6), Pointwise(8, 6, bias=False), GroupedConv2d(8, 2)]
)
def test_layers_agree_in_both_layouts(layer, monkeypatch):
    layer = layer.double()
    x = torch.randn(2, 8, 5, 4, dtype=torch.float64)
    expected = layer(x)
    monkeypatch.setattr(layers, "is_compiled", lambda: True)
    assert torch.allclose(layers.channels_first(layer(layers.channels_last(x))), expected)


def test_a_stack_of_networks_needs_no_slow_path():
    noise, images = torch.randn(2, 3, 6), torch.randn(2, 3, 1, 8, 8)
    pairs = [pair((1, 8, 8), 3, **SMALL, conditional=True) for _ in range(2)]
    for modules, inputs in zip(zip(*pairs, strict=True), (noise, images), strict=True):
        params, _ = torch.func.stack_module_state(list(modules))

        def loss(params, x, template=modules[0]):
            outputs = torch.func.functional_call(template, params, (x, LABELS))
            return outputs.square().sum(), outputs

        with warnings.catch_warnings():
            warnings.simplefilter("error")  # vmap warns where it falls back to a loop
            step = torch.func.vmap(torch.func.grad(loss, has_aux=True))
            _, outputs = step(params, inputs)
        for member, module in enumerate(modules):
            expected = module(inputs[member], LABELS)
            assert torch.allclose(outputs[member], expected, atol=1e-5)

"""The residual networks: their layers by hand, their tables, and their settings."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from remuda.errors import UserError
from remuda.networks import SAGAN, ResNet, count_parameters, layers, residual

LABELS = torch.tensor([1, 0, 2])


def pixels(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@pytest.fixture(params=[False, True], ids=["channels first", "channels last"])
def compiled(request, monkeypatch):
    """Run a test in both layouts: that of plain code and that of compiled programs."""
    monkeypatch.setattr(layers, "is_compiled", lambda: request.param)
    return request.param


def through(layer, images, *more):
    """Apply a layer to images (b, C, H, W) in the current layout."""
    return layers.channels_first(layer(layers.channels_last(images), *more))


def test_pooled_convolution_is_a_convolution_and_a_mean(compiled):
    layer, images = residual.PooledConv2d(3, 5), pixels(2, 3, 8, 6)
    expected = F.avg_pool2d(F.conv2d(images, layer.weight, layer.bias, padding=1), 2)
    torch.testing.assert_close(through(layer, images), expected)


def test_resampling_by_hand(compiled):
    images = torch.tensor([[[[1.0, 3.0], [5.0, 7.0]]]])
    assert through(residual.halved, images).tolist() == [[[[4.0]]]]
    rows = [[1.0, 1.0, 3.0, 3.0]] * 2 + [[5.0, 5.0, 7.0, 7.0]] * 2
    assert through(residual.doubled, images).tolist() == [[rows]]


def test_each_class_has_its_own_scale_and_shift(compiled):
    norm = residual.ConditionalBatchNorm2d(2, num_labels=3)
    with torch.no_grad():
        norm.scale.copy_(torch.tensor([[1.0, 1.0], [2.0, 3.0], [0.0, 0.0]]))
        norm.shift.copy_(torch.tensor([[0.0, 0.0], [0.5, 0.0], [7.0, 8.0]]))
    images = pixels(3, 2, 4, 4)
    plain = nn.BatchNorm2d(2, affine=False)(images)
    found = through(norm, images, layers.one_hot(LABELS, 3))
    torch.testing.assert_close(found[0, 0], 2 * plain[0, 0] + 0.5)
    torch.testing.assert_close(found[0, 1], 3 * plain[0, 1])
    torch.testing.assert_close(found[1], plain[1])
    assert found[2, 0].eq(7).all() and found[2, 1].eq(8).all()


def test_attention_mixes_all_pixels(compiled):
    layer, images = residual.SelfAttention(8), pixels(2, 8, 3, 2)
    torch.testing.assert_close(through(layer, images), images)  # the gain starts at 0
    with torch.no_grad():
        layer.gain.fill_(0.7)
    rows = images.flatten(2).mT  # (b, pixels, channels)
    expected = torch.empty_like(rows)
    for b in range(2):
        for i in range(6):
            scores = torch.stack(
                [layer.query(rows[b, i]) @ layer.key(rows[b, j]) for j in range(6)]
            )
            mixture = sum(w * layer.value(rows[b, j]) for j, w in enumerate(scores.softmax(0)))
            expected[b, i] = rows[b, i] + 0.7 * layer.output(mixture)
    torch.testing.assert_close(through(layer, images).flatten(2).mT, expected)


def test_blocks_follow_the_paper(compiled):
    up, down = residual.UpBlock(3, 4, 0), residual.DownBlock(3, 4, pooled=True)
    images = pixels(2, 3, 4, 4)
    norm1, norm2 = nn.BatchNorm2d(3), nn.BatchNorm2d(4)
    y = F.interpolate(norm1(images).relu(), scale_factor=2)
    y = F.conv2d(y, up.conv1.weight, up.conv1.bias, padding=1)
    y = F.conv2d(norm2(y).relu(), up.conv2.weight, up.conv2.bias, padding=1)
    large = F.interpolate(images, scale_factor=2)
    expected = y + F.conv2d(large, up.shortcut.weight, up.shortcut.bias)
    classes = torch.zeros(2, 0)
    torch.testing.assert_close(through(up, images, classes), expected, atol=1e-5, rtol=1e-4)
    y = F.conv2d(images.relu(), down.conv1.weight, down.conv1.bias, padding=1)
    y = F.conv2d(y.relu(), down.conv2.weight, down.conv2.bias, padding=1)
    y = y + F.conv2d(images, down.shortcut.weight, down.shortcut.bias)
    torch.testing.assert_close(through(down, images), F.avg_pool2d(y, 2), atol=1e-5, rtol=1e-4)


# (generator, discriminator) for 10 classes. SNGAN's pair for CIFAR-10 is the first.
COUNTS = {
    (ResNet, (3, 32, 32), False): (4_276_739, 1_053_825),
    (ResNet, (3, 32, 32), True): (4_304_387, 1_055_105),
    (ResNet, (3, 64, 64), False): (12_220_675, 10_141_441),
    (ResNet, (3, 128, 128), False): (32_150_787, 29_017_857),
    (ResNet, (1, 28, 28), False): (4_114_945, 1_051_265),
    (SAGAN, (3, 32, 32), False): (4_358_660, 1_074_306),
    (SAGAN, (3, 64, 64), True): (12_354_436, 10_172_162),
}


@pytest.mark.parametrize("networks, shape, conditional", COUNTS, ids=str)
def test_parameter_counts(networks, shape, conditional):
    net = networks(conditional=conditional)
    pair = net.generator(shape, 10), net.discriminator(shape, 10)
    assert tuple(map(count_parameters, pair)) == COUNTS[networks, shape, conditional]


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (3, 24, 40), (2, 16, 64)], ids=str)
@pytest.mark.parametrize("networks", [ResNet, SAGAN])
def test_shapes(networks, shape):
    net = networks(latent=5, width=8, discriminator_width=8, conditional=True)
    images = net.generator(shape, 3)(pixels(3, 5), LABELS)
    assert images.shape == (3, *shape) and images.abs().max() <= 1
    assert net.discriminator(shape, 3)(images, LABELS).shape == (3,)


def test_labels_reach_both_networks():
    net = ResNet(latent=5, width=8, discriminator_width=8, conditional=True)
    generator, discriminator = (
        net.generator((3, 16, 16), 3).eval(),
        net.discriminator((3, 16, 16), 3),
    )
    images, other = pixels(3, 3, 16, 16), (LABELS + 1) % 3
    assert not torch.equal(discriminator(images, LABELS), discriminator(images, other))
    with torch.no_grad():
        for block in generator.blocks:
            block.norm2.shift.copy_(pixels(3, 8))
    noise = pixels(3, 5)
    assert not torch.allclose(generator(noise, LABELS), generator(noise, other))


def test_an_auxiliary_head_ignores_labels_and_classifies():
    net = ResNet(discriminator_width=8, conditional=True, head="ac-gan")
    assert net.auxiliary and not ResNet(conditional=True).auxiliary
    discriminator, images = net.discriminator((3, 16, 16), 3), pixels(3, 3, 16, 16)
    assert discriminator(images, LABELS).shape == (3, 4)
    assert torch.equal(discriminator(images, LABELS), discriminator(images, 2 - LABELS))


def test_attention_is_where_the_setting_says():
    def places(size, shape):
        net = SAGAN(width=8, discriminator_width=8, attention_size=size)
        modules = net.generator(shape, 0).attentions, net.discriminator(shape, 0).attentions
        return [[isinstance(one, residual.SelfAttention) for one in found] for found in modules]

    assert places(16, (3, 32, 32)) == [[False, True, False], [True, False, False, False]]
    assert places(8, (3, 32, 32)) == [[True, False, False], [False, True, False, False]]
    assert places(16, (1, 28, 28)) == [[True, False], [True, False, False, False]]
    assert places(99, (3, 32, 32)) == [[False, False, True], [True, False, False, False]]
    assert places(16, (1, 8, 8)) == [[True], [True, False, False, False]]


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: ResNet(width=6), "networks.width must be a multiple of 4, not 6"),
        (lambda: ResNet(discriminator_width=7), "networks.discriminator_width .* not 7"),
        (lambda: SAGAN(attention_size=2), "networks.attention_size must be at least 4, not 2"),
        (lambda: SAGAN(attention_size=7).generator((3, 32, 32), 0), "=7 .* set it to 8 or more"),
        (lambda: SAGAN(attention_size=7).discriminator((3, 32, 32), 0), "set it to 8 or more"),
        (lambda: ResNet(head="ac-gan"), "needs labels: set networks.conditional=true"),
        (lambda: ResNet().generator((3, 27, 27), 0), "not 27x27: set data.size"),
        (lambda: ResNet().discriminator((3, 6, 32), 0), "not 6x32"),
    ],
)
def test_unsuitable_settings_are_explained(make, message):
    with pytest.raises(UserError, match=message):
        make()

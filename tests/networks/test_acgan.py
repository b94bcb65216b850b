"""Check the ACGANs of the MD-GAN paper: parameter counts, classes, minibatch discrimination."""

import re
import warnings
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from remuda import config
from remuda.errors import UserError
from remuda.networks import (
    ACGANMLP,
    NETWORKS,
    ACGANCelebA,
    ACGANCifar10,
    ACGANMnist,
    count_parameters,
)
from remuda.networks.minibatch import MinibatchDiscrimination

MNIST, CIFAR = (1, 28, 28), (3, 32, 32)
KERNELS = (16, 32, 64, 128, 256, 512)
MEBI = 2**20


def counts(networks, shape, num_classes=10):
    return (
        count_parameters(networks.generator(shape, num_classes)),
        count_parameters(networks.discriminator(shape, num_classes)),
    )


def convolutions(channels):
    """Count the weights and biases of the discriminators' six 3x3 convolutions."""
    return sum((9 * before + 1) * after for before, after in pairwise((channels, *KERNELS)))


def test_the_perceptrons_have_the_papers_counts():
    assert counts(ACGANMLP(), MNIST) == (716_560, 670_219)


def test_the_mnist_pair():
    generator = 101 * 6272 + (25 * 128 + 1) * 32 + (25 * 32 + 1) * 1
    discriminator = convolutions(1) + 11 * (512 * 7 * 7 + 1)
    bare = ACGANMnist(batch_norm="none", minibatch_kernels=0)
    assert counts(bare, MNIST) == (generator, discriminator) == (736_705, 1_848_459)
    expected = generator + 2 * 32, discriminator + 11 * 32
    assert counts(ACGANMnist(), MNIST) == expected == (736_769, 1_848_811)


def test_the_cifar_pair_has_the_sizes_of_the_traffic_table():
    generator = 101 * 6144 + (25 * 384 + 1) * 192 + (25 * 192 + 1) * 96 + (25 * 96 + 1) * 3
    discriminator = convolutions(3) + 11 * (512 * 4 * 4 + 1)
    bare = ACGANCifar10(batch_norm="none", minibatch_kernels=0)
    assert counts(bare, CIFAR) == (generator, discriminator) == (2_932_035, 1_662_891)
    w, theta = counts(ACGANCifar10(), CIFAR)
    expected = generator + 2 * (192 + 96), discriminator + 11 * 32
    assert (w, theta) == expected == (2_932_611, 1_663_243)
    for numbers in ((generator, discriminator), (w, theta)):
        sizes = [4 * number / MEBI for number in (*numbers, sum(numbers))]
        assert [f"{sizes[0]:.1f}", f"{sizes[1]:.2f}", f"{sizes[2]:.1f}"] == ["11.2", "6.34", "17.5"]
    normalised = counts(ACGANCifar10(batch_norm="both", minibatch_kernels=0), CIFAR)[1]
    assert normalised == discriminator + 2 * sum(KERNELS[1:])
    assert f"{4 * normalised / MEBI:.2f}" == "6.35"
    smallest = counts(ACGANCifar10(minibatch_kernels=1, minibatch_dims=1), CIFAR)[1]
    assert smallest == discriminator + 8192 + 11 and f"{4 * smallest / MEBI:.2f}" == "6.37"


def test_how_the_paper_calculates_its_other_counts():
    """Every kernel has one input channel, and no minibatch layer counts.

    In the networks for MNIST, the dense layers have no biases.
    """
    assert 100 * 6272 + (25 + 1) * (32 + 1) == 628_058
    assert (9 + 1) * sum(KERNELS) + 512 * 7 * 7 * 11 == 286_048
    assert 101 * 6144 + (25 + 1) * (192 + 96 + 3) == 628_110
    assert (9 + 1) * sum(KERNELS) + (512 * 4 * 4 + 1) * 11 == 100_203


@pytest.mark.parametrize("size, first", [(32, 256), (64, 64), (128, 16)])
def test_the_celeba_pair_starts_with_16384_neurons(size, first):
    generator = 101 * 16_384 + (25 * first + 1) * 128 + 2 * 128 + (25 * 128 + 1) * 3
    discriminator = convolutions(3) + 512 * (size // 8) ** 2 + 1
    assert counts(ACGANCelebA(), (3, size, size)) == (generator, discriminator)


FITS = [
    ("acgan-mlp", [(1, 8, 8), (3, 10, 6), (2, 1, 1)]),
    ("acgan-mnist", [(1, 8, 8), (1, 28, 28), (2, 12, 12), (3, 32, 32)]),
    ("acgan-cifar10", [(1, 8, 8), (2, 24, 24), (3, 32, 32)]),
    ("acgan-celeba", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 64, 64)]),
]


@pytest.mark.parametrize(
    "name, shape", [(name, shape) for name, shapes in FITS for shape in shapes]
)
@pytest.mark.parametrize("num_classes", [3, 10])
def test_shapes(name, shape, num_classes):
    networks, labels = NETWORKS[name](), torch.arange(2)
    images = networks.generator(shape, num_classes)(torch.randn(2, networks.latent), labels)
    assert images.shape == (2, *shape) and images.abs().max() <= 1
    outputs = networks.discriminator(shape, num_classes)(images, labels)
    assert outputs.shape == ((2, 1 + num_classes) if networks.auxiliary else (2,))
    assert networks.auxiliary == networks.conditional == (name != "acgan-celeba")


@pytest.mark.parametrize("name", ["acgan-mlp", "acgan-mnist", "acgan-cifar10"])
def test_labels_matter_only_to_the_generator(name):
    networks, shape, labels = NETWORKS[name](latent=12), (1, 8, 8), torch.tensor([0, 9])
    generator = networks.generator(shape, 10).eval()
    discriminator = networks.discriminator(shape, 10).eval()
    noise = torch.randn(2, 12)
    images = generator(noise, labels)
    assert not torch.equal(images, generator(noise, labels.flip(0)))
    assert torch.equal(discriminator(images, labels), discriminator(images, labels.flip(0)))
    other = noise.clone()
    other[:, :10] = 0.0
    assert torch.equal(images, generator(other, labels)), "the label takes the first ten places"
    other[:, 10:] = 0.0
    assert not torch.equal(images, generator(other, labels))


def test_bad_settings_are_refused_with_a_message():
    for networks in (ACGANMLP, ACGANMnist, ACGANCifar10):
        with pytest.raises(UserError, match=r"networks\.conditional must be true"):
            networks(conditional=False)
        with pytest.raises(UserError, match=r"networks\.latent=10 .* at least 11"):
            networks(latent=10).generator((1, 8, 8), 10)
    with pytest.raises(UserError, match=r"networks\.conditional must be false"):
        ACGANCelebA(conditional=True)
    with pytest.raises(UserError, match="a multiple of 8, not 28x28: set data"):
        ACGANCifar10().discriminator(MNIST, 10)
    with pytest.raises(UserError, match="not 8x16"):
        ACGANMnist().generator((1, 8, 16), 10)
    with pytest.raises(UserError, match=r"networks\.dropout"):
        ACGANCelebA(dropout=1.0)
    with pytest.raises(UserError, match=r"minibatch_kernels=50 .* power of 2"):
        ACGANMnist(minibatch_kernels=50)
    with pytest.raises(UserError, match="at least 0"):
        ACGANMnist(minibatch_dims=-1)


def test_initial_weights_are_those_of_keras():
    transposed = ACGANCifar10().generator((3, 32, 32), 10).layers[3]
    dense = ACGANMLP().generator((3, 32, 32), 10).layers[0]
    own = ACGANMLP(weights="torch").generator((3, 32, 32), 10).layers[0]
    for layer, total_fan in ((transposed, 25 * (384 + 192)), (dense, 100 + 512)):
        bound = (6 / total_fan) ** 0.5
        assert layer.weight.abs().max().item() == pytest.approx(bound, rel=1e-3)
        assert not layer.bias.any()
    assert own.weight.abs().max().item() == pytest.approx(100**-0.5, rel=1e-3) and own.bias.any()


def test_settings_survive_a_round_trip_through_a_file():
    for name in ("acgan-mlp", "acgan-celeba"):
        made = config.from_dict({"networks": {"name": name}})
        assert made.networks == NETWORKS[name]() and config.from_dict(config.to_dict(made)) == made
    assert "auxiliary" not in config.to_dict(made)["networks"]


def by_double_loop(rows):
    """Follow section 3.2 of Salimans et al., divided by the batch size.

    (b, kernels, numbers) -> (b, kernels)
    """
    batch, num_kernels, _ = rows.shape
    numbers = torch.zeros(batch, num_kernels, dtype=rows.dtype)
    for i in range(batch):
        for j in range(batch):
            for kernel in range(num_kernels):
                pairs = zip(rows[i, kernel], rows[j, kernel], strict=True)
                distance = sum(abs(a - b) for a, b in pairs)
                numbers[i, kernel] += torch.exp(-distance) / batch
    return numbers


@pytest.mark.parametrize("num_dims", [0, 2])
def test_minibatch_discrimination_equals_a_double_loop(num_dims):
    torch.manual_seed(0)
    layer = MinibatchDiscrimination(12, 3, num_dims).double()
    features = torch.randn(5, 12, dtype=torch.float64)
    projected = features @ layer.projection.T if num_dims else features
    assert torch.allclose(layer(features), by_double_loop(projected.reshape(5, 3, num_dims or 4)))


def test_minibatch_discrimination_by_hand():
    layer = MinibatchDiscrimination(4, 2)
    features = torch.tensor([[0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]])
    close = torch.exp(torch.tensor(-1.0))
    assert torch.allclose(layer(features), torch.tensor([[(1 + close) / 2, 1.0]] * 2))
    assert count_parameters(layer) == 0
    assert count_parameters(MinibatchDiscrimination(4, 3, 5)) == 4 * 3 * 5


@pytest.mark.parametrize("num_dims", [0, 5])
def test_the_discriminator_compares_the_images_of_a_batch(num_dims):
    torch.manual_seed(0)
    discriminator = ACGANMnist(minibatch_dims=num_dims).discriminator((1, 8, 8), 3).eval()
    images = torch.rand(2, 1, 8, 8) * 2 - 1
    alone, together = discriminator(images[:1], None), discriminator(images, None)[:1]
    assert not torch.allclose(alone, together, atol=1e-7)
    bare = ACGANMnist(minibatch_kernels=0).discriminator((1, 8, 8), 3).eval()
    assert torch.allclose(bare(images[:1], None), bare(images, None)[:1], atol=1e-6)


@pytest.mark.parametrize("name", ["acgan-mlp", "acgan-mnist", "acgan-cifar10", "acgan-celeba"])
def test_a_stack_of_networks_needs_no_slow_path(name):
    networks, shape = NETWORKS[name](latent=12), (1, 8, 8)
    generators = [networks.generator(shape, 3) for _ in range(2)]
    discriminators = [networks.discriminator(shape, 3) for _ in range(2)]
    noise, labels = torch.randn(2, 4, 12), torch.tensor([0, 1, 2, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # vmap warns where it falls back to a loop
        images = _together(generators, noise, labels)
        _together(discriminators, images, labels)


def _together(modules, inputs, labels):
    """Return the outputs of all members; compute the gradients of their parameters as well."""
    params, buffers = torch.func.stack_module_state(modules)
    template = modules[0]

    def loss(params, buffers, x):
        buffers = {name: buffer.clone() for name, buffer in buffers.items()}
        outputs = torch.func.functional_call(template, (params, buffers), (x, labels))
        return outputs.square().sum(), outputs

    _, outputs = torch.func.vmap(torch.func.grad(loss, has_aux=True))(params, buffers, inputs)
    for member, module in enumerate(modules):
        assert torch.allclose(outputs[member], module(inputs[member], labels), atol=1e-5)
    return outputs.detach()


def test_the_documentation_has_these_counts():
    text = (Path(__file__).parents[2] / "docs" / "networks.md").read_text()
    row = r"^\| `(acgan-\w+)` \| (\d+) x (\d+) x (\d+) \| ([\d,]+) \| ([\d,]+) \|$"
    rows = re.findall(row, text, re.MULTILINE)
    assert {name for name, *_ in rows} == {name for name, _ in FITS}
    for name, channels, height, width, *printed in rows:
        shape = int(channels), int(height), int(width)
        assert printed == [f"{count:,}" for count in counts(NETWORKS[name](), shape)], (name, shape)

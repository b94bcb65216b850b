"""Compare the networks with the papers' tables by their parameter counts."""

import io

import pytest
import torch
from rich.console import Console

from remuda.errors import UserError
from remuda.networks import DCGAN, MLP, NETWORKS, WCGAN, count_parameters
from remuda.networks.layers import BatchNorm2d, Dropout, UpsampledConv2d
from remuda.networks.residual import ConditionalBatchNorm2d
from remuda.networks.summary import tables
from tests.networks.small import shrink_acgans, small

CIFAR, MNIST, LABELS = (3, 32, 32), (1, 28, 28), torch.tensor([0, 9])


def counts(networks, shape, num_classes=10):
    return (
        count_parameters(networks.generator(shape, num_classes)),
        count_parameters(networks.discriminator(shape, num_classes)),
    )


def convolution(num_in, num_out):
    """Count the weights and biases of a 3x3 convolution."""
    return (9 * num_in + 1) * num_out


def test_dcgan_tables_1_and_2():
    generator = 101 * 8192 + convolution(128, 128) + convolution(128, 64) + convolution(64, 3)
    generator += 2 * (128 + 128 + 64)  # BatchNorms
    body = convolution(3, 16) + convolution(16, 32) + convolution(32, 64) + convolution(64, 128)
    body += 2 * (32 + 64 + 128)  # BatchNorms
    assert counts(DCGAN(), CIFAR) == (generator, body + 512 + 1) == (1_051_139, 98_401)
    # Table 2's 2,048 features belong to 64x64 images.
    assert counts(DCGAN(), (3, 64, 64))[1] == body + 2048 + 1


def test_dc_cgan_tables_3_and_4():
    """In table 4 the discriminator does not receive the label; by default ours does."""
    as_printed = DCGAN(conditional=True, judge_label=False)
    assert counts(as_printed, CIFAR) == (1_051_139 + 10 * 8192, 98_401)
    assert counts(DCGAN(conditional=True), CIFAR)[1] == 98_401 + 10 * 9 * 16
    assert DCGAN(conditional=True).generator(CIFAR, 10).input.in_features == 110


def test_w_cgan_has_the_same_sizes_and_a_leaky_input():
    assert counts(WCGAN(critic="table"), CIFAR) == counts(DCGAN(), CIFAR)
    plain = convolution(3, 64) + convolution(64, 128) + convolution(128, 256)
    plain += convolution(256, 512) + 4 * 512 + 1
    assert counts(WCGAN(), CIFAR)[1] == plain
    assert counts(WCGAN(conditional=True), CIFAR)[1] == plain + 10 * 9 * 64
    assert isinstance(WCGAN().generator(CIFAR, 10).activation, torch.nn.LeakyReLU)
    assert isinstance(DCGAN().generator(CIFAR, 10).activation, torch.nn.ReLU)


def modules_of(network, kind):
    return [module for module in network.modules() if isinstance(module, kind)]


def test_epsilons_are_those_of_the_tables():
    norms = modules_of(DCGAN().generator(CIFAR, 10), torch.nn.BatchNorm2d)
    assert [norm.eps for norm in norms] == [1e-5, 0.8, 0.8]
    assert {norm.momentum for norm in norms} == {0.1}
    norms = modules_of(DCGAN().discriminator(CIFAR, 10), torch.nn.BatchNorm2d)
    assert [norm.eps for norm in norms] == [0.8, 0.8, 0.8]


def test_cellular_mlp():
    assert counts(MLP(), MNIST) == (283_920, 267_009)
    assert modules_of(MLP(activation="tanh").discriminator(MNIST, 10), torch.nn.Tanh)


@pytest.mark.parametrize("name", ["dcgan", "wcgan", "mlp"])
@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (2, 12, 12)])
def test_every_family_fits_every_shape(name, conditional, shape):
    networks = NETWORKS[name](conditional=conditional)
    images = networks.generator(shape, 10)(torch.randn(2, networks.latent), LABELS)
    assert images.shape == (2, *shape) and images.abs().max() <= 1
    assert networks.discriminator(shape, 10)(images, LABELS).shape == (2,)


@pytest.mark.parametrize("shape", [(1, 30, 30), (1, 8, 16), (2, 1, 1), (1, 4, 4)])
def test_convolutions_refuse_other_shapes(shape):
    with pytest.raises(UserError, match=r"data\.size"):
        DCGAN().generator(shape, 10)


def test_labels_matter_only_to_conditional_networks():
    for networks in (MLP(), MLP(conditional=True), DCGAN(), DCGAN(conditional=True)):
        generator = networks.generator((1, 8, 8), 10).eval()
        noise = torch.randn(2, networks.latent)
        same = torch.equal(generator(noise, LABELS), generator(noise, LABELS.flip(0)))
        assert same != networks.conditional


def test_dropout_drops_its_share_and_advances_its_key():
    torch.manual_seed(0)
    dropout = Dropout(0.25, (10, 50), (20,))
    images = torch.ones(100, 3)
    first, second = dropout(images), dropout(images)
    assert [mask.shape for mask in first] == [(100, 10, 50), (100, 20)]
    assert first[0].unique().tolist() == pytest.approx([0, 4 / 3])
    assert (first[0] == 0).float().mean() == pytest.approx(0.25, abs=0.01)
    assert not torch.equal(first[0], second[0])
    assert not torch.equal(first[0].flatten()[:2000], first[1].flatten()), "layers share no draws"
    assert [mask.item() for mask in dropout.eval()(images)] == [1, 1]


def test_summary_names_every_layer_and_the_totals():
    console = Console(width=120, record=True, file=io.StringIO())
    for table in tables(DCGAN(), CIFAR, 10):
        console.print(table)
    text = console.export_text()
    for part in ("1,051,139 parameters", "98,401 parameters", "128 x 16 x 16"):
        assert part in text


@pytest.mark.parametrize("size", [2, 4, 7])
def test_upsampled_convolution_equals_its_two_layers(size):
    torch.manual_seed(0)
    layer = UpsampledConv2d(3, 5).double()
    x = torch.randn(2, 3, 2 if size == 2 else 6, size, dtype=torch.float64, requires_grad=True)
    enlarged = torch.nn.functional.interpolate(x, scale_factor=2, mode="nearest")
    expected = torch.nn.functional.conv2d(enlarged, layer.weight, layer.bias, padding=1)
    assert torch.allclose(layer(x), expected)
    inputs, cotangent = (x, layer.weight, layer.bias), torch.randn_like(expected)
    gradients = torch.autograd.grad(layer(x), inputs, cotangent)
    expected_gradients = torch.autograd.grad(expected, inputs, cotangent)
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        assert torch.allclose(gradient, expected_gradient)


def test_the_formulas_of_batch_norm_equal_the_librarys():
    torch.manual_seed(0)
    written, native = BatchNorm2d(3, 0.8), BatchNorm2d(3, 0.8)
    x = torch.randn(4, 3, 5, 5) * 3 + 1

    def formulas(x):
        return written.formulas(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    for _ in range(2):
        assert torch.allclose(formulas(x), native(x), atol=2e-6)
        for name, buffer in native.named_buffers():
            assert torch.allclose(dict(written.named_buffers())[name], buffer, atol=1e-6)
    written.eval(), native.eval()
    assert torch.allclose(formulas(x), native(x), atol=2e-6)


def test_a_single_pixel_cannot_be_normalised():
    with pytest.raises(UserError, match=r"raise strategy\.batch_size above 1"):
        BatchNorm2d(3, 0.8)(torch.randn(1, 3, 1, 1))
    BatchNorm2d(3, 0.8).eval()(torch.randn(1, 3, 1, 1))


@pytest.mark.parametrize("name", NETWORKS)
def test_generators_accept_mixtures_of_labels(name, monkeypatch):
    shrink_acgans(monkeypatch)
    uses_labels = name != "acgan-celeba"
    networks = small(name, conditional=uses_labels)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        generator = networks.generator((1, 16, 16), 3).eval()
        noise = torch.randn(2, 5)
        for block in generator.modules():
            # Conditional BatchNorms start with the same numbers for every class.
            if isinstance(block, ConditionalBatchNorm2d):
                torch.nn.init.normal_(block.shift)
    with torch.no_grad():
        plain = generator(noise, torch.tensor([0, 2]))
        certain = generator(noise, torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
        mixed = generator(noise, torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]))
    assert torch.equal(plain, certain) and mixed.shape == plain.shape
    assert torch.allclose(plain, mixed) != uses_labels

"""Compare convolutions as matrix products with the library's convolutions.

The second test compares the compiled gradients of a population.
"""

import pytest
import torch

from remuda.networks import products


def on_channels_first(convolve, x, *arguments):
    """Apply a convolution of images (b, H, W, C) to images (b, C, H, W)."""
    return convolve(x.permute(0, 2, 3, 1), *arguments).permute(0, 3, 1, 2)


@pytest.mark.parametrize("size", [1, 2, 4, 5, 8])
def test_matrix_products_equal_convolutions(size):
    torch.manual_seed(0)
    x, weight, bias = (
        torch.randn(shape, dtype=torch.float64)
        for shape in ((2, 3, size, size), (5, 3, 3, 3), (5,))
    )
    kernel = torch.randn(3, 5, 4, 4, dtype=torch.float64)
    conv2d, transposed = torch.nn.functional.conv2d, torch.nn.functional.conv_transpose2d
    for stride in (1, 2):
        expected = conv2d(x, weight, bias, stride, padding=1)
        product = on_channels_first(products.by_patches, x, weight, bias, stride)
        assert torch.allclose(product, expected)
    product = on_channels_first(products.by_overlap, x, weight, bias)
    assert torch.allclose(product, conv2d(x, weight, bias, padding=1))
    product = on_channels_first(products.upsampled, x, kernel, bias)
    assert torch.allclose(product, transposed(x, kernel, bias, stride=2, padding=1))


def total(convolve):
    """Return a loss of (x, weight, kernel, bias) that uses all three forms."""

    def loss(x, weight, kernel, bias):
        small, same, large = convolve(x, weight, kernel, bias)
        return small.square().sum() + same.sin().sum() + large.cos().sum()

    return loss


def by_products(x, weight, kernel, bias):
    return (
        on_channels_first(products.by_patches, x, weight, bias, 2),
        on_channels_first(products.by_overlap, x, weight, bias),
        on_channels_first(products.upsampled, x, kernel, bias),
    )


def by_library(x, weight, kernel, bias):
    conv2d, transposed = torch.nn.functional.conv2d, torch.nn.functional.conv_transpose2d
    return (
        conv2d(x, weight, bias, 2, padding=1),
        conv2d(x, weight, bias, padding=1),
        transposed(x, kernel, bias, stride=2, padding=1),
    )


def test_gradients_of_a_compiled_population():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shapes = (2, 3, 2, 4, 4), (2, 5, 2, 3, 3), (2, 2, 5, 4, 4), (2, 5)  # two members
    rows = [torch.randn(shape, device=device) for shape in shapes]
    arguments = tuple(range(4))
    population = torch.func.vmap(torch.func.grad(total(by_products), arguments))
    gradients = torch.compile(population, fullgraph=True)(*rows)
    for member in range(2):
        expected = torch.func.grad(total(by_library), arguments)(*(row[member] for row in rows))
        for gradient, one in zip(gradients, expected, strict=True):
            assert torch.allclose(gradient[member], one, atol=1e-3, rtol=1e-3)

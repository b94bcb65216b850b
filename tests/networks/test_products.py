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


def test_second_gradients_of_products():
    """A gradient penalty differentiates the gradient with respect to images once more."""
    torch.manual_seed(0)
    shapes = (2, 2, 6, 6), (3, 2, 3, 3), (2, 3, 4, 4), (3,)
    rows = [torch.randn(shape, dtype=torch.float64) for shape in shapes]

    def penalty(convolve):
        def output(x, weight, kernel, bias):
            small, same, large = convolve(x, weight, kernel, bias)
            return small.sin().sum() + same.sin().sum() + large.sin().sum()

        def loss(weight, kernel, bias):
            x = rows[0]
            return torch.func.grad(output)(x, weight, kernel, bias).square().sum()

        return torch.func.grad(loss, (0, 1, 2))(*rows[1:])

    for one, other in zip(penalty(by_products), penalty(by_library), strict=True):
        assert torch.allclose(one, other)


def test_small_matrices_are_multiplied_in_parts():
    # 100 images of 1,024 rows and one tile: 32 parts would do, and 50 is the next divisor of 100.
    assert products._num_parts(100, 1024, tiles=1) == 50
    # Parts of at least 2,048 rows: 6,400 rows allow 3 parts, and 2 is a divisor of 100.
    assert products._num_parts(100, 64, tiles=1) == 2
    assert products._num_parts(100, 289, tiles=8) == 4
    assert products._num_parts(100, 289, tiles=40) == 1
    assert products._num_parts(3, 1, tiles=1) == 1

"""Codecs: hand-made numbers, sizes, shapes and types, and rows that diverged."""

import pytest
import torch

from remuda.engines.mpi import packing
from remuda.tensors import trees
from remuda.tensors.codecs import BLOCK, CODECS, Coded, Compressor

NAN, INF = float("nan"), float("inf")
LOSSY = [name for name in CODECS if name != "none"]


def through(codec, rows, share=0.25):
    compressor = Compressor(codec, share)
    return compressor.decode(compressor.encode(rows))


def test_int8_divides_the_largest_magnitude_by_127():
    numbers = torch.tensor([[-2.54, 0.02, 0.009, 1.27, 0, 0, 0, 0, 0, 0]])
    coded = Compressor("int8").encode(numbers)
    assert coded.parts[0].tolist() == [[-127, 1, 0, 64, 0, 0, 0, 0, 0, 0]]
    assert coded.parts[1].tolist() == [[pytest.approx(2.54)]]
    expected = torch.tensor([[-2.54, 0.02, 0, 1.28, 0, 0, 0, 0, 0, 0]])
    assert torch.allclose(Compressor("int8").decode(coded), expected)


def test_int4_packs_two_numbers_from_minus_7_to_7_in_a_byte():
    numbers = torch.tensor([[7.0, -7.0, 1.4, 0.0, 3.0]])
    packed, scales = Compressor("int4").encode(numbers).parts
    assert packed.tolist() == [[15 + 16 * 1, 9 + 16 * 8, 11 + 16 * 0]] and scales.tolist() == [[7]]
    assert through("int4", numbers).tolist() == [[7, -7, 1, 0, 3]]


def test_sign_sends_one_bit_per_number_and_the_mean_magnitude_of_a_block():
    numbers = torch.tensor([[1.0, -2.0, 3.0, -4.0, 5.0, 6.0, -7.0, -8.0, 9.0]])
    packed, scales = Compressor("sign").encode(numbers).parts
    assert packed.tolist() == [[1 + 4 + 16 + 32, 1]] and scales.tolist() == [[5]]
    assert through("sign", numbers).tolist() == [[5, -5, 5, -5, 5, 5, -5, -5, 5]]


def test_int16_keeps_numbers_of_any_size():
    numbers = torch.tensor([[1e-12, 3e-13, -5e-14, 0.0], [1e9, 3e8, 5e7, 0.0]]).repeat(1, 3)
    assert torch.allclose(through("int16", numbers), numbers, rtol=1e-3, atol=0)


def test_top_k_sends_the_largest_magnitudes_and_earlier_places_win_ties():
    numbers = torch.tensor([[1.0, -3.0, 2.0, 3.0, 3.0, 0.5, 0.0, 0.0]])
    values, scale, places = Compressor("top-k", 0.25).encode(numbers).parts
    assert places.tolist() == [[1, 3]] and places.dtype == torch.int16
    assert values.tolist() == [[-32767, 32767]] and scale.tolist() == [[3]]
    assert through("top-k", numbers).tolist() == [[0, -3, 0, 3, 0, 0, 0, 0]]
    ties = torch.ones(1, 3 * BLOCK)
    assert Compressor("top-k", 0.1).encode(ties).parts[2].tolist() == [list(range(154))]
    places = Compressor("top-k", 1e-3).encode(torch.rand(1, 2**15 + 1)).parts[2]
    assert places.dtype == torch.int32


@pytest.mark.parametrize(("share", "kept"), [(0.26, 3), (0.24, 2), (0.01, 1)])
def test_top_k_rounds_the_number_of_places_but_sends_at_least_one(share, kept):
    assert Compressor("top-k", share).encode(torch.rand(2, 10)).parts[2].shape == (2, kept)


@pytest.mark.parametrize("codec", ["int8", "int4", "sign"])
def test_every_block_has_its_own_scale(codec):
    numbers = torch.cat([torch.full((1, BLOCK), 1e-6), torch.full((1, 100), 5.0)], 1)
    assert torch.allclose(through(codec, numbers), numbers)


@pytest.mark.parametrize("codec", LOSSY)
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 7), (1, 3 * BLOCK + 1), (3, 2, 513)])
def test_shapes_types_and_sizes(codec, shape):
    compressor = Compressor(codec, 0.05)
    rows = {"x": torch.randn(shape), "n": torch.arange(shape[0]), "more": (torch.randn(shape),)}
    sent = compressor.encode(rows)
    assert all(len(leaf) == shape[0] for leaf in trees.leaves(sent))
    size = rows["x"][0].numel()
    assert trees.num_bytes(sent["x"]) == shape[0] * compressor.row_bytes([size])
    found = compressor.decode(sent)
    for (name, a), (_, b) in zip(*map(trees.named_leaves, (rows, found)), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype, name
    # A receiver that only has the description can restore the rows.
    copy = packing.build(packing.describe(sent), shape[0], torch.device("cpu"))
    for target, leaf in zip(trees.leaves(copy), trees.leaves(sent), strict=True):
        target.copy_(leaf)
    assert trees.equal(compressor.decode(copy), found)


@pytest.mark.parametrize("codec", LOSSY)
def test_rows_that_would_not_shrink_travel_as_they_are(codec):
    rows = {"one": torch.randn(3, 1), "scalar": torch.randn(3), "empty": torch.zeros(3, 0)}
    rows["count"] = torch.arange(3)
    sent = Compressor(codec, 0.05).encode(rows)
    assert not any(isinstance(part, Coded) for part in sent.values())
    assert trees.equal(sent, rows)
    assert Compressor(codec, 0.05).row_bytes([1]) == 4


@pytest.mark.parametrize("codec", LOSSY)
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_a_diverged_row_stays_visible_and_does_not_change_others(codec, bad):
    rows = torch.randn(3, 40)
    expected = through(codec, rows)
    rows[1, 7] = bad
    found = through(codec, rows)
    assert found[1].isnan().all()
    assert torch.equal(found[[0, 2]], expected[[0, 2]])


def test_a_row_that_diverged_keeps_none_of_its_largest_numbers():
    """With two blocks of kept numbers, only the first one contains the infinite number."""
    rows = torch.randn(2, 3 * BLOCK)
    rows[0, 5] = INF
    found = through("top-k", rows, 0.5)
    assert found[0].isnan().all() and found[1].isfinite().all()


@pytest.mark.parametrize("codec", LOSSY)
def test_zeros_stay_zeros(codec):
    assert not through(codec, torch.zeros(2, 50)).any()


@pytest.mark.parametrize(
    ("codec", "worst"), [("int16", 0.5 / 32767), ("int8", 0.5 / 127), ("int4", 1 / 14)]
)
def test_the_error_is_at_most_half_a_step(codec, worst):
    rows = torch.randn(4, 3, 300, generator=torch.Generator().manual_seed(0))
    blocks = through(codec, rows).sub(rows).abs().flatten(1)
    # Numbers near the largest have a rounding error of up to 0.4 % of a step of int16.
    assert blocks.max() <= worst * rows.abs().max() * 1.005

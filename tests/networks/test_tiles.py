"""Check the choice of tiles and parts against the fastest ones that were measured."""

from remuda.networks.tiles import Tile, gather_tile, num_parts, power, quotient, weight_tile

BATCH, MEMBERS = 100, 10


def parts(size: int, depth: int, channels: int, side: int) -> int:
    """Return the parts of a weight gradient of ``channels`` images of side x side pixels."""
    terms, pixels = size * size * depth, BATCH * side * side
    tile = weight_tile(channels, terms, pixels)
    blocks = quotient(terms, tile.rows) * quotient(channels, tile.columns)
    return num_parts(MEMBERS * blocks, quotient(pixels, tile.depth), terms * channels)


def test_large_weight_gradients_have_few_parts():
    assert parts(4, 128, 128, 8) == 1  # up-sampling 8x8, 128 -> 128 channels
    assert parts(4, 64, 128, 16) == 2  # up-sampling 16x16, 128 -> 64 channels
    assert parts(3, 64, 128, 8) == 3  # 160 instead of 528 programs
    assert parts(3, 128, 256, 4) == 1
    assert parts(3, 256, 512, 2) == 1


def test_small_weight_gradients_have_many_parts():
    assert parts(3, 3, 16, 16) == 50  # 400 steps of 64 pixels, at least 8 in each part
    assert parts(3, 3, 64, 32) == 53  # 528 programs


def test_tiles_fit_the_matrices():
    assert weight_tile(channels=512, terms=2304, pixels=400) == Tile(64, 128, 64, 4, 4)
    assert weight_tile(channels=256, terms=1152, pixels=1600) == Tile(128, 128, 64)
    assert weight_tile(channels=3, terms=27, pixels=10_000) == Tile(32, 16, 64)
    assert gather_tile(3, 64, 3, 1, transposed=False) == Tile(128, 16, 64, square=2)
    assert gather_tile(64, 128, 4, 2, transposed=True) == Tile(128, 128, 64)
    assert [power(n) for n in (1, 2, 3, 16, 27)] == [1, 2, 4, 16, 32]
    assert [quotient(n, 4) for n in (1, 4, 5)] == [1, 1, 2]

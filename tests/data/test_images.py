import torch

from remuda.data import DataConfig, to_bytes, to_unit
from remuda.data.images import resize, to_colour, to_grey


def test_bytes_survive_a_round_trip():
    pixels = torch.arange(256, dtype=torch.uint8)
    unit = to_unit(pixels)
    assert unit.dtype == torch.float32 and unit[0] == -1.0 and unit[-1] == 1.0
    assert torch.equal(to_bytes(unit), pixels)


def test_to_bytes_clamps_and_rounds():
    assert to_bytes(torch.tensor([-9.0, 9.0, 0.0, -1.0 + 0.6 / 127.5])).tolist() == [0, 255, 128, 1]


def test_tensors_of_the_right_type_are_returned_unchanged():
    points, pixels = torch.rand(3), torch.zeros(3, dtype=torch.uint8)
    assert to_unit(points) is points and to_bytes(pixels) is pixels


def test_resize_keeps_a_plain_image_plain_and_averages_when_it_shrinks():
    plain = torch.full((2, 3, 5, 5), 77, dtype=torch.uint8)
    for size in (2, 5, 9):
        expected = torch.full((2, 3, size, size), 77, dtype=torch.uint8)
        assert torch.equal(resize(plain, (size, size), DataConfig()), expected)
    stripes = torch.zeros(1, 1, 8, 8, dtype=torch.uint8)
    stripes[..., ::2] = 200
    # Without antialiasing the pixels would be 0 or 200.
    assert (resize(stripes, (2, 2), DataConfig()).float() - 100).abs().max() < 30


def test_resize_works_in_chunks(monkeypatch):
    images = torch.randint(0, 256, (7, 1, 6, 6), dtype=torch.uint8)
    whole = resize(images, (4, 4), DataConfig())
    monkeypatch.setattr("remuda.data.images._CHUNK", 3)
    assert torch.equal(resize(images, (4, 4), DataConfig()), whole)


def test_resize_to_another_aspect_ratio():
    columns = torch.arange(8, dtype=torch.uint8).mul(10).expand(1, 1, 8, 8)
    sides = 4, 8
    stretched = resize(columns, sides, DataConfig(fit="stretch"))
    assert stretched.shape == (1, 1, *sides) and torch.equal(stretched[0, 0, 0], columns[0, 0, 0])
    rows = columns.transpose(2, 3)
    cropped = resize(rows, sides, DataConfig(fit="crop", filter="bicubic"))
    assert torch.equal(cropped, rows[:, :, 2:6])
    padded = resize(rows + 1, sides, DataConfig(fit="pad", background="white"))
    assert padded.shape == (1, 1, *sides)
    assert (padded[..., :2] == 255).all() and (padded[..., 6:] == 255).all()
    assert (padded[..., 2:6] < 80).all()


def test_grey_and_colour():
    red = torch.zeros(1, 3, 2, 2, dtype=torch.uint8)
    red[:, 0] = 255
    assert to_grey(red).unique().tolist() == [76]
    white = torch.full((1, 3, 1, 1), 255, dtype=torch.uint8)
    assert to_grey(white).flatten().tolist() == [255]
    assert to_colour(to_grey(red)).shape == (1, 3, 2, 2)

import gzip

import numpy as np
import pytest

from remuda.data.idx import read_idx, read_pair
from remuda.errors import UserError

from .samples import idx_bytes

_IMAGES = np.arange(2 * 3 * 4).reshape(2, 3, 4)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_reads_plain_and_gzipped_whatever_the_name(tmp_path, pack):
    path = tmp_path / "images.gz"
    path.write_bytes(pack(idx_bytes(_IMAGES)))
    assert np.array_equal(read_idx(path, 3), _IMAGES)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "is truncated: it has 0 bytes, but its header needs 16"),
        (idx_bytes(_IMAGES)[:10], "is truncated: it has 10 bytes"),
        (idx_bytes(_IMAGES)[:-1], "is truncated: it has 23 bytes instead of 2 x 3 x 4 = 24"),
        (idx_bytes(_IMAGES) + b"!", "has extra bytes at its end: it has 25 bytes instead of"),
        (idx_bytes(_IMAGES[0]) + bytes(9), "magic number is 0x00000802 instead of 0x00000803"),
        (b"<html>not what you wanted</html>", "magic number"),
        (gzip.compress(idx_bytes(_IMAGES), mtime=0)[:-9], "truncated or corrupt gzip"),
        (
            gzip.compress(idx_bytes(_IMAGES), mtime=0)[:20] + b"xxxxxxxxxxxxxxxxxxx",
            "truncated or corrupt gzip",
        ),
        (b"\x1f\x8b", "truncated or corrupt gzip"),
    ],
)
def test_the_message_names_a_bad_file_and_its_problem(tmp_path, raw, message):
    path = tmp_path / "images"
    path.write_bytes(raw)
    with pytest.raises(UserError, match=message) as caught:
        read_idx(path, 3)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("num_images", "labels", "message"),
    [
        (3, [0, 1], "has 3 images, but .* has 2 labels"),
        (2, [0, 10], "contains the label 10, above 9"),
        (0, [], "contains no images"),
    ],
)
def test_images_and_labels_must_agree(tmp_path, num_images, labels, message):
    (tmp_path / "i").write_bytes(idx_bytes(np.zeros((num_images, 2, 2))))
    (tmp_path / "l").write_bytes(idx_bytes(np.array(labels)))
    with pytest.raises(UserError, match=message):
        read_pair(tmp_path / "i", tmp_path / "l", 10)


def test_a_pair_has_a_channel_axis(tmp_path):
    (tmp_path / "i").write_bytes(idx_bytes(_IMAGES))
    (tmp_path / "l").write_bytes(idx_bytes(np.array([3, 9])))
    images, labels = read_pair(tmp_path / "i", tmp_path / "l", 10)
    assert images.shape == (2, 1, 3, 4) and labels.tolist() == [3, 9] and labels.dtype == np.int64

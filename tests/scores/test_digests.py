import hashlib

import torch

from remuda.scores import digests
from remuda.scores.digests import image_digest, tensor_digest


def test_an_image_digest_is_that_of_shape_and_bytes():
    images = torch.arange(12, dtype=torch.uint8).reshape(3, 1, 2, 2)
    raw = b"images torch.uint8 [3, 1, 2, 2]\n" + bytes(range(12))
    expected = hashlib.sha256(raw).hexdigest()[:16]
    assert image_digest(images) == expected
    assert image_digest(images.reshape(1, 3, 2, 2)) != expected
    assert image_digest(images.flip(0)) != expected
    assert image_digest(images.flip(0).flip(0)) == expected  # in any memory layout
    assert image_digest(images[:0]) != expected


def test_blocks_make_no_difference(monkeypatch):
    values = torch.linspace(0, 1, 1001)
    whole = image_digest(values)
    monkeypatch.setattr(digests, "_BLOCK", 64)
    assert image_digest(values) == whole


def test_name_type_and_value_change_the_digest_of_weights():
    one, two = torch.zeros(2), torch.ones(2)
    digest = tensor_digest({"a": one, "b": two})
    assert tensor_digest({"b": two, "a": one}) == digest and len(digest) == 16
    others = [{"a": two, "b": one}, {"a": one, "c": two}, {"a": one.half(), "b": two}, {"a": one}]
    assert len({digest, *map(tensor_digest, others)}) == 5

"""Check Inception against a plain forward pass with BatchNorm, and against pinned features.

Check also how its weights are found.
"""

import hashlib
import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from remuda.data import DataConfig, load
from remuda.data.files import locate
from remuda.data.sources import SOURCES
from remuda.errors import UserError
from remuda.scores.features import inception_files
from remuda.scores.features.inception import Inception, find_inception
from remuda.scores.features.inception_layers import build, fold, layers

CPU = torch.device("cpu")
_REAL = os.environ.get("REMUDA_DATA", "")


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch, tmp_path):
    monkeypatch.delenv("REMUDA_DATA", raising=False)
    monkeypatch.setenv("REMUDA_MIRROR", f"file://{tmp_path}/mirror")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class Plain:
    """The unfolded network with the public file's names; it draws missing weights."""

    def __init__(self) -> None:
        self.weights: dict[str, Tensor] = {}
        self.draws = torch.Generator().manual_seed(0)

    def conv(
        self, x: Tensor, name: str, out: int, kernel: tuple[int, int], stride=1, padding=(0, 0)
    ) -> Tensor:
        if f"{name}.conv.weight" not in self.weights:
            self.draw(name, x.shape[1], out, kernel)
        x = F.conv2d(x, self.weights[f"{name}.conv.weight"], None, stride, padding)
        norm = [
            self.weights[f"{name}.bn.{key}"]
            for key in ("running_mean", "running_var", "weight", "bias")
        ]
        return F.relu(F.batch_norm(x, *norm, training=False, eps=0.001))

    def draw(self, name: str, num_in: int, out: int, kernel: tuple[int, int]) -> None:
        fan_in = num_in * kernel[0] * kernel[1]
        normal = torch.randn(out, num_in, *kernel, generator=self.draws)
        a, b, c, d = torch.rand(4, out, generator=self.draws)
        self.weights[f"{name}.conv.weight"] = normal * (2 / fan_in) ** 0.5
        self.weights[f"{name}.bn.weight"], self.weights[f"{name}.bn.bias"] = 0.5 + a, 0.4 * b - 0.1
        self.weights[f"{name}.bn.running_mean"], self.weights[f"{name}.bn.running_var"] = (
            c - 0.5,
            0.5 + d,
        )
        self.weights[f"{name}.bn.num_batches_tracked"] = torch.tensor(0)

    def chain(self, x: Tensor, block: str, *steps: tuple) -> Tensor:
        for name, out, kernel, *rest in steps:
            padding = rest[0] if rest else (kernel[0] // 2, kernel[1] // 2)
            x = self.conv(
                x, f"{block}.{name}", out, kernel, rest[1] if len(rest) > 1 else 1, padding
            )
        return x

    def a(self, x: Tensor, block: str, pooled: int) -> Tensor:
        mean = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        one = self.chain(x, block, ("branch1x1", 64, (1, 1)))
        five = self.chain(x, block, ("branch5x5_1", 48, (1, 1)), ("branch5x5_2", 64, (5, 5)))
        three = [
            ("branch3x3dbl_1", 64, (1, 1)),
            ("branch3x3dbl_2", 96, (3, 3)),
            ("branch3x3dbl_3", 96, (3, 3)),
        ]
        return torch.cat(
            [
                one,
                five,
                self.chain(x, block, *three),
                self.chain(mean, block, ("branch_pool", pooled, (1, 1))),
            ],
            1,
        )

    def c(self, x: Tensor, block: str, width: int) -> Tensor:
        mean = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        one = self.chain(x, block, ("branch1x1", 192, (1, 1)))
        seven = [
            ("branch7x7_1", width, (1, 1)),
            ("branch7x7_2", width, (1, 7)),
            ("branch7x7_3", 192, (7, 1)),
        ]
        twice = [
            (f"branch7x7dbl_{i}", width, (7, 1) if i in (2, 4) else (1, 7)) for i in range(2, 5)
        ]
        twice = [("branch7x7dbl_1", width, (1, 1)), *twice, ("branch7x7dbl_5", 192, (1, 7))]
        pooled = self.chain(mean, block, ("branch_pool", 192, (1, 1)))
        return torch.cat(
            [one, self.chain(x, block, *seven), self.chain(x, block, *twice), pooled], 1
        )

    def e(self, x: Tensor, block: str, pool: Tensor) -> Tensor:
        one = self.chain(x, block, ("branch1x1", 320, (1, 1)))
        three = self.chain(x, block, ("branch3x3_1", 384, (1, 1)))
        twice = self.chain(
            x, block, ("branch3x3dbl_1", 448, (1, 1)), ("branch3x3dbl_2", 384, (3, 3))
        )
        split = [
            self.chain(start, block, (f"{name}{side}", 384, kernel))
            for start, name in ((three, "branch3x3_2"), (twice, "branch3x3dbl_3"))
            for side, kernel in (("a", (1, 3)), ("b", (3, 1)))
        ]
        return torch.cat([one, *split, self.chain(pool, block, ("branch_pool", 192, (1, 1)))], 1)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.conv(x, "Conv2d_1a_3x3", 32, (3, 3), 2)
        x = self.conv(
            self.conv(x, "Conv2d_2a_3x3", 32, (3, 3)), "Conv2d_2b_3x3", 64, (3, 3), 1, (1, 1)
        )
        x = self.conv(F.max_pool2d(x, 3, 2), "Conv2d_3b_1x1", 80, (1, 1))
        x = F.max_pool2d(self.conv(x, "Conv2d_4a_3x3", 192, (3, 3)), 3, 2)
        for block, pooled in (("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)):
            x = self.a(x, block, pooled)
        three = self.chain(x, "Mixed_6a", ("branch3x3", 384, (3, 3), (0, 0), 2))
        twice = [("branch3x3dbl_1", 64, (1, 1)), ("branch3x3dbl_2", 96, (3, 3))]
        twice = self.chain(x, "Mixed_6a", *twice, ("branch3x3dbl_3", 96, (3, 3), (0, 0), 2))
        x = torch.cat([three, twice, F.max_pool2d(x, 3, 2)], 1)
        for block, width in (
            ("Mixed_6b", 128),
            ("Mixed_6c", 160),
            ("Mixed_6d", 160),
            ("Mixed_6e", 192),
        ):
            x = self.c(x, block, width)
        three = self.chain(
            x, "Mixed_7a", ("branch3x3_1", 192, (1, 1)), ("branch3x3_2", 320, (3, 3), (0, 0), 2)
        )
        seven = [
            ("branch7x7x3_1", 192, (1, 1)),
            ("branch7x7x3_2", 192, (1, 7)),
            ("branch7x7x3_3", 192, (7, 1)),
        ]
        seven = self.chain(x, "Mixed_7a", *seven, ("branch7x7x3_4", 192, (3, 3), (0, 0), 2))
        x = torch.cat([three, seven, F.max_pool2d(x, 3, 2)], 1)
        x = self.e(x, "Mixed_7b", F.avg_pool2d(x, 3, 1, 1, count_include_pad=False))
        x = self.e(x, "Mixed_7c", F.max_pool2d(x, 3, 1, 1))
        return x.mean((2, 3))


@pytest.fixture(scope="module")
def images() -> Tensor:
    return torch.randint(
        0, 256, (2, 3, 32, 32), generator=torch.Generator().manual_seed(1), dtype=torch.uint8
    )


@pytest.fixture(scope="module")
def plain(images) -> tuple[dict[str, Tensor], Tensor]:
    """Random weights in the public layout, and their features of the images."""
    network = Plain()
    pixels = F.interpolate(
        images.float() / 255, size=(299, 299), mode="bilinear", align_corners=False
    )
    features = network(pixels * 2 - 1)
    network.weights["fc.weight"] = 0.05 * torch.randn(1008, 2048, generator=network.draws)
    network.weights["fc.bias"] = torch.randn(1008, generator=network.draws)
    return network.weights, features


@pytest.fixture(scope="module")
def folder(plain, tmp_path_factory) -> Path:
    """Write a data folder with both files."""
    weights, _ = plain
    folder = tmp_path_factory.mktemp("data")
    (folder / "inception").mkdir()
    torch.save(weights, folder / "inception" / inception_files.PUBLIC)
    folded = {}
    for layer in layers(build()):
        weight, bias = fold(weights, layer.names.public)
        folded |= {f"{layer.names.folded}.w": weight.half(), f"{layer.names.folded}.b": bias.half()}
    save_file(folded, folder / inception_files.FOLDED[1])
    return folder


@pytest.fixture
def checksum(folder, monkeypatch) -> None:
    """Accept the random file as the public one."""
    raw = (folder / "inception" / inception_files.PUBLIC).read_bytes()
    monkeypatch.setattr(inception_files, "SHA256", hashlib.sha256(raw).hexdigest()[:8])


def _distance(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


def test_the_size_is_that_of_the_paper():
    shapes = [layer.conv.weight.shape for layer in layers(build())]
    assert len(shapes) == 94
    # torchvision's network without its head
    assert sum(shape.numel() + 2 * shape[0] for shape in shapes) == 23_834_568 - 2_049_000


def test_folding_a_batchnorm_by_hand():
    weights = {
        "x.conv.weight": torch.tensor([2.0, 3.0]).reshape(2, 1, 1, 1),
        "x.bn.weight": torch.tensor([4.0, 1.0]),
        "x.bn.bias": torch.tensor([0.5, 0.0]),
        "x.bn.running_mean": torch.tensor([1.0, -2.0]),
        # roots 0.5 and 2, with the epsilon of 0.001
        "x.bn.running_var": torch.tensor([0.249, 3.999]),
    }
    weight, bias = fold(weights, "x")
    assert weight.flatten().tolist() == pytest.approx([16.0, 1.5])
    assert bias.tolist() == pytest.approx([0.5 - 8.0, 1.0])


def test_the_public_layout_against_a_plain_forward_pass(folder, checksum, images, plain):
    weights, expected = plain
    network = find_inception(str(folder), CPU, needs_head=True)
    features = network(images)
    assert network.has_head and _distance(features.values, expected) < 1e-4
    assert features.values.dtype == torch.float32 and features.values.shape == (2, 2048)
    unbiased = (expected @ weights["fc.weight"].T).softmax(1)
    assert features.probabilities is not None
    assert torch.allclose(features.probabilities, unbiased, atol=1e-4)
    assert network.name == "inception" and network.precision == "fp32" and len(network.digest) == 16


def test_the_batch_size_does_not_matter(folder, checksum, images, monkeypatch):
    network = find_inception(str(folder), CPU)
    together = network(images).values
    monkeypatch.setattr("remuda.scores.features.inception._BATCH", {"cpu": 1})
    assert _distance(network(images).values, together) < 1e-5


def test_a_folded_file_has_the_same_features_and_no_head(folder, images, plain):
    network = Inception(inception_files.read(folder / inception_files.FOLDED[1]), CPU)
    features = network(images)
    assert features.probabilities is None and not network.has_head
    assert _distance(features.values, plain[1]) < 1e-2  # half precision


def test_which_file_is_preferred(tmp_path, monkeypatch):
    monkeypatch.setenv("REMUDA_DATA", str(tmp_path / "common"))
    folders = inception_files.data_folders(str(tmp_path / "own"))
    assert folders == [tmp_path / "own", tmp_path / "common", tmp_path / "cache" / "remuda"]
    assert inception_files.data_folders("") == folders[1:]
    half, full = inception_files.FOLDED[1], inception_files.FOLDED[0]
    for path in (
        "own/" + half,
        "common/inception/" + full,
        "cache/remuda/inception/" + inception_files.PUBLIC,
    ):
        assert inception_files.locate(folders) != tmp_path / path
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
        # each is preferred to those before it
        assert inception_files.locate(folders) == tmp_path / path


def test_a_missing_head_is_an_error_if_it_is_needed(folder, tmp_path):
    (tmp_path / inception_files.FOLDED[1]).symlink_to(folder / inception_files.FOLDED[1])
    with pytest.raises(
        UserError,
        match=r"needs the network's head, which .*fp16.safetensors lacks: download https://",
    ):
        find_inception(str(tmp_path), CPU, needs_head=True)
    assert not find_inception(str(tmp_path), CPU).has_head


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((4, 1, 8, 8), torch.uint8, "these are grey: use --classifier train"),
        ((4, 4, 8, 8), torch.uint8, "these have 4 channels: set data.channels=3"),
        ((4, 2, 1, 1), torch.float32, "these are points"),
    ],
)
def test_only_colour_images_are_accepted(folder, shape, dtype, message):
    network = Inception(inception_files.read(folder / inception_files.FOLDED[1]), CPU)
    with pytest.raises(UserError, match=message):
        network(torch.zeros(shape, dtype=dtype))


def test_missing_weights_without_a_download_are_an_error(tmp_path):
    with pytest.raises(
        UserError, match=r"cannot be downloaded \(file://.*: put pt_inception.*into .*own/inception"
    ):
        find_inception(str(tmp_path / "own"), CPU)


def test_a_download_is_verified(tmp_path, monkeypatch):
    mirror = tmp_path / "mirror" / "inception"
    mirror.mkdir(parents=True)
    (mirror / inception_files.PUBLIC).write_bytes(b"weights")
    folders = inception_files.data_folders("")
    with pytest.raises(UserError, match=r"its SHA-256 begins with .{8} instead of 6726825d"):
        inception_files.fetch(folders)
    assert inception_files.locate(folders) is None
    monkeypatch.setattr(inception_files, "SHA256", hashlib.sha256(b"weights").hexdigest()[:8])
    path = inception_files.fetch(folders)
    assert path == inception_files.locate(folders) and path.read_bytes() == b"weights"
    assert inception_files.fetch(folders) == path  # like a second process that waited for the first


def test_a_bad_file_is_an_error(tmp_path, monkeypatch):
    public, folded = tmp_path / inception_files.PUBLIC, tmp_path / inception_files.FOLDED[0]
    public.write_bytes(b"truncated")
    with pytest.raises(UserError, match=r"is damaged, its SHA-256 begins with"):
        inception_files.read(public)
    monkeypatch.setattr(inception_files, "_complaint", lambda path: None)
    with pytest.raises(UserError, match="cannot be read safely as a file of weights"):
        inception_files.read(public)
    torch.save({"fc.weight": torch.zeros(2)}, public)
    with pytest.raises(UserError, match=r"lacks Conv2d_1a_3x3.conv.weight"):
        inception_files.read(public)
    folded.write_bytes(b"truncated")
    with pytest.raises(UserError, match=r"cannot be read as safetensors"):
        inception_files.read(folded)
    save_file({"conv.w": torch.zeros(1, 3, 3, 3), "conv.b": torch.zeros(1)}, folded)
    with pytest.raises(
        UserError, match=r"Conv2d_1a_3x3 of shape \(1, 3, 3, 3\) instead of \(32, 3, 3, 3\)"
    ):
        inception_files.read(folded)


# Features of the first three test images of CIFAR-10 by an independent forward pass in the form of
# pytorch-fid, float32: every 128th feature; then norm, mean and index of the largest of all 2048.
_PINNED = [
    "0.053159 0.125740 0.554473 0.389612 0.841559 0.251227 0.599466 1.467500 "
    "0.033453 0.494537 0.169530 0.050004 0.091999 0.235645 0.345709 0.378898",
    "0.000000 0.151244 0.370395 0.036586 0.054000 0.354919 0.046281 0.151963 "
    "0.147478 0.285966 0.451480 0.181285 0.311295 0.674902 0.290269 0.905374",
    "0.006120 0.088631 0.212329 0.098978 0.424097 0.126293 0.009602 0.049316 "
    "0.368141 0.200436 0.114417 0.042967 0.043503 0.785638 0.101944 0.471437",
]
_PINNED_WHOLE = [
    (24.87927, 0.3866676, 1774),
    (20.73837, 0.3258091, 1423),
    (19.50541, 0.2723119, 1722),
]


def test_features_of_real_images_are_the_pinned_ones():
    folded = [Path(_REAL) / place / inception_files.FOLDED[1] for place in ("inception", ".")]
    present = [path for path in folded if _REAL and path.is_file()]
    if not present:
        pytest.skip(f"REMUDA_DATA has no {inception_files.FOLDED[1]}")
    if not locate(SOURCES["cifar10"], "test", [Path(_REAL)]):
        pytest.skip("REMUDA_DATA has no cifar10")
    images = load(DataConfig(name="cifar10", path=_REAL), "test").images[:3]
    values = Inception(inception_files.read(present[0]), CPU)(images).values
    expected = torch.tensor([[float(word) for word in row.split()] for row in _PINNED])
    assert torch.allclose(values[:, ::128], expected, rtol=1e-3, atol=1e-5)
    for row, (norm, mean, largest) in zip(values, _PINNED_WHOLE, strict=True):
        assert float(row.norm()) == pytest.approx(norm, rel=1e-4)
        assert float(row.mean()) == pytest.approx(mean, rel=1e-4) and int(row.argmax()) == largest

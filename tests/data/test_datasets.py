import subprocess
import sys

import numpy as np
import pytest
import torch

from remuda.data import DATASETS, DataConfig, load
from remuda.errors import UserError

from .samples import write_idx


def test_the_test_split_of_digits_is_every_sixth_image_of_a_class():
    train, test = load(DataConfig()), load(DataConfig(), "test")
    assert train.shape == (1, 8, 8)
    assert train.images.dtype == torch.uint8 and train.labels.dtype == torch.int64
    assert len(train.labels) + len(test.labels) == 1797
    assert all(5 * b <= a <= 5 * b + 5 for a, b in zip(train.counts, test.counts, strict=True))
    assert train.images.max() == 255 and train.classes == tuple("0123456789")


def test_mnist_with_limit_size_and_channels(tmp_path):
    write_idx(tmp_path / "mnist", "train", 60, value=9)
    config = DataConfig(name="mnist", path=str(tmp_path), limit=31, size=12, channels=3)
    dataset = load(config)
    assert dataset.images.shape == (31, 3, 12, 12) and dataset.images.unique().tolist() == [9]
    assert sorted(dataset.counts) == [3] * 9 + [4]
    dataset.images[0] = 0  # may be written to


def test_a_limit_above_the_count_keeps_all_images():
    assert len(load(DataConfig(limit=10**9)).labels) == len(load(DataConfig()).labels)


def test_chosen_classes_come_first():
    plain, chosen = load(DataConfig()), load(DataConfig(classes=("7", "3")))
    assert chosen.classes == tuple("7301245689")
    assert torch.equal(chosen.images, plain.images)
    assert torch.equal(chosen.labels == 0, plain.labels == 7)
    assert torch.equal(chosen.labels == 4, plain.labels == 2)


def test_fashion_mnist_has_its_own_class_names(tmp_path):
    write_idx(tmp_path / "fashion-mnist", "t10k")
    dataset = load(DataConfig(name="fashion-mnist", path=str(tmp_path)), "test")
    assert dataset.classes[9] == "Ankle boot" and len(dataset.classes) == 10


def test_channels_that_cannot_be_converted():
    with pytest.raises(UserError, match=r"data.channels must be 0, 1 or 3 for digits, not 4"):
        load(DataConfig(channels=4))


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("mnst", "mnist"),
        ("CIFAR-10", "cifar10"),
        ("FashionMNIST", "fashion-mnist"),
        ("rings", "ring"),
        ("folder", "folder:PATH"),
    ],
)
def test_the_message_for_an_unknown_name_suggests_the_nearest(name, nearest):
    message = rf"unknown data set .* did you mean {nearest}\? Choose one of"
    with pytest.raises(UserError, match=message) as caught:
        load(DataConfig(name=name))
    assert all(known in str(caught.value) for known in DATASETS)


def test_a_path_without_the_folder_prefix_is_recognised(tmp_path):
    with pytest.raises(UserError, match=f"is a folder: write folder:{tmp_path}"):
        load(DataConfig(name=str(tmp_path)))
    with pytest.raises(UserError, match="folder: needs a path"):
        load(DataConfig(name="folder:"))


def test_real_mnist(real_path):
    config = DataConfig(name="mnist", path=real_path("mnist"))
    assert load(config).counts == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert load(config, "test").images.shape == (10000, 1, 28, 28)


def test_real_cifar10(real_path):
    dataset = load(DataConfig(name="cifar10", path=real_path("cifar10")))
    assert dataset.counts == [5000] * 10 and dataset.shape == (3, 32, 32)
    assert dataset.labels[:5].tolist() == [6, 9, 9, 4, 1]


def test_digits_are_those_of_scikit_learn_without_importing_it():
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    both = [load(DataConfig(name="digits"), split) for split in ("train", "test")]
    assert sum(len(part.labels) for part in both) == len(labels)
    found = sorted(bytes(image.flatten().tolist()) for part in both for image in part.images)
    expected = np.round(pixels * (255 / 16)).astype(np.uint8)
    assert found == sorted(image.tobytes() for image in expected)
    script = (
        "import sys; from remuda.data import DataConfig, load; load(DataConfig(name='digits')); "
        "assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)

import shutil

import numpy as np
import pytest
import torch

import remuda.model
from remuda import config
from remuda.errors import UserError
from remuda.model.model import chunk_size


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A herd with labels, a pair with labels, a pair without, and one on points."""
    folder = tmp_path_factory.mktemp("runs")
    cases = {
        "herd": {"strategy": {"name": "class-parallel"}, "run": {"members": 3}},
        "conditional": {"networks": {"conditional": True}},
        "plain": {},
        "points": {"data": {"name": "ring"}},
    }
    for name, changes in cases.items():
        values = {
            "data": changes.get("data", {}),
            "networks": {"name": "mlp", "hidden": 8} | changes.get("networks", {}),
            "strategy": {"batch_size": 4, "steps_per_round": 1} | changes.get("strategy", {}),
            "engine": {"device": "cpu"},
            "run": {"rounds": 2, "checkpoint_every": 1} | changes.get("run", {}),
        }
        remuda.run(config.from_dict(values), folder / name)
    return folder


@pytest.mark.parametrize("name", remuda.model.__all__)
def test_every_exported_name_exists(name):
    assert getattr(remuda.model, name) is not None


@pytest.mark.parametrize("name", ["herd", "conditional", "plain"])
def test_samples_are_bytes_and_reproducible(runs, name):
    model = remuda.load(runs / name)
    images = model.sample(5)
    assert images.shape == (5, 1, 8, 8) and images.dtype == torch.uint8
    assert torch.equal(images, model.sample(5)) and not torch.equal(images, model.sample(5, seed=1))


def test_a_larger_n_keeps_the_earlier_samples(runs):
    model = remuda.load(runs / "herd")
    few, many = model.sample(3, labels=1), model.sample(1200, labels=1)  # more than one chunk
    assert (few.int() - many[:3].int()).abs().max() <= 1
    assert len(many.unique(dim=0)) > 100


@pytest.mark.parametrize("name", ["herd", "conditional", "plain", "points"])
def test_images_depend_on_their_own_noise_and_label(runs, name):
    model = remuda.load(runs / name)
    latent = model.context.gan.networks.latent
    noise = torch.randn(6, latent, generator=torch.Generator().manual_seed(1))
    labels = [2, 0, 1, 1, 0, 2] if model.num_labels else None
    images = model.sample(6, labels=labels, noise=noise)
    order = [3, 5, 0, 1, 4, 2]
    moved = [labels[i] for i in order] if labels else None
    assert torch.equal(model.sample(6, labels=moved, seed=9, noise=noise[order]), images[order])
    assert torch.equal(model.sample(6, labels=labels, noise=noise.double()), images)
    assert torch.equal(model.sample(6, labels=labels, noise=noise.numpy()), images)
    own = model._noise(6, 4)  # the noise of a seed
    assert torch.equal(
        model.sample(6, labels=labels, noise=own), model.sample(6, labels=labels, seed=4)
    )


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (torch.zeros(3, 64), r"shape \(3, 64\), but 4 images of this model need \(4, 64\)"),
        (torch.zeros(400), r"shape \(400,\), but 4 images"),
        (torch.full((4, 64), torch.nan), "noise contains NaN or infinity"),
        ("random", r"noise must be a tensor of numbers \(4, 64\), not str"),
    ],
)
def test_noise_of_another_shape_is_refused(runs, noise, message):
    with pytest.raises(UserError, match=message):
        remuda.load(runs / "plain").sample(4, noise=noise)


@pytest.mark.parametrize("name", ["herd", "conditional"])
def test_labels_are_numbers_names_or_lists(runs, name):
    model = remuda.load(runs / name)
    by_number = model.sample(4, labels=2)
    assert torch.equal(by_number, model.sample(4, labels="2"))
    assert torch.equal(by_number, model.sample(4, labels=[2, 2, 2, 2]))
    assert torch.equal(by_number, model.sample(4, labels=torch.full((4,), 2)))
    assert torch.equal(by_number, model.sample(4, labels=["2", 2, np.int64(2), torch.tensor(2)]))
    assert torch.equal(by_number, model.sample(4, labels=np.int64(2)))
    assert torch.equal(by_number, model.sample(4, labels=torch.tensor(2)))
    assert not torch.equal(by_number, model.sample(4, labels=0))


@pytest.mark.parametrize("label", [3, -1, 10, "cat", "3"])
def test_a_label_out_of_range_is_an_error(runs, label):
    with pytest.raises(UserError, match="labels are 0 to 2, named 0, 1, 2"):
        remuda.load(runs / "herd").sample(1, labels=label)


def test_other_wrong_requests_are_errors(runs):
    model = remuda.load(runs / "herd")
    with pytest.raises(UserError, match="at least 1"):
        model.sample(0)
    with pytest.raises(UserError, match="got 2 labels for 3"):
        model.sample(3, labels=[0, 1])
    with pytest.raises(UserError, match="does not know labels"):
        remuda.load(runs / "plain").sample(1, labels=0)
    with pytest.raises(UserError, match="not a run"):
        remuda.load(runs)


def test_points_are_floats(runs):
    points = remuda.load(runs / "points").sample(7)
    assert points.shape == (7, 2, 1, 1) and points.dtype == torch.float32


def test_an_earlier_checkpoint_can_be_loaded(runs):
    early, late = remuda.load(runs / "herd", checkpoint=1), remuda.load(runs / "herd")
    assert (early.round, late.round) == (1, 2)
    with pytest.raises(UserError, match="choose one of 1, 2"):
        remuda.load(runs / "herd", checkpoint=7)


def test_a_damaged_checkpoint_is_reported_and_skipped(runs, tmp_path):
    folder = shutil.copytree(runs / "plain", tmp_path / "run")
    (folder / "checkpoints" / "round-000002" / "shard-000-of-001.safetensors").write_bytes(b"torn")
    messages = []
    assert remuda.load(folder, notify=messages.append).round == 1
    (message,) = messages
    assert "round-000002 is damaged" in message
    assert message.endswith("using the checkpoint of round 1")


def test_loading_prints_nothing(runs, tmp_path, capfd):
    folder = shutil.copytree(runs / "plain", tmp_path / "run")
    (folder / "checkpoints" / "round-000002" / "shard-000-of-001.safetensors").write_bytes(b"torn")
    remuda.load(folder)
    assert capfd.readouterr() == ("", "")


def test_more_samples_than_fit_into_memory_are_an_error(runs):
    words = r"100,000,000,000,000 samples need .* GiB of memory, but only .* GiB is free"
    with pytest.raises(UserError, match=words):
        remuda.load(runs / "plain").sample(10**14)


def test_the_images_of_a_chunk_fit_into_one_tensor_on_a_gpu():
    """cuDNN refuses tensors with 2^31 numbers, such as 8,192 x 256 channels x 32 x 32."""
    gpu = torch.device("cuda")
    for shape, images in (((3, 32, 32), 1024), ((3, 128, 128), 64), ((1, 28, 28), 1337)):
        size = chunk_size(shape, gpu)
        assert size == images and size * 1024 * shape[1] * shape[2] < 2**31
    assert chunk_size((3, 2048, 2048), gpu) == 1
    assert chunk_size((2,), gpu) == 8192, "points"
    assert chunk_size((3, 32, 32), torch.device("cpu")) == 512

"""Train on a user's images: rectangles, images on disk, archives and broken files."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import remuda as library
from remuda import config
from remuda.errors import UserError
from remuda.record import Record
from remuda.training.assemble import assemble
from tests.training.test_run import assert_same_run

pytestmark = pytest.mark.usefixtures("empty_pages")


@pytest.fixture
def images(tmp_path) -> Path:
    """Return a folder of 2 x 6 images of 60 x 70 pixels."""
    draw = np.random.default_rng(0)
    for label in "ab":
        (tmp_path / "images" / label).mkdir(parents=True)
        for i in range(6):
            pixels = draw.integers(0, 256, (60, 70, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / label / f"{i}.png")
    return tmp_path / "images"


def _config(path: Path, networks: str = "mlp", rounds: int = 3, **data):
    small = {"resnet": {"width": 4, "discriminator_width": 2}, "mlp": {"hidden": 4}}
    small["r3gan"] = {"width": 32, "blocks": 1, "group_width": 4}
    return config.from_dict(
        {
            "data": {"name": f"folder:{path}", **data},
            "networks": {"name": networks, "latent": 4, **small.get(networks, {})},
            "strategy": {"name": "standalone", "batch_size": 4, "steps_per_round": 2},
            "engine": {"device": "cpu", "threads": 1},
            "run": {"rounds": rounds, "checkpoint_every": 2, "sample_every": 1},
        }
    )


@pytest.mark.parametrize("networks", ["resnet", "r3gan", "mlp"])
def test_rectangular_images_train_and_sample(images, tmp_path, networks):
    folder = library.run(_config(images, networks, rounds=1, size=(48, 64)), tmp_path / "run")
    assert Record.open(folder).facts.shape == (3, 48, 64)
    assert Record.open(folder).config.data.size == (48, 64)
    assert library.load(folder).sample(2).shape == (2, 3, 48, 64)


@pytest.mark.parametrize("size", [64, 128, 256])
def test_large_images_train(images, size):
    herd = assemble(_config(images, "resnet", size=size, limit=4))
    _, metrics = herd.round(herd.start(), 1)
    assert np.isfinite(metrics["generator_loss"]).all()


@pytest.mark.parametrize("networks", ["dcgan", "acgan-cifar10"])
def test_networks_for_squares_refuse_rectangles_in_one_sentence(images, networks):
    with pytest.raises(UserError, match=r"square images .*, not 48x64: set data.size, or networks"):
        assemble(_config(images, networks, size=(48, 64)))


@pytest.mark.parametrize("channels", [1, 4])
def test_other_numbers_of_channels_train(images, tmp_path, channels):
    run = _config(images, "resnet", rounds=1, size=16, channels=channels)
    folder = library.run(run, tmp_path / "run")
    assert library.load(folder).sample(2).shape == (2, channels, 16, 16)


def test_images_on_disk_give_the_same_run_even_if_it_is_resumed(images, tmp_path):
    options = dict(size=16, mirror=True)
    library.run(_config(images, rounds=5, storage="memory", **options), tmp_path / "memory")
    library.run(_config(images, rounds=5, storage="disk", **options), tmp_path / "disk")
    assert_same_run(tmp_path / "memory", tmp_path / "disk")
    library.run(_config(images, rounds=3, storage="disk", **options), tmp_path / "resumed")
    library.resume(tmp_path / "resumed", rounds=5)
    assert_same_run(tmp_path / "memory", tmp_path / "resumed")


def test_an_archive_gives_the_same_run_as_its_folder(images, tmp_path):
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", images)
    library.run(_config(images, size=8), tmp_path / "folder")
    library.run(_config(Path(archive), size=8), tmp_path / "archive")
    assert_same_run(tmp_path / "folder", tmp_path / "archive")


def test_a_round_must_fit_into_memory(images, monkeypatch):
    monkeypatch.setattr("remuda.training.shares.available_bytes", lambda: 4000)
    with pytest.raises(
        UserError, match=r"only 0.0 GB .*: set strategy.steps_per_round to at most 1"
    ):
        assemble(_config(images, size=16, storage="disk"))
    assemble(_config(images, size=16, storage="memory"))


def test_broken_files_are_skipped_on_resume_too(images, tmp_path):
    (images / "a" / "0.png").write_bytes(b"")
    (tmp_path / "small.toml").write_text(config.to_toml(_config(images, rounds=2, size=8)))
    command = [sys.executable, "-m", "remuda", "train", tmp_path / "small.toml"]
    refused = subprocess.run([*command, "--out", tmp_path / "run"], capture_output=True, text=True)
    assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1
    assert "cannot read 1 of 12 images" in refused.stderr and not (tmp_path / "run").exists()
    command += ["--skip-broken", "--out", tmp_path / "run"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "skipped 1 broken file; 11 images are left" in done.stdout
    record = Record.open(tmp_path / "run")
    assert record.facts.skipped == 1 and record.facts.counts == [5, 6]
    assert record.config.data.skip_broken
    library.resume(tmp_path / "run", rounds=3)

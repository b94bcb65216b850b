"""The crossings of the lines of figure 2, and the figure itself."""

from dataclasses import replace

import pytest
from PIL import Image

from remuda.errors import UserError
from remuda.experiments.traffic import Setting, crossing_batch, draw, fl_gan, md_gan
from remuda.experiments.traffic.figure import describe_crossings
from tests.experiments.traffic.samples import CIFAR, SMALL


def test_crossings_on_small_numbers():
    assert crossing_batch(SMALL) == 700 / (2 * 5)
    assert crossing_batch(SMALL, swap=False) == 1000 / (2 * 5)
    assert crossing_batch(SMALL, "server") == 1000 / 5
    assert crossing_batch(replace(SMALL, num_fake_batches=1)) == 700 / 5
    assert crossing_batch(replace(SMALL, swaps=False)) == 1000 / (2 * 5)


def test_at_the_crossing_both_methods_send_the_same():
    at = replace(SMALL, batch_size=70)
    assert md_gan(at).worker_ingress == fl_gan(at).worker_ingress
    at = replace(SMALL, batch_size=200)
    assert md_gan(at).server_ingress == fl_gan(at).server_ingress


def test_the_papers_networks_cross_at_hundreds_of_images():
    """The paper reads "around 550" for MNIST and "around 400" for CIFAR-10 off its figure."""
    mlp = Setting(
        generator_size=716_560, discriminator_size=670_219, image_size=784, num_images=60_000
    )
    mlp = replace(mlp, num_fake_batches=3)
    assert (round(crossing_batch(mlp)), round(crossing_batch(mlp, swap=False))) == (457, 884)
    assert (round(crossing_batch(CIFAR)), round(crossing_batch(CIFAR, swap=False))) == (477, 748)


def test_crossings_in_words():
    text = " ".join(describe_crossings(SMALL))
    assert "up to about b = 70 in an iteration with a swap, and b = 100 in the others" in text
    assert (
        "the server receives less up to about b = 200" in text
        and "once every 20 iterations" in text
    )
    text = " ".join(describe_crossings(replace(SMALL, swaps=False)))
    assert "up to about b = 100; the server" in text


@pytest.mark.parametrize(
    "setting", [CIFAR, replace(SMALL, image_size=5000)], ids=["crossing", "none on the axis"]
)
def test_a_picture(tmp_path, setting):
    draw(setting, tmp_path / "figure.png")
    with Image.open(tmp_path / "figure.png") as picture:
        assert min(picture.size) > 500


def test_the_same_setting_gives_the_same_file(tmp_path):
    for name in ("a.svg", "b.svg"):
        draw(CIFAR, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize(
    ("name", "words"), [("a.jpeg", "must end in"), ("none/a.png", "does not exist")]
)
def test_a_figure_that_cannot_be_written_is_refused(tmp_path, name, words):
    with pytest.raises(UserError, match=words):
        draw(SMALL, tmp_path / name)

"""Check walks: their points, their ends, their middles, and the files that show them."""

from dataclasses import replace
from unittest import mock

import pytest
import torch
from PIL import Image

import remuda
from remuda.config import from_dict
from remuda.errors import UserError
from remuda.model.points import read_point
from remuda.model.samples import write_samples, write_walk
from remuda.tensors import trees

CASES = {
    "independent": {"name": "class-parallel", "ema": 0.9},
    "shared": {"name": "class-parallel", "shared_generator": ["body", "head"], "ema": 0.9},
    "standalone": {"name": "standalone"},
    "md-gan": {"name": "md-gan"},
    "fl-gan": {"name": "fl-gan", "sync": "discriminator"},
    "cellular": {"name": "cellular", "height": 2, "width": 2},
}


def model_of(case, conditional=True, data="digits", train=False):
    values = {
        "data": {"name": data, "limit": 200},
        "networks": {"name": "mlp", "latent": 4, "hidden": 8, "conditional": conditional},
        "strategy": {"batch_size": 4, "steps_per_round": 1} | CASES[case],
        "engine": {"device": "cpu"},
    }
    herd = remuda.assemble(from_dict(values))
    state = herd.start()
    return herd.model(herd.round(state, 1)[0] if train else state, 0)


def equal(one, other):
    """Compare bytes up to rounding: the size of a batch can change the last bit."""
    return one.shape == other.shape and (one.int() - other.int()).abs().max() <= 1


def as_bytes(model, images):
    return model._images(lambda gan: images)


@pytest.fixture(scope="module")
def herd():
    return model_of("independent", conditional=False)


@pytest.mark.parametrize("case", CASES)
def test_a_walk_starts_and_ends_with_plain_samples(case):
    model = model_of(case, train=True)
    images = model.walk("2:5", "7:6", frames=3, rows=4)
    assert images.shape == (4, 3, 1, 8, 8) and images.dtype == torch.uint8
    assert equal(images[:, 0], model.sample(4, labels=2, seed=5))
    if case != "cellular":  # the noise of the start chooses the generator
        assert equal(images[:, -1], model.sample(4, labels=7, seed=6))
    between_classes = model.walk(2, "7", frames=2, rows=4, seed=5)
    assert equal(between_classes[:, 0], model.sample(4, labels=2, seed=5))
    assert equal(between_classes[:, 1], model.sample(4, labels=7, seed=5))


def test_the_cell_that_starts_a_walk_generates_all_its_images():
    model = model_of("cellular")
    noise = [model._noise(20, seed) for seed in (5, 6)]
    labels = torch.full((20,), 2)
    authors = [model.strategy.authors(model.engine, model.state, z, labels) for z in noise]
    assert len(authors[0].unique()) > 1 and not torch.equal(*authors)
    last = model.walk("2:5", "2:6", frames=2, rows=20)[:, -1]
    generators = model.strategy.generators(model.engine, model.state)
    for i, author in enumerate(authors[0].tolist()):
        pair = trees.row(generators, author)
        image = model.context.gan.sample(pair, noise[1][i : i + 1], labels[:1])
        assert equal(as_bytes(model, image)[0], last[i])


@pytest.mark.parametrize("case", ["independent", "shared"])
def test_the_middle_between_two_members_has_their_mean_weights(case):
    model = model_of(case, train=True)
    gan, generators = model.context.gan, model.strategy.generators(model.engine, model.state)
    pairs = [trees.row(generators, label) for label in (2, 7)]
    middle = trees.map(lambda a, b: (a + b) / 2, *pairs)
    labels = torch.zeros(1, 10)
    labels[0, [2, 7]] = 0.5  # this generator also receives labels
    image = gan.sample(middle, model._noise(1, 3), labels)
    found = model.walk(2, 7, frames=3, seed=3)[:, 1]
    assert equal(as_bytes(model, image), found)


def test_the_middle_between_two_labels_of_one_generator_has_their_mean():
    model = model_of("standalone")
    labels = torch.zeros(1, 10)
    labels[0, [2, 7]] = 0.5
    pair = trees.row(model.state, 0)
    image = model.context.gan.sample(pair, model._noise(1, 3), labels)
    found = model.walk(2, 7, frames=3, seed=3)[:, 1]
    assert equal(as_bytes(model, image), found)


def test_only_independent_generators_cause_a_message(herd):
    messages = []
    herd.walk("3:0", "3:1", notify=messages.append)
    for case in ("standalone", "shared"):
        model_of(case, train=True).walk(3, 8, notify=messages.append)
    assert messages == []
    herd.walk(3, 8, notify=messages.append)
    (message,) = messages
    assert message.startswith("the generators of 3 and 8 were trained independently")


def test_points_of_a_walk():
    classes = ["cat", "a:1", "7"]
    assert read_point("cat", classes, 5) == ("cat", 5)
    assert read_point("cat:3", classes, 5) == ("cat", 3)
    assert read_point("cat:-3", classes, 5) == ("cat", -3)
    assert read_point("7", classes, 5) == ("7", 5)
    assert read_point("a:1", classes, 5) == ("a:1", 5), "the name of a class wins"
    assert read_point("a:1:2", classes, 5) == ("a:1", 2)
    assert read_point(":3", [], 5) == ("", 3)


WRONG = {
    ("3:x", "4"): "has no whole number after its colon",
    ("3:", "4"): "has no whole number after its colon",
    ("12", "3"): "labels are 0 to 9",
    ("cat:1", "3"): "label cat is unknown",
    (":1", "3"): "the point :1 has no class: write one before the colon, such as 0:0",
    ("3", "3"): "3 and 3 are the same point: .* for instance 3:0 and 3:1",
    ("3", "3:0"): "are the same point",
}


@pytest.mark.parametrize("points", WRONG)
def test_wrong_points_are_errors(herd, points):
    with pytest.raises(UserError, match=WRONG[points]):
        herd.walk(*points)


def test_other_wrong_requests_are_errors(herd, tmp_path):
    with pytest.raises(UserError, match="at least 2 frames and 1 row, not 1 frame and 1 row"):
        herd.walk(3, 8, frames=1)
    with pytest.raises(UserError, match="not 8 frames and 0 rows"):
        herd.walk(3, 8, rows=0)
    with pytest.raises(UserError, match="GiB is free"):
        herd.walk(3, 8, rows=10**14)
    ranks = replace(herd, communicator=mock.Mock(num_ranks=2))
    with pytest.raises(UserError, match="all members in one process"):
        ranks.walk(3, 8)
    with pytest.raises(UserError, match=r"ends in \.png, \.gif, \.webp, \.apng, or a name without"):
        write_walk(herd, "3", "8", tmp_path / "walk.jpg")
    assert not list(tmp_path.iterdir())


def test_a_model_without_labels_walks_between_seeds():
    model = model_of("standalone", conditional=False)
    images = model.walk(":0", ":1", frames=3, rows=2)
    assert equal(images[:, -1], model.sample(2, seed=1))
    for point in ("3", "3:1", 3):
        with pytest.raises(UserError, match="does not know labels: walk between two seeds"):
            model.walk(point, ":1")
    with pytest.raises(UserError, match="for instance :0 and :1"):
        model.walk(":1", ":1")


def test_points_walk_as_floats_and_are_plotted(tmp_path):
    model = model_of("standalone", conditional=False, data="ring")
    assert model.walk(":0", ":1", frames=4, rows=3).shape == (3, 4, 2, 1, 1)
    write_walk(model, ":0", ":1", tmp_path / "walk.png", rows=3)
    write_walk(model, ":0", ":1", tmp_path / "walk.gif", frames=3, rows=3)
    assert Image.open(tmp_path / "walk.png").size == (400, 400)
    assert Image.open(tmp_path / "walk.gif").n_frames == 3
    for write in (lambda: write_walk(model, ":0", ":1", tmp_path / "walk"),
                  lambda: write_samples(model, 3, None, tmp_path / "walk")):  # fmt: skip
        with pytest.raises(UserError, match="points cannot be written as a folder"):
            write()


def test_files_of_a_walk(herd, tmp_path):
    side = 35  # images enlarged to 32 pixels, and a margin of 3
    write_walk(herd, "3:0", "3:1", tmp_path / "new" / "walk.png", rows=2)
    assert Image.open(tmp_path / "new" / "walk.png").size == (8 * side + 3, 2 * side + 3)
    for name in ("walk.gif", "walk.webp", "walk.APNG"):
        write_walk(herd, "3:0", "3:1", tmp_path / name, frames=5, rows=10)
        picture = Image.open(tmp_path / name)
        assert picture.n_frames == 5 and picture.is_animated
        assert picture.size == (8 * side + 3, 2 * side + 3)
    write_walk(herd, "3:0", "3:1", tmp_path / "images", rows=2)
    files = sorted(str(p.relative_to(tmp_path / "images")) for p in tmp_path.glob("images/*/*"))
    assert len(files) == 2 * 32 and files[0] == "row-000/frame-000.png"
    assert Image.open(tmp_path / "images" / files[0]).size == (8, 8)

"""Check which scores the evaluator gives, their names, and their protocols."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from remuda.data import DataConfig, load
from remuda.errors import UserError
from remuda.scores import evaluator as evaluator_module
from remuda.scores.base import Features
from remuda.scores.config import ScoreConfig
from remuda.scores.directions import direction
from remuda.scores.evaluator import Evaluator, choose, protocol_name
from remuda.scores.fid import frechet_distance
from remuda.scores.gaussian import Gaussian
from remuda.scores.reference import make_reference

CPU = torch.device("cpu")
DIGITS = DataConfig(name="digits")


def make(data=DIGITS, notify=lambda text: None, num_labels=None, classes=None, **settings):
    num_trained = settings.pop("num_trained", None)
    config = ScoreConfig(**settings)
    return Evaluator(data, config, CPU, notify, num_labels, classes, num_trained=num_trained)


def by_kind(values):
    return {value.name.split("_")[0]: value for value in values}


@pytest.fixture(scope="module")
def digits():
    return load(DIGITS, "test")


def test_real_images_reach_their_floor(digits):
    found = make(kinds="all", num_labels=10).score(digits.images, digits.labels, 0)
    values = {value.name: value for value in found}
    assert set(values) == {
        "fid_296_train_lenet",
        "kid_296_train_lenet",
        "digits-score_296_lenet",
        "tvd_296_train_lenet",
        "class-kid_296_train_lenet",
        "diversity_296_train_lenet",
        "class-fid_296_train_lenet",
        "precision_296_train_lenet",
        "recall_296_train_lenet",
        "density_296_train_lenet",
        "coverage_296_train_lenet",
        "copying_296_train_pixels",
    }
    for name, value in values.items():
        if value.floor is not None:
            assert value.value == pytest.approx(value.floor, rel=1e-6, abs=1e-9), name
            assert value.floor_samples == 296
    fid = values["fid_296_train_lenet"]
    assert (fid.num_samples, fid.reference, fid.num_reference) == (296, "train", 1501)
    assert fid.network == "lenet-digits"
    assert len(fid.network_digest) == len(fid.reference_digest) == 16
    assert fid.precision == "fp32" and fid.seconds > 0
    assert len(values["class-kid_296_train_lenet"].classes) == 10
    assert values["copying_296_train_pixels"].network == ""


def test_features_of_the_reference_are_computed_once(monkeypatch, tmp_path, digits):
    monkeypatch.setenv("REMUDA_CACHE", str(tmp_path))
    messages: list[str] = []
    first = make(notify=messages.append, kinds="fid").score(digits.images, None, 0)
    assert sum("computing lenet-digits features" in text for text in messages) == 2
    messages.clear()
    second = make(notify=messages.append, kinds="fid").score(digits.images, None, 0)
    assert not messages and first[0].value == second[0].value
    for path in tmp_path.rglob("*.st"):
        path.write_bytes(b"torn")
    third = make(notify=messages.append, kinds="fid").score(digits.images, None, 0)
    assert sum("cannot use" in text for text in messages) == 2
    assert third[0].value == first[0].value


def test_noise_is_far_away_and_copies_are_found(digits):
    draws = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (300, 1, 8, 8), dtype=torch.uint8, generator=draws)
    (fid,) = make(kinds="fid").score(noise, None, 0)
    assert fid.value > 20 * fid.floor
    training = load(DIGITS).images[:200]
    (copies,) = make(kinds="copying").score(training, None, 0)
    assert copies.value == 1.0


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ("fib", "score 'fib' does not exist"),
        (" , ", "no score is selected: choose from auto, all, fid"),
        ("auto,fid", "auto selects several scores"),
        ("modes", "points of ring and grid"),
        ("fid,modes", "points of ring and grid"),
    ],
)
def test_an_impossible_kind_fails_immediately(kinds, words):
    with pytest.raises(UserError, match=words):
        make(kinds=kinds)


def test_copying_needs_the_training_images_as_reference():
    with pytest.raises(UserError, match="--reference train"):
        make(kinds="copying", reference="test")


def test_a_wrong_name_fails_before_data_are_read():
    with pytest.raises(UserError, match="score 'fib' does not exist"):
        make(DataConfig(name="mnist", path="/nowhere"), kinds="fid,fib")


def test_scores_by_class_need_labels(digits):
    with pytest.raises(UserError, match="generates images by label"):
        make(kinds="fid,class-kid", num_labels=0)
    with pytest.raises(UserError, match="generates images by label"):
        make(kinds="class-kid").score(digits.images, None, 0)
    names = set(by_kind(make().score(digits.images, None, 0)))
    assert names == {"fid", "kid", "digits-score", "tvd"}


def test_degenerate_samples_are_errors(digits):
    strict = make(kinds="fid")
    with pytest.raises(UserError, match="all 50 samples are equal"):
        strict.score(digits.images[:1].expand(50, -1, -1, -1), None, 0)
    with pytest.raises(UserError, match="no fid"):
        strict.score(digits.images[:1], None, 0)
    with pytest.raises(UserError, match="3 x 8 x 8"):
        strict.score(digits.images.expand(-1, 3, -1, -1), None, 0)


def test_floors_do_not_depend_on_the_samples_classes(digits):
    """The model knows three of ten classes, and the samples lack the others."""
    few = digits.labels < 3
    whole = by_kind(make(kinds="all").score(digits.images, None, 0))
    strict = make(kinds="all", num_labels=3)
    part = by_kind(strict.score(digits.images[few], digits.labels[few], 0))
    assert whole["fid"].floor == pytest.approx(2.47, abs=0.005)
    assert whole["fid"].floor_samples == 296
    chosen = torch.linspace(0, 295, int(few.sum())).round().long()
    num_images = int((digits.labels[chosen] < 3).sum())
    for kind in ("class-kid", "class-fid", "diversity"):
        assert part[kind].floor_samples == num_images and len(part[kind].classes) == 3
    assert part["tvd"].floor_samples == int(few.sum())
    assert part["tvd"].floor < 0.2 < 0.6 < part["tvd"].value


def test_a_model_of_some_classes_is_compared_with_these_classes(digits):
    """Real images of the first five digits reach the floor of their classes."""
    few = digits.labels < 5
    images, labels = digits.images[few], digits.labels[few]
    evaluator = make(kinds="all", num_labels=5, num_trained=5, samples=len(images))
    found = evaluator.score(images, labels, 0)
    assert list(evaluator.names()) == [value.name for value in found]
    assert all(value.name.endswith("_5-classes") for value in found)
    values = by_kind(found)
    assert values["fid"].name == f"fid_{len(images)}_train_lenet_5-classes"
    for name, value in values.items():
        if value.floor is not None:
            assert value.value == pytest.approx(value.floor, rel=1e-6, abs=1e-9), name
            assert value.floor_samples == len(images)
    assert values["fid"].num_reference == int((load(DIGITS).labels < 5).sum())
    assert 4.2 < values["digits-score"].value <= 5.2 and values["tvd"].value < 0.05
    (whole,) = make(kinds="fid").score(images, None, 0)
    assert whole.value > 10 * values["fid"].value
    assert whole.reference_digest != values["fid"].reference_digest
    assert whole.network_digest == values["fid"].network_digest


def test_scores_of_some_classes_by_hand(digits, monkeypatch):
    """With pixels as features, the FID of the first two digits is that of their own pixels."""
    pixels = SimpleNamespace(name="pixels", digest="0" * 16, precision="fp32", has_head=False)
    look = lambda images: Features(images.flatten(1).float(), None)  # noqa: E731
    extractor = type("Pixels", (), {**vars(pixels), "__call__": lambda self, images: look(images)})
    monkeypatch.setattr(evaluator_module, "find_extractor", lambda *_: extractor())
    train = load(DIGITS)
    real = Gaussian.of(train.images[train.labels < 2].flatten(1).float())
    fake = Gaussian.of(digits.images[:100].flatten(1).float())
    (fid,) = make(kinds="fid", num_labels=2, num_trained=2).score(digits.images[:100], None, 0)
    assert fid.value == pytest.approx(frechet_distance(real, fake))
    assert fid.name == "fid_100_train_pixels_2-classes"


def test_a_conditional_model_draws_only_trained_classes(digits):
    evaluator = make(kinds="class-kid", num_labels=10, num_trained=3)
    assert evaluator.num_labels == 3
    few = digits.labels < 3
    (value,) = evaluator.score(digits.images[few], digits.labels[few], 0)
    assert len(value.classes) == 3 and value.name.endswith("_lenet_3-classes")


def test_all_classes_need_no_mention(digits):
    for num_trained in (10, None):
        (fid,) = make(kinds="fid", num_trained=num_trained).score(digits.images, None, 0)
        assert fid.name == "fid_296_train_lenet" and fid.num_reference == 1501


def test_modes_of_some_classes():
    points = load(DataConfig(name="ring"), "test")
    some = points.images[points.labels < 3][:1000]
    found = make(DataConfig(name="ring"), num_trained=3).score(some, None, 0)
    values = {value.name: value.value for value in found}
    assert values["modes_1k_3-classes"] == 3 and values["mode-tvd_1k_3-classes"] < 0.05
    assert values["high-quality_1k_3-classes"] > 0.95


def test_a_class_without_samples_is_reported(digits):
    messages, known = [], digits.labels < 9
    evaluator = make(notify=messages.append, kinds="fid,class-kid", num_labels=10)
    (fid,) = evaluator.score(digits.images[known], digits.labels[known], 0)
    assert fid.name.startswith("fid")
    assert any("generated images of class 9" in text for text in messages)


def test_other_classes_than_those_of_the_run_are_an_error(digits):
    with pytest.raises(UserError, match="not those that the run was trained on, 0, 1, 7"):
        make(kinds="fid", classes=["0", "1", "7"])
    make(kinds="fid", classes=list(digits.classes))


@pytest.mark.parametrize("content", ["[]", "5", "{}", '{"fid": "x"}', '{"fid": NaN}', "torn"])
def test_a_damaged_floor_is_measured_again(monkeypatch, tmp_path, digits, content):
    monkeypatch.setenv("REMUDA_CACHE", str(tmp_path))
    (first,) = make(kinds="fid").score(digits.images, None, 0)
    (path,) = (tmp_path / "floors").iterdir()
    path.write_text(content)
    (again,) = make(kinds="fid").score(digits.images, None, 0)
    assert again.floor == first.floor


def test_a_flipped_bit_in_the_cache_is_detected(monkeypatch, tmp_path, digits):
    monkeypatch.setenv("REMUDA_CACHE", str(tmp_path))
    (first,) = make(kinds="fid").score(digits.images, None, 0)
    for path in (tmp_path / "references").glob("[!.]*"):
        raw = bytearray(path.read_bytes())
        raw[-9] ^= 64
        path.write_bytes(raw)
    messages: list[str] = []
    (again,) = make(notify=messages.append, kinds="fid").score(digits.images, None, 0)
    assert sum("does not match its digest" in text for text in messages) == 2
    assert again.value == first.value


def test_other_labels_have_their_own_cache(monkeypatch, tmp_path, digits):
    monkeypatch.setenv("REMUDA_CACHE", str(tmp_path))
    extractor = make(kinds="fid").extractor
    messages: list[str] = []
    other = replace(digits, labels=digits.labels.flip(0))
    make_reference(other, "test", extractor, CPU, messages.append)
    assert len(messages) == 1


def test_points_have_scores_of_modes():
    points = load(DataConfig(name="ring"), "test").images
    found = make(DataConfig(name="ring")).score(points[:1000], None, 0)
    values = {value.name: value.value for value in found}
    assert values["modes_1k"] == 8
    assert values["high-quality_1k"] > 0.95 and values["mode-tvd_1k"] < 0.1


def test_a_name_states_the_protocol():
    assert protocol_name("fid", 10_000, "train", "inception") == "fid_10k_train_inception"
    assert protocol_name("mnist-score", 10_000, "", "lenet") == "mnist-score_10k_lenet"
    assert protocol_name("kid", 500, "test", "lenet") == "kid_500_test_lenet"
    assert protocol_name("kid", 500, "test", "lenet", 5) == "kid_500_test_lenet_5-classes"
    assert protocol_name("modes", 1000, "", "", 1) == "modes_1k_1-class"


def test_a_limit_on_the_training_data_does_not_shrink_the_reference():
    evaluator = make(replace(DIGITS, limit=100), kinds="fid")
    (fid,) = evaluator.score(load(DIGITS, "test").images, None, 0)
    assert fid.num_reference == len(load(DIGITS).labels)


@pytest.mark.parametrize("kinds, num_labels", [("all", 10), ("all", 0), ("auto", 10)])
def test_all_names_are_known_before_the_first_score(digits, kinds, num_labels):
    evaluator = make(kinds=kinds, num_labels=num_labels, samples=296)
    labels = digits.labels if num_labels else None
    found = [value.name for value in evaluator.score(digits.images, labels, 0)]
    assert list(evaluator.names()) == found
    assert all(map(direction, found))


def test_all_names_of_points_are_known():
    evaluator = make(DataConfig(name="ring"), samples=1000)
    values = evaluator.score(load(DataConfig(name="ring")).images[:1000], None, 0)
    assert list(evaluator.names()) == [value.name for value in values]


NAMES = dict.fromkeys(
    ["fid_10k_train_lenet", "class-fid_10k_train_lenet", "class-kid_10k_train_lenet"], "↓"
)


@pytest.mark.parametrize("wanted", ["f", "fid", "fid_10k", "fid_10k_train_lenet"])
def test_the_beginning_of_a_name_chooses_a_score(wanted):
    assert choose(wanted, NAMES) == "fid_10k_train_lenet"


@pytest.mark.parametrize(
    "wanted, sentence",
    [
        ("class", r"fits several scores: choose one of class-fid_10k\S+, class-kid_10k\S+$"),
        ("fid_50k", r"among the scores of this run.*for example fid_10k_train_lenet, or change"),
        ("clas-kid", r"for example class-kid_10k_train_lenet, or change scores\.kinds"),
    ],
)
def test_an_unclear_name_raises(wanted, sentence):
    with pytest.raises(UserError, match=sentence):
        choose(wanted, NAMES)


def test_a_score_without_a_known_direction_raises():
    with pytest.raises(UserError, match="not known whether higher or lower values of mine_10k"):
        choose("mine", {"mine_10k": ""})

"""The judge as a whole: which scores it gives, how they are called, what they carry."""

from dataclasses import replace

import pytest
import torch

from remuda.data import DataConfig, load
from remuda.errors import UserError
from remuda.scores.config import ScoreConfig
from remuda.scores.evaluator import Evaluator, protocol_name
from remuda.scores.reference import look

CPU = torch.device("cpu")
DIGITS = DataConfig(name="digits")


def judge(data=DIGITS, say=lambda text: None, num_labels=None, classes=None, **settings):
    return Evaluator(data, ScoreConfig(**settings), CPU, say, num_labels, classes)


@pytest.fixture(scope="module")
def digits():
    return load(DIGITS, "test")


def test_real_images_reach_their_floor(digits):
    values = {
        value.name: value
        for value in judge(kinds="all", num_labels=10).score(digits.images, digits.labels, 0)
    }
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
    assert (
        fid.network == "lenet-digits" and len(fid.network_digest) == len(fid.reference_digest) == 16
    )
    assert fid.precision == "fp32" and fid.seconds > 0
    assert len(values["class-kid_296_train_lenet"].classes) == 10
    assert values["copying_296_train_pixels"].network == ""


def test_the_reference_is_looked_at_once(monkeypatch, tmp_path, digits):
    monkeypatch.setenv("REMUDA_CACHE", str(tmp_path))
    said: list[str] = []
    first = judge(say=said.append, kinds="fid").score(digits.images, None, 0)
    assert sum("looks at" in text for text in said) == 2
    said.clear()
    second = judge(say=said.append, kinds="fid").score(digits.images, None, 0)
    assert not said and first[0].value == second[0].value
    for path in tmp_path.rglob("*.st"):
        path.write_bytes(b"torn")
    third = judge(say=said.append, kinds="fid").score(digits.images, None, 0)
    assert sum("cannot be used" in text for text in said) == 2 and third[0].value == first[0].value


def test_noise_is_far_away_and_copies_are_found(digits):
    noise = torch.randint(
        0, 256, (300, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    (fid,) = judge(kinds="fid").score(noise, None, 0)
    assert fid.value > 20 * fid.floor
    training = load(DIGITS).images[:200]
    (copies,) = judge(kinds="copying").score(training, None, 0)
    assert copies.value == 1.0


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ("fib", "there is no score 'fib'"),
        (" , ", "no score is asked for: known are auto, all, fid"),
        ("auto,fid", "auto stands for several scores"),
        ("modes", "points of ring and grid"),
        ("fid,modes", "points of ring and grid"),
    ],
)
def test_what_cannot_be_had_is_said_at_once(kinds, words):
    with pytest.raises(UserError, match=words):
        judge(kinds=kinds)


def test_copies_are_looked_for_in_training_images_alone():
    with pytest.raises(UserError, match="--reference train"):
        judge(kinds="copying", reference="test")


def test_a_wrong_name_is_missed_before_anything_is_read():
    with pytest.raises(UserError, match="there is no score 'fib'"):
        judge(DataConfig(name="mnist", path="/nowhere"), kinds="fid,fib")


def test_labels_that_a_model_does_not_know(digits):
    with pytest.raises(UserError, match="asked for labels"):
        judge(kinds="fid,class-kid", num_labels=0)
    with pytest.raises(UserError, match="asked for labels"):
        judge(kinds="class-kid").score(digits.images, None, 0)
    names = {value.name.split("_")[0] for value in judge().score(digits.images, None, 0)}
    assert names == {"fid", "kid", "digits-score", "tvd"}


def test_degenerate_samples_get_a_sentence(digits):
    strict = judge(kinds="fid")
    with pytest.raises(UserError, match="all 50 samples are equal"):
        strict.score(digits.images[:1].expand(50, -1, -1, -1), None, 0)
    with pytest.raises(UserError, match="no fid"):
        strict.score(digits.images[:1], None, 0)
    with pytest.raises(UserError, match=r"3 x 8 x 8|3, 8, 8|3x8x8"):
        strict.score(digits.images.expand(-1, 3, -1, -1), None, 0)


def test_floors_are_those_of_all_real_images_whatever_was_drawn(digits):
    """Of a model that knows three of ten classes, and of samples that lack some class."""
    few = digits.labels < 3
    whole = {
        value.name.split("_")[0]: value
        for value in judge(kinds="all").score(digits.images, None, 0)
    }
    strict = judge(kinds="all", num_labels=3)
    part = {
        value.name.split("_")[0]: value
        for value in strict.score(digits.images[few], digits.labels[few], 0)
    }
    assert (
        whole["fid"].floor == pytest.approx(2.47, abs=0.005) and whole["fid"].floor_samples == 296
    )
    for kind in ("class-kid", "class-fid", "diversity"):
        num_images = int(
            (digits.labels[torch.linspace(0, 295, int(few.sum())).round().long()] < 3).sum()
        )
        assert part[kind].floor_samples == num_images and len(part[kind].classes) == 3
    assert (
        part["tvd"].floor_samples == int(few.sum())
        and part["tvd"].floor < 0.2 < 0.6 < part["tvd"].value
    )


def test_a_class_without_samples_is_missed(digits):
    said, known = [], digits.labels < 9
    (fid,) = judge(say=said.append, kinds="fid,class-kid", num_labels=10).score(
        digits.images[known], digits.labels[known], 0
    )
    assert fid.name.startswith("fid") and any(
        "generated images of class 9" in text for text in said
    )


def test_other_classes_than_those_of_the_run_are_refused(digits):
    with pytest.raises(UserError, match="not those that the run was trained on, 0, 1, 7"):
        judge(kinds="fid", classes=["0", "1", "7"])
    judge(kinds="fid", classes=list(digits.classes))


@pytest.mark.parametrize("content", ["[]", "5", "{}", '{"fid": "x"}', '{"fid": NaN}', "torn"])
def test_a_damaged_floor_is_measured_again(monkeypatch, tmp_path, digits, content):
    monkeypatch.setenv("REMUDA_CACHE", str(tmp_path))
    (first,) = judge(kinds="fid").score(digits.images, None, 0)
    (path,) = (tmp_path / "floors").iterdir()
    path.write_text(content)
    (again,) = judge(kinds="fid").score(digits.images, None, 0)
    assert again.floor == first.floor


def test_a_flipped_bit_in_the_cache_is_noticed(monkeypatch, tmp_path, digits):
    monkeypatch.setenv("REMUDA_CACHE", str(tmp_path))
    (first,) = judge(kinds="fid").score(digits.images, None, 0)
    for path in (tmp_path / "references").iterdir():
        raw = bytearray(path.read_bytes())
        raw[-9] ^= 64
        path.write_bytes(raw)
    said: list[str] = []
    (again,) = judge(say=said.append, kinds="fid").score(digits.images, None, 0)
    assert (
        sum("does not match its digest" in text for text in said) == 2
        and again.value == first.value
    )


def test_other_labels_have_a_cache_of_their_own(monkeypatch, tmp_path, digits):
    monkeypatch.setenv("REMUDA_CACHE", str(tmp_path))
    network = judge(kinds="fid").network
    said: list[str] = []
    look(replace(digits, labels=digits.labels.flip(0)), "test", network, CPU, said.append)
    assert len(said) == 1


def test_points_have_modes():
    points = load(DataConfig(name="ring"), "test").images
    values = {
        value.name: value.value
        for value in judge(DataConfig(name="ring")).score(points[:1000], None, 0)
    }
    assert (
        values["modes_1k"] == 8 and values["high-quality_1k"] > 0.95 and values["mode-tvd_1k"] < 0.1
    )


def test_names():
    assert protocol_name("fid", 10_000, "train", "inception") == "fid_10k_train_inception"
    assert protocol_name("mnist-score", 10_000, "", "lenet") == "mnist-score_10k_lenet"
    assert protocol_name("kid", 500, "test", "lenet") == "kid_500_test_lenet"


def test_a_limit_on_the_training_data_does_not_shrink_the_reference():
    assert judge(replace(DIGITS, limit=100), kinds="fid").score(
        load(DIGITS, "test").images, None, 0
    )[0].num_reference == len(load(DIGITS).labels)

"""Score samples against the images of several sites in one process."""

from dataclasses import replace

import pytest
import torch
from PIL import Image

from remuda.data import DataConfig, load
from remuda.engines import SingleProcess
from remuda.errors import UserError
from remuda.scores import manifold_scores
from remuda.scores.config import ScoreConfig
from remuda.scores.evaluator import Evaluator
from remuda.scores.fid import frechet_distance
from remuda.scores.gaussian import Gaussian
from remuda.scores.sites import Sites, Source
from tests.scores.sites import write_sites

CPU = torch.device("cpu")
SHARES = [[30] * 10, [12] * 10, [20, 20, 20, 1, 1, 1, 1, 1, 1, 40]]


@pytest.fixture(scope="module")
def union(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sites")
    return folder, write_sites(folder, SHARES)


def evaluate(folder, notify=lambda text: None, **settings):
    config = ScoreConfig(**settings)
    datas = [DataConfig(name=f"folder:{folder}/site-{site}") for site in range(3)]
    sources = [Source(rank, "here", data) for rank, data in enumerate(datas)]
    sites = Sites(SingleProcess(), sources, config, CPU, notify)
    return Evaluator(datas[0], config, CPU, notify, 10, sites=sites)


def test_scores_of_three_sites(union):
    folder, images = union
    samples = load(DataConfig(name="digits"), "test")
    evaluator = evaluate(folder, kinds="fid,kid,is,tvd,diversity,class-kid,manifold")
    values = {value.name: value for value in evaluator.score(samples.images, samples.labels, 0)}
    assert set(values) == {
        "fid_296_train_lenet_pooled-3",
        "kid_296_train_lenet_sites-3",
        "folder-score_296_lenet",
        "tvd_296_train_lenet_pooled-3",
        "diversity_296_train_lenet_sites-3",
        "class-kid_296_train_lenet_sites-3",
        "precision_296_train_lenet_sites-3",
        "recall_296_train_lenet_sites-3",
        "density_296_train_lenet_sites-3",
        "coverage_296_train_lenet_sites-3",
    }
    real, fake = (evaluator.extractor(each).values for each in (images, samples.images))
    fid = values["fid_296_train_lenet_pooled-3"]
    assert fid.value == pytest.approx(frechet_distance(*map(Gaussian.of, (real, fake))), rel=1e-9)
    assert fid.num_reference == len(images) == 526
    assert [(site["rank"], site["images"]) for site in fid.sites] == [(0, 300), (1, 120), (2, 106)]
    parts = real.split([300, 120, 106])
    for site, part in zip(fid.sites, parts, strict=True):
        alone = frechet_distance(Gaussian.of(part), Gaussian.of(fake))
        assert site["value"] == pytest.approx(alone, rel=1e-9)
    # Recall is a fraction of the real images, and the samples' balls are the same at every site.
    recall = values["recall_296_train_lenet_sites-3"].value
    assert recall == pytest.approx(manifold_scores(real, fake).recall)
    assert values["folder-score_296_lenet"].sites is None
    diversity = values["diversity_296_train_lenet_sites-3"]
    assert len(diversity.classes) == 10 and diversity.value == min(diversity.classes)


def test_a_kind_that_fails_at_one_site_has_no_score(union):
    notes = []
    folder, _ = union
    samples = load(DataConfig(name="digits"), "test")
    evaluator = evaluate(folder, notes.append, kinds="fid,kid")
    sites = evaluator.sites
    few = sites.references[2][0]
    sites.references[2] = replace(few, features=few.features.rows(torch.tensor([0]))), None
    values = evaluator.score(samples.images, None, 0)
    assert [value.name for value in values] == ["fid_296_train_lenet_pooled-3"]
    [note] = [note for note in notes if note.startswith("no kid: rank 2 on here: ")]
    assert note.endswith("needs at least 2 real images, but there is 1: use more of them")


def test_sites_must_have_the_same_classes(union, tmp_path):
    write_sites(tmp_path, SHARES)
    (tmp_path / "site-1" / "9").rename(tmp_path / "site-1" / "nine")
    with pytest.raises(UserError, match="images of rank 1 have another shape or other classes"):
        evaluate(tmp_path, kinds="fid")


def test_sites_must_have_images_of_the_same_shape(union, tmp_path):
    write_sites(tmp_path, SHARES)
    for path in (tmp_path / "site-2").rglob("*.png"):
        Image.merge("RGB", [Image.open(path)] * 3).save(path)
    with pytest.raises(UserError, match="images of rank 2 have another shape or other classes"):
        evaluate(tmp_path, kinds="fid")

"""Scores of runs whose ranks have their own images."""

import json
import re

import pytest
import torch

from remuda import config, load
from remuda.data import DataConfig
from remuda.record import Record
from remuda.scores.features.classifier import find_classifier
from remuda.scores.fid import frechet_distance
from remuda.scores.gaussian import Gaussian
from tests.mpi.starting import on_ranks, remuda
from tests.mpi.test_training import VALUES
from tests.scores.sites import write_sites

SHARES = [[20] * 10, [12] * 10, [20, 20, 20, 1, 1, 1, 1, 1, 1, 40]]
SCORES = {"every": 1, "samples": 60, "kinds": "fid,kid,manifold"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train on three ranks, each with its own folder; return the folder and all images."""
    folder = tmp_path_factory.mktemp("sites")
    images = write_sites(folder, SHARES)
    values = {
        **VALUES,
        "data": {"name": f"folder:{folder}/site-{{rank}}"},
        "strategy": {"name": "fl-gan", "batch_size": 4, "steps_per_round": 3},
        "scores": SCORES,
        "run": {"rounds": 2, "members": 3, "keep_best": "fid"},
    }
    (folder / "small.toml").write_text(config.to_toml(config.from_dict(values)))
    words = ["train", folder / "small.toml", "--engine", "mpi", "--ranks", 3]
    result = remuda(*words, "--out", folder / "run")
    assert result.returncode == 0, result.stderr
    return folder, images


def scores_of(folder):
    return {(score.round, score.name): score for score in Record.open(folder / "run").scores()}


def test_training_compares_with_the_images_of_all_ranks(trained):
    folder, images = trained
    found = scores_of(folder)
    assert {name.rpartition("_")[2] for _, name in found} == {"pooled-3", "sites-3"}
    fid = found[2, "fid_60_train_lenet_pooled-3"]
    assert [site["images"] for site in fid.sites] == [200, 120, 106]
    assert Record.open(folder / "run").config.run.keep_best == "fid_60_train_lenet_pooled-3"
    model = load(folder / "run")
    samples = model.generate(model.draw_labels(60), 0)
    extractor = find_classifier(DataConfig(name=f"folder:{folder}/site-0"), torch.device("cpu"))
    sides = [Gaussian.of(extractor(each).values) for each in (images, samples)]
    assert fid.value == pytest.approx(frechet_distance(*sides), rel=1e-9)
    assert fid.network_digest == extractor.digest
    page = (folder / "run" / "index.html").read_text()
    assert "fid_60_train_lenet_pooled-3" in page and '"sites":[{' in page.replace(" ", "")


def test_ranks_and_one_process_give_the_same_scores(trained):
    folder, _ = trained
    words = ["score", folder / "run", "--with", "fid,kid", "--n", 50]
    lines = []
    for more in (["--data", folder], ["--ranks", 3]):
        result = remuda(*words, *more)
        assert result.returncode == 0, result.stderr
        assert "fid_50_train_lenet_pooled-3" in result.stdout and "worst" in result.stdout
        scores = scores_of(folder)
        kinds = "fid_50_train_lenet_pooled-3", "kid_50_train_lenet_sites-3"
        lines.append([(scores[2, name].value, scores[2, name].sites) for name in kinds])
    for (one, tables), (other, other_tables) in zip(*lines, strict=True):
        assert one == pytest.approx(other, rel=1e-9)
        for here, there in zip(tables, other_tables, strict=True):
            assert here["value"] == pytest.approx(there["value"], rel=1e-6)
    result = remuda(*words, "--set", f"data.name=folder:{folder}/site-0")
    assert result.returncode == 0, result.stderr
    assert "fid_50_train_lenet " in result.stdout and "worst" not in result.stdout
    result = remuda(*words, "--site", 2)
    assert result.returncode == 0, result.stderr
    assert "fid_50_train_lenet_site-2" in result.stdout and "pooled" not in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ranks", 2], "belong to ranks 0, 1, 2, but this job has 2 ranks: use --ranks 3"),
        (["--site", 1, "--ranks", 3], "--site needs one process: leave out --ranks and --hosts"),
        (["--site", 3], "rank 3 of .* has no data: choose --site from 0, 1, 2"),
        (["--set", "data.name=folder:/nowhere/{host}"], "are on 3 hosts: score them there with"),
        (["--set", "data.name=folder:/nowhere/{rank}"], "/nowhere/0"),
    ],
)
def test_sites_that_cannot_be_scored(trained, words, message):
    folder, _ = trained
    result = remuda("score", folder / "run", "--with", "fid", "--n", 50, *words)
    assert result.returncode == 2 and re.search(message, result.stderr), result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_only_statistics_leave_a_site(trained):
    """Count all bytes that ranks 1 and 2 send while three ranks score samples."""
    folder, _ = trained
    result = on_ranks(3, "tests.mpi.site_bytes", folder)
    assert result.returncode == 0, result.stderr
    for line in map(json.loads, result.stdout.strip().splitlines()):
        assert line["sent"] == line["counted"]
        moments = 8 * (1 + line["width"] + line["width"] ** 2)
        bits = 60  # of precision: one byte per sample
        assert moments + bits < line["sent"] < moments + bits + 4_000
        assert line["other"] < 500, "answers to collective calls that carry no data"

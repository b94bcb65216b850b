"""Features of reference images, which all processes of a machine share."""

import threading
import time

import torch

from remuda.scores.base import FeatureExtractor, Features
from remuda.scores.reference import make_reference

CPU = torch.device("cpu")


class Slow(FeatureExtractor):
    """Takes a while for each split, and counts them."""

    name, digest = "slow", "0"

    def __init__(self):
        self.calls = 0

    def __call__(self, images):
        self.calls += 1
        time.sleep(0.3)
        return Features(images.flatten(1).float(), None)


def test_runs_that_start_together_compute_the_features_once(toy_data, tmp_path, monkeypatch):
    monkeypatch.setenv("REMUDA_CACHE", str(tmp_path))
    extractor, found, messages = Slow(), [], []

    def prepare():
        found.append(make_reference(toy_data, "train", extractor, CPU, messages.append))

    threads = [threading.Thread(target=prepare) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert extractor.calls == 1
    assert messages == ["computing slow features of 19 train images, once for these data"]
    for reference in found:
        assert torch.equal(reference.features.values, toy_data.images.flatten(1).float())


def test_a_cache_that_cannot_be_written_is_no_obstacle(toy_data, tmp_path, monkeypatch):
    (tmp_path / "references").write_text("a file instead of a folder")
    monkeypatch.setenv("REMUDA_CACHE", str(tmp_path))
    messages = []
    reference = make_reference(toy_data, "train", Slow(), CPU, messages.append)
    assert reference.features is not None
    assert "set REMUDA_CACHE to a writable folder" in messages[-1]

"""Small configurations and data that the tests share."""

import os

# The tensors are small. Set it before torch is imported; processes that tests start inherit it.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch

from remuda.data.datasets import Dataset

TINY = {
    "data": {"name": "digits"},
    "networks": {"name": "mlp", "latent": 8, "hidden": 16},
    "strategy": {"name": "class-parallel", "batch_size": 4, "steps_per_round": 2},
    "engine": {"device": "cpu"},
    "run": {"rounds": 4, "members": 3, "checkpoint_every": 2, "sample_every": 2},
}


@pytest.fixture
def tiny() -> dict:
    """Return the configuration of a short run; each test may change its own copy."""
    return {section: dict(values) for section, values in TINY.items()}


@pytest.fixture
def toy_data() -> Dataset:
    """Return three classes of 12, 5 and 2 images, 8x8; each class has its own brightness."""
    labels = torch.tensor([0] * 12 + [1] * 5 + [2] * 2)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 40, (19, 1, 8, 8), generator=generator)
    images = (noise + 80 * labels[:, None, None, None]).to(torch.uint8)
    return Dataset("toy", images, labels, ("dark", "grey", "light"))


@pytest.fixture
def empty_pages(monkeypatch):
    """Leave the pages of runs empty, because drawing one takes longer than a few tiny rounds."""
    monkeypatch.setattr("remuda.reports.page.write", lambda folder: (folder / "index.html").touch())


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    """Keep the classifiers and statistics of the tests out of the user's cache."""
    before = os.environ.get("REMUDA_CACHE")
    os.environ["REMUDA_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["REMUDA_CACHE"]
    else:
        os.environ["REMUDA_CACHE"] = before

"""Mistakes in a user's function that loads a data set get one sentence."""

import pytest

from remuda.data import DataConfig, load
from remuda.errors import UserError

TEXT = """
import torch
from remuda.data import Dataset

def make(images=None, labels=None):
    images = torch.zeros(4, 1, 8, 8, dtype=torch.uint8) if images is None else images
    labels = torch.arange(4) % 2 if labels is None else labels
    return Dataset("mine", images, labels, ("a", "b"))

def good(config, split): return make()
def points(config, split): return make(torch.zeros(4, 2, 1, 1))
def nothing(config, split): pass
def flat(config, split): return make(torch.zeros(4, 8, 8, dtype=torch.uint8))
def floats(config, split): return make(torch.rand(4, 1, 8, 8))
def outside(config, split): return make(labels=torch.arange(4))
def halves(config, split): return make(labels=torch.zeros(4))
def empty(config, split): return make(torch.zeros(0, 1, 8, 8, dtype=torch.uint8), torch.zeros(0))
def divides(config, split): return 1 / 0
def lonely(): return make()
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "own.py").write_text(TEXT)
    return tmp_path / "own.py"


@pytest.mark.parametrize("name", ["good", "points"])
def test_a_function_loads_data(path, name):
    assert load(DataConfig(name=f"{path}:{name}")).counts == [2, 2]


@pytest.mark.parametrize(
    "name, problem",
    [
        ("nothing", r"its type is NoneType instead of remuda\.data\.Dataset"),
        ("flat", r"images \(n, C, H, W\) and labels \(n,\), not \(4, 8, 8\) and \(4,\)"),
        ("floats", r"its images are torch\.float32 instead of torch\.uint8"),
        ("outside", r"its labels must be whole numbers \(torch\.int64\) from 0 to 1"),
        ("halves", "its labels must be whole numbers"),
        ("empty", "it has no images"),
        ("divides", "it raises ZeroDivisionError: division by zero"),
        ("lonely", r"it raises TypeError: lonely\(\) takes 0 positional arguments"),
    ],
)
def test_mistakes_get_one_sentence(path, name, problem):
    with pytest.raises(UserError, match=problem) as caught:
        load(DataConfig(name=f"{path}:{name}"))
    assert "\n" not in str(caught.value)

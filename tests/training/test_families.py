"""Families of similar classes that a run finds when it starts."""

import io

import pytest
import torch
from rich.console import Console

import remuda
from remuda.config import from_dict
from remuda.data import DataConfig, load
from remuda.data.datasets import Dataset
from remuda.data.images import to_unit
from remuda.engines import SingleProcess
from remuda.errors import UserError
from remuda.record import Record
from remuda.system import progress
from remuda.training.features import class_distances, feature_extractor
from remuda.training.progress import Progress
from tests.training.test_run import final_tensors, make

pytestmark = pytest.mark.usefixtures("empty_pages")
FOUND = {"num_families": 2, "family_generator": ["head"], "shared_generator": ["body"]}


class Notes(Progress):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def test_distances_compare_the_mean_features_of_classes():
    labels = torch.tensor([0, 1, 1, 2])
    images = torch.tensor([0, 0, 204, 255], dtype=torch.uint8)[:, None, None, None]
    data = Dataset("toy", images.expand(-1, 1, 8, 8), labels, ("a", "b", "c"))

    def features(images):  # the means are (0, 0), (1.2, 1.6) and (3, 4)
        grey = (images[:, 0, 0, :1] + 1) / 2
        return torch.cat([3 * grey, 4 * grey], 1)

    found = class_distances(data, 3, features, SingleProcess())
    assert found == pytest.approx(torch.tensor([[0, 2, 5], [2, 0, 3], [5, 3, 0]]).numpy(), abs=1e-2)
    with pytest.raises(UserError, match="no images of class d to compare"):
        class_distances(Dataset("toy", images, labels, (*"abcd",)), 4, features, SingleProcess())


def test_a_slow_comparison_shows_how_far_it_has_come(monkeypatch):
    """Inception needs hours on a CPU for many classes."""
    clock, log = [0.0], io.StringIO()
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    labels = torch.arange(2).repeat_interleave(40)
    data = Dataset("toy", torch.zeros(80, 1, 8, 8, dtype=torch.uint8), labels, ("a", "b"))

    def features(images):
        clock[0] += 100.0
        progress.step(len(images))
        return images.flatten(1)

    with progress.shown_on(Console(file=log, width=200)):
        class_distances(data, 2, features, SingleProcess())
    assert log.getvalue().splitlines()[:2] == [
        "comparing classes takes about 3 min 20 s: to start sooner, list the families in "
        "strategy.families",
        "comparing classes: 40 of 80 images, 1 min 40 s left",
    ]


def test_a_run_records_the_families_that_it_finds(tiny, tmp_path):
    tiny["strategy"] |= FOUND
    notes = Notes()
    folder = remuda.run(make(tiny, rounds=1, members=4), tmp_path / "run", notes)
    strategy = Record.open(folder).config.strategy
    assert strategy.num_families == 2 and len(strategy.families) == 2
    assert sorted(member for family in strategy.families for member in family) == [0, 1, 2, 3]
    (said,) = [text for text in notes.notes if text.startswith("families of similar classes: ")]
    assert said.count(";") == 1
    remuda.resume(folder, rounds=2, progress=(again := Notes()))
    assert Record.open(folder).config.strategy == strategy and not again.notes
    assert remuda.load(folder).sample(2, "3").shape == (2, 1, 8, 8)


def test_a_new_class_joins_the_nearest_of_the_families_that_the_run_found(tiny, tmp_path):
    tiny["strategy"] |= FOUND
    folder = remuda.run(make(tiny, rounds=1, members=4), tmp_path / "run")
    before = Record.open(folder).config.strategy.families
    remuda.resume(folder, rounds=2, members=5, progress=(notes := Notes()))
    after = Record.open(folder).config.strategy.families
    (grown,), (other,) = set(after) - set(before), set(after) & set(before)
    assert grown[-1] == 4 and grown[:-1] in before
    assert [text for text in notes.notes if text.startswith("families of similar classes: ")]
    heads = final_tensors(folder)["own/generator/params/layers.4.weight"]
    same, different = heads[grown[0]], heads[other[0]]
    assert torch.allclose(heads[4], same) and not torch.allclose(heads[4], different)


def test_a_new_class_needs_a_place_in_families_that_the_user_gave(tiny, tmp_path):
    tiny["strategy"] |= FOUND | {"num_families": 0, "families": [[0, 2]]}
    folder = remuda.run(make(tiny, rounds=1, members=4), tmp_path / "run")
    config = (folder / "config.toml").read_text()
    with pytest.raises(UserError, match=r"all new classes \(4, 5 missing\): .* such as \[4\] for"):
        remuda.resume(folder, rounds=2, members=6)
    assert (folder / "config.toml").read_text() == config
    edited = config.replace("        2,\n    ],\n", "        2,\n        4,\n    ],\n    [5],\n")
    (folder / "config.toml").write_text(edited)
    remuda.resume(folder, rounds=2, members=6)
    heads = final_tensors(folder)["own/generator/params/layers.4.weight"]
    assert torch.allclose(heads[4], heads[0]) and not torch.allclose(heads[5], heads[0])
    assert Record.open(folder).config.strategy.families == ((0, 2, 4), (5,))


def test_a_resume_with_too_few_members_for_its_families_tells_their_number(tiny, tmp_path):
    """Without the families, the resume would fail as well."""
    tiny["strategy"] |= FOUND | {"num_families": 0, "families": [[0, 2], [1, 3]]}
    folder = remuda.run(make(tiny, rounds=1, members=4), tmp_path / "run")
    with pytest.raises(UserError, match=r"members 0 to 1: use --members 4 or, in a new run,"):
        remuda.resume(folder, rounds=2, members=2)
    remuda.resume(folder, rounds=2, members=4)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"num_families": 5}, "more than the 4 members: use at most 4"),
        ({"num_families": -1}, "at least 0"),
        ({"families": [[0, 1]]}, "length of strategy.families is 1: set num_families to 0"),
        ({"family_generator": []}, "share no layers"),
        ({"num_families": 0, "families": [[0, 4]]}, "member 4, but this run has members 0 to 3"),
    ],
)
def test_wrong_settings_are_refused(tiny, tmp_path, settings, words):
    tiny["strategy"] |= FOUND | settings
    with pytest.raises(UserError, match=words):
        remuda.run(make(tiny, rounds=1, members=4), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_points_have_no_features(tiny, tmp_path):
    tiny["strategy"] |= FOUND
    tiny["data"]["name"] = "ring"
    with pytest.raises(UserError, match=r"list strategy\.families instead"):
        remuda.run(make(tiny, rounds=1, members=4), tmp_path / "run")


def test_ranks_with_their_own_data_use_the_extractor_of_rank_0():
    run = from_dict({"data": {"name": "digits", "path": "/nowhere/{rank}"}})
    data = load(DataConfig(name="digits"))
    features = feature_extractor(run, data, torch.device("cpu"), SingleProcess(), print)
    assert features(to_unit(data.images[:2])).shape == (2, 128)

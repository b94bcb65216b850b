"""New classes join a trained class-parallel herd; known classes keep their numbers and pairs."""

import shutil
import threading
from dataclasses import replace

import pytest
import torch

import remuda
from remuda.data import load
from remuda.errors import UserError
from remuda.gan import GAN
from remuda.model.pictures import to_picture
from remuda.record import Record
from remuda.strategies import ClassParallel
from remuda.tensors import trees
from remuda.training.assemble import assemble
from remuda.training.restoring import restore
from remuda.training.run import changed
from tests.contract.threads import run_ranks
from tests.training.test_run import final_tensors, make

pytestmark = pytest.mark.usefixtures("empty_pages")


def add_class(root, name, count=5):
    """Write images of a class, which depend on its name."""
    (root / name).mkdir(parents=True)
    for i in range(count):
        image = torch.full((1, 8, 8), (10 * i + 40 * len(name)) % 256, dtype=torch.uint8)
        to_picture(image).save(root / name / f"{i}.png")


@pytest.fixture
def run(tiny, tmp_path):
    """Train two rounds on the classes cats and mice."""

    def train(**networks):
        for name in ("cats", "mice"):
            add_class(tmp_path / "images", name)
        tiny["data"]["name"] = f"folder:{tmp_path / 'images'}"
        tiny["networks"] |= networks
        return remuda.run(make(tiny, rounds=2, members=0), tmp_path / "run")

    return train


def test_a_new_class_joins_and_the_others_keep_their_numbers(run, tmp_path):
    folder = run()
    unchanged = remuda.resume(shutil.copytree(folder, tmp_path / "unchanged"), rounds=4)
    add_class(tmp_path / "images", "bears")  # comes first by name
    sentence = "with the class bears: restore the old data, or train all classes with --members 3$"
    with pytest.raises(UserError, match=sentence):
        remuda.resume(folder, rounds=4)
    remuda.resume(folder, rounds=4, members=3)
    record = Record.open(folder)
    assert record.facts.classes == ["cats", "mice", "bears"]
    assert record.config.run.members == 3
    assert record.config.data.classes == ("cats", "mice", "bears")
    grown = final_tensors(folder)
    for name, rows in final_tensors(unchanged).items():
        assert torch.equal(grown[name][:2], rows), "the others train as if nobody had joined"
    assert len(record.rounds()[-1]["generator_loss"]) == 3
    assert load(record.config.data).classes == ("cats", "mice", "bears")  # as scores read them
    remuda.resume(folder, rounds=5)
    add_class(tmp_path / "images", "ants")
    remuda.resume(folder, rounds=6, members=4)
    model = remuda.load(folder)
    assert model.facts.classes == ["cats", "mice", "bears", "ants"]
    assert model.label_number("ants") == 3 and model.sample(2, "ants").shape == (2, 1, 8, 8)


def test_old_rows_are_exact_and_new_ones_start_fresh(run, tmp_path):
    folder = run()
    checkpoint, _ = Record.open(folder).newest()
    saved = final_tensors(folder)
    add_class(tmp_path / "images", "bears")
    config = changed(Record.open(folder).config, None, None, 3, None, None)
    herd = assemble(config)
    assert herd.source_rows([0, 1]) == [0, 1, None]
    state, start = herd.restore(checkpoint), herd.start()
    for name, rows in trees.named_leaves(state):
        assert torch.equal(rows[:2], saved[name])
    assert trees.equal(trees.row(state, 2), trees.row(start, 2))
    with pytest.raises(UserError, match="cannot continue with 1 of its 2 members"):
        herd.strategy.resize(2, 1)


def test_a_member_that_shares_layers_copies_the_others(run, tiny, tmp_path):
    tiny["strategy"] |= {"shared_generator": ["body"], "shared_discriminator": ["input"]}
    folder = run()
    checkpoint, _ = Record.open(folder).newest()
    saved = final_tensors(folder)
    add_class(tmp_path / "images", "bears")
    herd = assemble(changed(Record.open(folder).config, None, None, 3, None, None))
    state = herd.restore(checkpoint)
    found = dict(trees.named_leaves(state))
    own = {name for name, _ in trees.named_leaves(state) if name.startswith("own")}
    assert own and own < found.keys() == saved.keys()
    for name, leaf in found.items():
        assert torch.equal(leaf[:2] if name in own else leaf, saved[name])
    assert trees.equal(trees.row(state.own, 2), trees.row(state.own, 0))
    remuda.resume(folder, rounds=3, members=3)
    assert remuda.load(folder).sample(2, "bears").shape == (2, 1, 8, 8)


@pytest.mark.parametrize("strategy", ["class-parallel", "fl-gan", "md-gan"])
def test_a_copy_of_a_member_has_its_own_random_streams(tiny, tmp_path, strategy):
    """Otherwise, it would draw the dropout masks and the shifts of that member in every pass."""
    tiny["strategy"] |= {"name": strategy, "shift": 0.25}
    if strategy == "class-parallel":
        tiny["strategy"]["shared_discriminator"] = ["body"]
    folder = remuda.run(make(tiny, rounds=1), tmp_path / "run")
    checkpoint, _ = Record.open(folder).newest()
    herd = assemble(changed(Record.open(folder).config, None, None, 5, None, None))
    found, saved = dict(trees.named_leaves(herd.restore(checkpoint))), final_tensors(folder)
    streams = {name for name in found if name.endswith("buffers/key")}
    assert streams
    for name in streams:
        assert torch.equal(found[name][:3], saved[name]) and len(found[name].unique()) == 5


@pytest.fixture
def one_at_a_time(monkeypatch):
    """Let threads create pairs one after the other, because they share PyTorch's generator."""
    lock, init = threading.Lock(), GAN.init

    def locked(gan, key):
        with lock:
            return init(gan, key)

    monkeypatch.setattr(GAN, "init", locked)


@pytest.mark.usefixtures("one_at_a_time")
def test_ranks_that_cannot_see_the_folder_get_the_same_members(tiny, tmp_path):
    tiny["strategy"] |= {"shift": 0.25, "shared_discriminator": ["body"]}
    folder = remuda.run(make(tiny, rounds=1), tmp_path / "run")
    checkpoint, _ = Record.open(folder).newest()
    config = changed(Record.open(folder).config, None, None, 5, None, None)
    whole = assemble(config)
    expected = whole.strategy.rows(whole.restore(checkpoint))
    config = changed(config, None, None, 5, "mpi", 2)

    def work(communicator):
        herd = assemble(config, communicator)
        return herd.strategy.rows(restore(herd, checkpoint, frozenset({1})))

    rows, _ = run_ranks(2, work)
    found = dict(trees.named_leaves(trees.map(lambda *leaves: torch.cat(leaves), *rows)))
    for name, leaf in trees.named_leaves(expected):
        assert torch.equal(found[name], leaf), name


def test_new_members_copy_a_member_of_their_family():
    shared = ClassParallel(shared_generator=("body",))
    assert shared.resize(3, 5) == [0, 1, 2, 0, 1]
    families = ((0, 2), (1, 3), (4, 5))
    related = replace(shared, families=families, family_generator=("head",))
    assert related.resize(3, 6) == [0, 1, 2, 1, 1, 1]
    assert ClassParallel().resize(3, 5) == [0, 1, 2, None, None]


def test_a_run_on_the_first_classes_of_the_data_may_use_more(tiny, tmp_path):
    tiny["networks"]["conditional"] = True  # the networks have weights for all ten digits
    folder = remuda.run(make(tiny, rounds=2), tmp_path / "run")
    whole = remuda.resume(shutil.copytree(folder, tmp_path / "whole"), rounds=4, members=5)
    record = Record.open(folder)  # killed after the start, before a checkpoint with five members
    record.replace_config(make(tiny, rounds=4, members=5))
    assert remuda.load(folder).num_labels == 3
    assert trees.equal(final_tensors(remuda.resume(folder)), final_tensors(whole))
    assert remuda.load(folder).num_labels == 5
    with pytest.raises(UserError, match=r"use at most 10, or data with more classes"):
        remuda.resume(folder, rounds=5, members=11)


def test_conditional_networks_cannot_grow(run, tmp_path):
    folder = run(conditional=True)
    add_class(tmp_path / "images", "bears")
    with pytest.raises(UserError, match=r"weights for each of its 2 classes .* bears cannot join"):
        remuda.resume(folder, rounds=3, members=3)


def test_removed_and_renamed_classes_are_refused(run, tmp_path):
    folder, images = run(), tmp_path / "images"
    (images / "cats").rename(images / "tigers")
    with pytest.raises(
        UserError, match=r"without the class cats and with the class tigers: .*new run"
    ):
        remuda.resume(folder, rounds=3)
    with pytest.raises(UserError, match=r"has no class cats, .*: restore the class under this"):
        remuda.resume(folder, rounds=3, members=3)
    assert Record.open(folder).facts.classes == ["cats", "mice"]


def test_a_limit_gives_every_class_fewer_images(run, tiny, tmp_path):
    add_class(tmp_path / "images", "dogs")
    tiny["data"]["limit"] = 12
    folder = run()
    assert Record.open(folder).facts.counts == [4, 4, 4]
    add_class(tmp_path / "images", "bears")
    remuda.resume(folder, rounds=3, members=4)
    assert Record.open(folder).facts.counts == [3, 3, 3, 3]


def test_annealing_ends_with_the_last_round_of_the_larger_run(tiny):
    tiny["strategy"] |= {"annealing": "linear", "final_lr": 0.0}
    config = make(tiny, rounds=100)
    longer = changed(config, 150, None, None, None, None)
    assert longer.strategy.annealing_rounds == 100
    larger = changed(config, 150, None, 4, None, None)
    assert larger.strategy.annealing_rounds == 150
    assert larger.strategy.scheduled(101, 1)["lr_factor"] == pytest.approx(1 - 100 / 150)
    chosen = ["strategy.annealing_rounds=400", "strategy.final_lr=0.5"]
    larger = changed(config, 150, None, 4, None, None, settings=chosen)
    assert larger.strategy.annealing_rounds == 400
    assert (larger.run.rounds, larger.run.members, larger.strategy.final_lr) == (150, 4, 0.5)


def test_annealing_that_begins_with_a_resume_ends_with_its_last_round(tiny):
    """Annealing that ends with the recorded rounds would already have reached its final values."""
    settings = ["strategy.annealing=linear", "strategy.final_lr=0"]
    longer = changed(make(tiny, rounds=100), 150, None, None, None, None, settings=settings)
    assert longer.strategy.annealing_rounds == 150


def test_set_changes_the_members_as_the_flag_does(tiny):
    tiny["strategy"] |= {"annealing": "linear", "final_lr": 0.0}
    config = make(tiny, rounds=100)
    expected = changed(config, 150, None, 4, None, None)
    for rounds, settings in (
        (150, ["run.members=4"]),
        (None, ["run.members = 4", "run.rounds=150"]),
    ):
        found = changed(config, rounds, None, None, None, None, settings=settings)
        assert found == expected

import json
import shutil
from pathlib import Path

import pytest
import torch

from remuda.errors import UserError
from remuda.record import checkpoints
from remuda.tensors import trees

TREE = {"a": torch.randn(3, 4), "b": (torch.arange(5), {"c": torch.tensor(2.5)})}


def saved(folder, *rounds, keep=9):
    for t in rounds:
        checkpoints.save(folder, t, trees.map(lambda leaf, t=t: leaf + t, TREE), keep, [0])


def test_a_tree_is_restored_bit_for_bit(tmp_path):
    checkpoints.save(tmp_path, 7, TREE, 3, [0])
    found, complaints = checkpoints.newest_valid(tmp_path)
    assert found.round == 7 and not complaints
    assert trees.equal(checkpoints.load(found, trees.map(torch.zeros_like, TREE)), TREE)


def test_the_newest_checkpoints_are_kept(tmp_path):
    saved(tmp_path, 1, 2, 3, 10, 11, keep=3)
    assert [checkpoint.round for checkpoint in checkpoints.list_all(tmp_path)] == [3, 10, 11]


def truncate(folder):
    path = folder / checkpoints.TENSORS
    path.write_bytes(path.read_bytes()[:-10])


def flip_a_bit(folder):
    path = folder / checkpoints.TENSORS
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def empty_manifest(folder):
    (folder / checkpoints.MANIFEST).write_text("")


def other_format(folder):
    manifest = json.loads((folder / checkpoints.MANIFEST).read_text())
    (folder / checkpoints.MANIFEST).write_text(json.dumps(manifest | {"format": 99}))


def remove_tensors(folder):
    (folder / checkpoints.TENSORS).unlink()


@pytest.mark.parametrize(
    "damage", [truncate, flip_a_bit, empty_manifest, other_format, remove_tensors]
)
def test_a_damaged_checkpoint_is_skipped(tmp_path, damage):
    saved(tmp_path, 1, 2)
    damage(tmp_path / "round-000002")
    found, complaints = checkpoints.newest_valid(tmp_path)
    assert found.round == 1 and len(complaints) == 1 and "round-000002" in complaints[0]
    with pytest.raises(UserError, match="choose another"):
        checkpoints.find(tmp_path, 2)


def test_a_half_written_checkpoint_is_ignored_and_removed(tmp_path):
    saved(tmp_path, 1)
    shutil.copytree(tmp_path / "round-000001", tmp_path / ".round-000002")
    assert checkpoints.newest_valid(tmp_path)[0].round == 1
    saved(tmp_path, 3)
    assert not (tmp_path / ".round-000002").exists()


@pytest.mark.parametrize("num_done", [0, 1])
def test_the_old_checkpoint_exists_until_the_new_one_of_its_round_does(
    tmp_path, monkeypatch, num_done
):
    """The process is killed between the two renames."""
    saved(tmp_path, 3)
    rename, calls = Path.rename, []

    def killed(path, target):
        if len(calls) == num_done:
            raise KeyboardInterrupt
        calls.append(path)
        return rename(path, target)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "rename", killed)
        saved(tmp_path, 3)
    found, complaints = checkpoints.newest_valid(tmp_path)
    assert found.round == 3 and not complaints
    assert torch.equal(checkpoints.load(found, TREE)["a"], TREE["a"] + 3)
    assert checkpoints.find(tmp_path, 3) == found
    saved(tmp_path, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["round-000003"]


def test_an_old_checkpoint_replaces_a_damaged_one_of_its_round(tmp_path):
    saved(tmp_path, 3)
    shutil.copytree(tmp_path / "round-000003", tmp_path / "old-round-000003")
    assert checkpoints.find(tmp_path, 3).folder.name == "round-000003"
    (tmp_path / "round-000003" / checkpoints.TENSORS).write_bytes(b"torn")
    assert checkpoints.find(tmp_path, 3).folder.name == "old-round-000003"


def test_an_empty_folder_has_no_checkpoint(tmp_path):
    assert checkpoints.newest_valid(tmp_path) == (None, [])
    with pytest.raises(UserError, match="it is empty"):
        checkpoints.find(tmp_path, 1)


def test_another_structure_raises(tmp_path):
    checkpoints.save(tmp_path, 1, TREE, 1, [0])
    found, _ = checkpoints.newest_valid(tmp_path)
    for other in ({"a": torch.zeros(3, 4)}, {**TREE, "a": torch.zeros(3, 5)}):
        with pytest.raises(UserError, match="does not fit"):
            checkpoints.load(found, other)


def test_a_full_disk_costs_only_the_new_checkpoint(tmp_path, monkeypatch):
    saved(tmp_path, 1)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "save_file", full)
    with pytest.raises(UserError, match=r"No space left on device.*make room"):
        checkpoints.save(tmp_path, 2, TREE, 1, [0])
    assert [path.name for path in tmp_path.iterdir()] == ["round-000001"]

"""Checkpoints: what they hold, which of them count, and what happens to the others."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from remuda.errors import UserError
from remuda.record import checkpoints, manifests, shards, snapshots
from remuda.record.checkpoints import Leaves, Shard
from remuda.record.snapshots import Snapshots, copy_to_pieces
from tests.record.reading import tensors

CPU = torch.device("cpu")
ROWS = {
    "a": torch.randn(5, 3, 4),
    "b/steps": torch.arange(5),
    "b/alive": torch.tensor([True, False, True, True, False]),
    "c": torch.randn(5, 7).bfloat16(),
    "d": torch.randn(5, 2).double(),
    "empty": torch.zeros(5, 0),
}
SERVER = {"server/weight": torch.randn(3, 2), "server/steps": torch.tensor(4)}
LEAVES = Leaves(ROWS, SERVER)
IDS = [0, 2, 3, 5, 8]


def later(leaves, t):
    """Return leaves that depend on the round."""
    return Leaves(leaves.rows | {"a": leaves.rows["a"] + t}, leaves.server)


def saved(folder, *rounds, keep=9):
    for t in rounds:
        checkpoints.save(folder, t, later(LEAVES, t), keep, IDS)


def write_shard(folder, t, number, sizes, attempt="1", leaves=LEAVES):
    stops = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    spans = [range(stop - size, stop) for stop, size in zip(stops, sizes, strict=True)]
    own = spans[number]
    rows = {name: leaf[own.start : own.stop] for name, leaf in leaves.rows.items()}
    server = leaves.server if number == 0 else {}
    snapshot = Snapshots(CPU).take(rows | server)
    checkpoints.write(folder, Shard(t, number, IDS, spans, attempt), snapshot, list(server))


def sharded(folder, t, sizes, attempt="1", leaves=LEAVES):
    for number in range(len(sizes)):
        write_shard(folder, t, number, sizes, attempt, leaves)


def empty(leaves, num_rows):
    rows = {name: leaf.new_empty(num_rows, *leaf.shape[1:]) for name, leaf in leaves.rows.items()}
    return Leaves(rows, leaves.server)


def read(checkpoint, source):
    return checkpoints.read(checkpoint, empty(LEAVES, len(source)), source, CPU)


def assert_rows(found, source):
    assert found.keys() == ROWS.keys() | SERVER.keys()
    for name, leaf in ROWS.items():
        assert found[name].dtype == leaf.dtype and torch.equal(found[name], leaf[list(source)])
    for name, leaf in SERVER.items():
        assert torch.equal(found[name], leaf) and found[name].shape == leaf.shape


# What a checkpoint holds


@pytest.mark.parametrize("sizes", [[5], [3, 2], [1, 1, 1, 1, 1]], ids=str)
@pytest.mark.parametrize("source", [range(5), [4, 0], [0, 1, 2, 3, 4, 0, 1], [3]], ids=str)
def test_any_rows_are_read_from_any_number_of_shards(tmp_path, sizes, source):
    sharded(tmp_path, 7, sizes)
    found, complaints = checkpoints.newest_valid(tmp_path)
    assert found.round == 7 and len(found.files) == len(sizes) and not complaints
    assert checkpoints.members(found) == IDS
    assert_rows(read(found, source), source)


def test_lists_of_the_server_start_again_if_the_population_has_changed(tmp_path):
    lists = {"server/trust": torch.ones(5)}
    checkpoints.save(tmp_path, 7, Leaves(ROWS, SERVER | lists), 1, IDS)
    found, _ = checkpoints.newest_valid(tmp_path)
    for size, expected in ((5, [1.0] * 5), (3, [0.0] * 3)):
        like = Leaves(ROWS, SERVER | {"server/trust": torch.empty(size)})
        loaded = checkpoints.read(found, like, range(5), CPU, frozenset(lists))
        assert loaded["server/trust"].tolist() == expected
    with pytest.raises(UserError, match="does not fit"):
        checkpoints.read(found, like, range(5), CPU)


def test_only_the_shards_needed_are_read(tmp_path):
    sharded(tmp_path, 7, [2, 2, 1])
    found, _ = checkpoints.newest_valid(tmp_path)
    found.files[1].unlink()
    assert_rows(read(found, [0, 1, 4]), [0, 1, 4])


def test_other_programs_can_read_it(tmp_path):
    sharded(tmp_path, 7, [3, 2])
    found, _ = checkpoints.newest_valid(tmp_path)
    whole = tensors(found)
    assert all(torch.equal(whole[name], leaf) for name, leaf in (ROWS | SERVER).items())
    assert load_file(found.files[1]).keys() == ROWS.keys(), "the server is in shard 0"
    description = shards.read_header(found.files[1]).description
    assert description["format"] == 3 and description["rows"] == [[0, 3], [3, 5]]
    assert (description["round"], description["shard"], description["shards"]) == (7, 1, 2)


def test_pieces_of_host_memory_hold_the_same_bytes():
    """A GPU's tensors are copied to pieces; here, each piece has ten bytes."""
    sources = [torch.arange(n, dtype=torch.uint8) for n in (3, 0, 25, 10, 2)]
    pieces = [torch.zeros(10, dtype=torch.uint8) for _ in range(5)]
    copy_to_pieces(sources, pieces)
    assert torch.equal(torch.cat(pieces)[:40], torch.cat(sources))
    layout = [shards.Tensor("a", "U8", (40,), 0, 40)]
    buffers = [piece.numpy().data for piece in pieces]
    snapshot = snapshots.Snapshot(layout, buffers, lambda: 0.0)
    assert b"".join(snapshot.data()) == torch.cat(sources).numpy().tobytes()


def test_it_is_found_without_pytorch(tmp_path):
    sharded(tmp_path, 7, [3, 2])
    code = (
        "import sys; from pathlib import Path; from remuda.record import manifests; "
        f"print(manifests.newest_valid(Path({str(tmp_path)!r}))[0].round, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["7", "False"]


def test_another_structure_raises(tmp_path):
    sharded(tmp_path, 1, [3, 2])
    found, _ = checkpoints.newest_valid(tmp_path)
    others = [
        Leaves({"a": ROWS["a"]}, {}),
        LEAVES._replace(server={}),
        LEAVES._replace(rows=ROWS | {"a": torch.zeros(5, 3, 5)}),
        LEAVES._replace(rows=ROWS | {"a": ROWS["a"].double()}),
        LEAVES._replace(server=SERVER | {"server/steps": torch.zeros(1, dtype=torch.int64)}),
    ]
    for other in others:
        with pytest.raises(UserError, match=r"does not fit .*--set.*config\.toml"):
            checkpoints.read(found, other, range(5), CPU)


def test_colleagues_can_read_it(tmp_path):
    before = os.umask(0o022)
    try:
        saved(tmp_path, 1)
    finally:
        os.umask(before)
    assert checkpoints.newest_valid(tmp_path)[0].files[0].stat().st_mode & 0o777 == 0o644


# Damaged and incomplete checkpoints


def truncate(folder):
    path = next(folder.glob("shard-001*"))
    path.write_bytes(path.read_bytes()[:-10])


def truncate_header(folder):
    path = next(folder.glob("shard-001*"))
    path.write_bytes(path.read_bytes()[:100])


def empty_file(folder):
    next(folder.glob("shard-000*")).write_bytes(b"")


def flip_a_bit(folder):
    path = next(folder.glob("shard-000*"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def rename_a_member(folder):
    path = next(folder.glob("shard-001*"))
    path.write_bytes(path.read_bytes().replace(b"[0, 2, 3, 5, 8]", b"[0, 2, 3, 5, 9]"))


def other_format(folder):
    path = next(folder.glob("shard-001*"))
    path.write_bytes(path.read_bytes().replace(b'format\\": 3', b'format\\": 9'))


@pytest.mark.parametrize(
    "damage",
    [truncate, truncate_header, empty_file, flip_a_bit, rename_a_member, other_format],
)
def test_a_damaged_checkpoint_is_reported_and_skipped(tmp_path, damage):
    for t in (1, 2):
        sharded(tmp_path, t, [3, 2])
    before = {path.name: path.read_bytes() for path in (tmp_path / "round-000002").iterdir()}
    damage(tmp_path / "round-000002")
    after = {path.name: path.read_bytes() for path in (tmp_path / "round-000002").iterdir()}
    assert before != after
    found, complaints = checkpoints.newest_valid(tmp_path)
    assert found.round == 1 and len(complaints) == 1 and "round-000002" in complaints[0]
    assert "damaged" in complaints[0] or "has format 9" in complaints[0]
    with pytest.raises(UserError, match="choose another"):
        checkpoints.find(tmp_path, 2)


def test_an_incomplete_checkpoint_does_not_count(tmp_path):
    """Its process was killed, so nothing is damaged."""
    sharded(tmp_path, 1, [3, 2])
    write_shard(tmp_path, 2, 1, [3, 2])
    (tmp_path / "round-000003").mkdir()
    (tmp_path / "round-000003" / ".shard-000-of-001.safetensors").write_bytes(b"half")
    assert [checkpoint.round for checkpoint in checkpoints.list_all(tmp_path)] == [1]
    assert checkpoints.newest_valid(tmp_path)[0].round == 1
    assert not checkpoints.newest_valid(tmp_path)[1]
    manifests.tidy(tmp_path)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["round-000001", "round-000002"], "only temporary files are removed"
    write_shard(tmp_path, 2, 0, [3, 2])
    assert checkpoints.newest_valid(tmp_path)[0].round == 2, "the missing shard is back"


def test_a_complete_checkpoint_replaces_incomplete_ones(tmp_path):
    write_shard(tmp_path, 1, 1, [3, 2])
    saved(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["round-000002"]


def test_shards_of_different_attempts_are_not_mixed(tmp_path):
    """A killed attempt wrote shard 1; the next one was killed after shard 0."""
    write_shard(tmp_path, 2, 1, [3, 2], attempt="1")
    write_shard(tmp_path, 2, 0, [3, 2], attempt="2", leaves=later(LEAVES, 1))
    assert checkpoints.list_all(tmp_path) == []
    write_shard(tmp_path, 2, 1, [3, 2], attempt="2", leaves=later(LEAVES, 1))
    (found,) = checkpoints.list_all(tmp_path)
    assert torch.equal(read(found, range(5))["a"], ROWS["a"] + 1)


def test_the_newest_complete_attempt_of_a_round_counts(tmp_path):
    """Three ranks saved a round; after a failure, two ranks saved it again."""
    sharded(tmp_path, 2, [2, 2, 1], attempt="1-000")
    write_shard(tmp_path, 2, 0, [3, 2], attempt="1-001", leaves=later(LEAVES, 1))
    assert len(checkpoints.find(tmp_path, 2).files) == 3
    write_shard(tmp_path, 2, 1, [3, 2], attempt="1-001", leaves=later(LEAVES, 1))
    assert len(checkpoints.find(tmp_path, 2).files) == 2
    manifests.prune(tmp_path, 2, 1)
    assert sorted(path.name for path in (tmp_path / "round-000002").iterdir()) == [
        "shard-000-of-002.safetensors",
        "shard-001-of-002.safetensors",
    ]


def test_an_empty_folder_has_no_checkpoint(tmp_path):
    assert checkpoints.newest_valid(tmp_path) == (None, [])
    with pytest.raises(UserError, match="it is empty"):
        checkpoints.find(tmp_path, 1)


def test_a_process_is_killed_while_it_writes(tmp_path):
    """At every moment, the newest checkpoint is intact, and nothing counts as damaged."""
    code = (
        "import sys; from pathlib import Path; from tests.record.test_checkpoints import saved\n"
        "for t in range(1, 1000000): saved(Path(sys.argv[1]), t, keep=2)"
    )
    newest = 0
    for trial in range(3):
        process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
        end = time.monotonic() + 60
        while not checkpoints.list_all(tmp_path) and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.03 * trial)
        process.kill()
        process.wait()
        found, complaints = checkpoints.newest_valid(tmp_path)
        assert found is not None and not complaints
        assert torch.equal(read(found, range(5))["b/steps"], ROWS["b/steps"])
        newest = max(newest, found.round)
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
    assert newest > 0


# Format 2

OLD = Path(__file__).with_name("format-2") / "checkpoints" / "round-000002"


def old_checkpoint(folder):
    shutil.copytree(OLD, folder / "round-000002")
    return folder / "round-000002"


def test_an_old_checkpoint_is_read(tmp_path):
    place = old_checkpoint(tmp_path)
    stored = load_file(place / "state.safetensors")
    found, complaints = checkpoints.newest_valid(tmp_path)
    assert found.round == 2 and not complaints and checkpoints.members(found) == [0, 1]
    like = Leaves({name: leaf[:1] for name, leaf in stored.items()}, {})
    rows = checkpoints.read(found, like, [1], CPU)
    assert all(torch.equal(rows[name], leaf[1:]) for name, leaf in stored.items())
    sharded(tmp_path, 3, [3, 2])
    assert [checkpoint.round for checkpoint in checkpoints.list_all(tmp_path)] == [2, 3]


@pytest.mark.parametrize("name", ["state.safetensors", "manifest.json"])
def test_an_old_checkpoint_that_is_damaged_is_reported(tmp_path, name):
    sharded(tmp_path, 1, [5])
    place = old_checkpoint(tmp_path)
    (place / name).unlink()
    found, complaints = checkpoints.newest_valid(tmp_path)
    assert found.round == 1 and "round-000002 is damaged" in complaints[0]


def test_an_old_checkpoint_of_another_format_is_reported(tmp_path):
    path = old_checkpoint(tmp_path) / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 1}))
    assert "has format 1" in checkpoints.newest_valid(tmp_path)[1][0]


def test_a_new_checkpoint_replaces_an_old_one_of_its_round(tmp_path):
    old_checkpoint(tmp_path)
    shutil.copytree(OLD, tmp_path / "old-round-000002")
    assert len(checkpoints.list_all(tmp_path)) == 2
    saved(tmp_path, 2)
    (found,) = checkpoints.list_all(tmp_path)
    assert not found.is_old and [path.name for path in tmp_path.iterdir()] == ["round-000002"]
    assert list(found.folder.iterdir()) == list(found.files)


def test_leftovers_of_the_old_format_are_removed(tmp_path):
    old_checkpoint(tmp_path)
    shutil.copytree(OLD, tmp_path / ".round-000004")
    manifests.tidy(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["round-000002"]
    assert checkpoints.newest_valid(tmp_path)[0].round == 2


# Old checkpoints are removed


def test_the_newest_checkpoints_are_kept(tmp_path):
    saved(tmp_path, 1, 2, 3, 10, 11, keep=3)
    assert [checkpoint.round for checkpoint in checkpoints.list_all(tmp_path)] == [3, 10, 11]


def test_incomplete_checkpoints_are_not_counted_and_not_disturbed(tmp_path):
    """Rank 0 has written its shard of round 4; rank 1 is still writing."""
    for t in (1, 2):
        sharded(tmp_path, t, [3, 2])
    write_shard(tmp_path, 3, 0, [3, 2])  # left by a killed process
    write_shard(tmp_path, 4, 0, [3, 2])
    unfinished = tmp_path / "round-000004" / ".shard-001-of-002.safetensors"
    unfinished.touch()
    manifests.prune(tmp_path, 4, keep=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["round-000002", "round-000004"]
    assert unfinished.exists()
    write_shard(tmp_path, 4, 1, [3, 2])
    manifests.prune(tmp_path, 4, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["round-000004"]


def test_a_run_that_continues_from_an_older_checkpoint_keeps_its_new_ones(tmp_path):
    saved(tmp_path, 1, 9)
    (tmp_path / "round-000009" / "shard-000-of-001.safetensors").write_bytes(b"torn")
    saved(tmp_path, 2, 3, keep=1)
    assert checkpoints.newest_valid(tmp_path)[0].round == 3


def test_files_of_the_user_stay(tmp_path):
    saved(tmp_path, 1)
    note = tmp_path / "round-000001" / "note.txt"
    note.write_text("mine")
    (tmp_path / "round-000005").mkdir()
    (tmp_path / "round-000005" / "note.txt").write_text("mine too")
    manifests.tidy(tmp_path)
    assert note.exists() and (tmp_path / "round-000005" / "note.txt").exists()


def test_a_full_disk_costs_only_the_new_checkpoint(tmp_path, monkeypatch):
    saved(tmp_path, 1)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"No space left on device.*make room"):
        saved(tmp_path, 2, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["round-000001"]

import os

import pytest

from remuda.system import disk


def test_processes_that_write_a_shared_file_use_their_own_temporary_files(tmp_path, monkeypatch):
    """Another process replaces the file while this one writes it: both succeed."""
    path, sync = tmp_path / "floor.json", disk.sync

    def sync_while_another_process_writes(temporary):
        monkeypatch.setattr(disk, "sync", sync)
        monkeypatch.setattr(os, "getpid", lambda: 1)
        disk.write_text(path, "theirs", is_shared=True)
        assert path.read_text() == "theirs"
        sync(temporary)

    monkeypatch.setattr(disk, "sync", sync_while_another_process_writes)
    disk.write_text(path, "ours", is_shared=True)
    assert path.read_text() == "ours"
    assert [file.name for file in tmp_path.iterdir()] == ["floor.json"]


def test_a_file_that_cannot_be_written_keeps_its_old_content(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(28, "No space left on device")

    path = tmp_path / "page.html"
    disk.write_text(path, "old")
    monkeypatch.setattr(disk, "sync", fail)
    with pytest.raises(OSError, match="No space left"):
        disk.write_text(path, "new")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"], "no space is wasted"


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path):
    (tmp_path / "grid.png").mkdir()
    with pytest.raises(IsADirectoryError) as error:
        disk.write_bytes(tmp_path / "grid.png", b"content")
    assert error.value.filename == str(tmp_path / "grid.png")
    assert [path.name for path in tmp_path.iterdir()] == ["grid.png"]

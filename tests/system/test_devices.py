import os

from remuda.system.devices import usable_cores


def test_no_more_than_the_scheduler_grants(tmp_path):
    assert usable_cores(tmp_path) == len(os.sched_getaffinity(0))


def test_a_quota_of_a_container_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    (tmp_path / "cpu.max").write_text("400000 100000\n")
    assert usable_cores(tmp_path) == 4
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert usable_cores(tmp_path) == 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert usable_cores(tmp_path) == 64


def test_the_older_layout_of_quotas(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("200000\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(tmp_path) == 2

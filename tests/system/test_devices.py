import ast
import os
from pathlib import Path

import pytest
import torch

from remuda.errors import UserError
from remuda.system import devices
from remuda.system.devices import find_device, usable_cores


def test_only_find_device_imports_pytorch():
    tree = ast.parse(Path(devices.__file__).read_text())
    imported = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not any("torch" in ast.unparse(node) for node in imported)


def test_a_device_is_found_by_its_name(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert find_device("auto") == find_device("cpu") == torch.device("cpu")
    for name in ("tpu", "meta"):
        with pytest.raises(UserError, match=f"engine.device={name} is unknown"):
            find_device(name)
    with pytest.raises(UserError, match=r"cuda:1 is not available, .* found 0 CUDA devices"):
        find_device("cuda:1")


def test_no_more_cores_than_the_scheduler_grants(tmp_path):
    assert usable_cores(tmp_path) == len(os.sched_getaffinity(0))


def test_the_cpu_quota_of_a_container_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    (tmp_path / "cpu.max").write_text("400000 100000\n")
    assert usable_cores(tmp_path) == 4
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert usable_cores(tmp_path) == 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert usable_cores(tmp_path) == 64


def test_the_cpu_quota_in_control_groups_version_1(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("200000\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(tmp_path) == 2

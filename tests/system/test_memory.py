import mmap

import pytest
import torch

from remuda.system import memory


@pytest.fixture(autouse=True)
def no_groups(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_OWN_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "CGROUP", tmp_path / "fs")


def test_all_sources_agree_on_the_order_of_magnitude(monkeypatch, tmp_path):
    reported = memory.available_bytes()
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "none")
    counted = memory.available_bytes()
    assert reported is not None and counted is not None
    assert counted > 1e6 and reported / 100 < counted < reported * 100


def test_unknown_memory_is_none(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "none")
    monkeypatch.setattr(memory.os, "sysconf_names", {})
    assert memory.available_bytes() is None


def group(folder, limit, used, cached, names):
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in zip((*names, "memory.stat"), (limit, used, cached), strict=True):
        (folder / name).write_text(f"{value}\n")


V1, V2 = ("memory.limit_in_bytes", "memory.usage_in_bytes"), ("memory.max", "memory.current")


def test_the_limit_of_a_batch_job_counts(tmp_path):
    (tmp_path / "cgroup").write_text("0::/slurm/job_7/step_0\n")
    group(tmp_path / "fs/slurm/job_7/step_0", "max", 500, "anon 1\ninactive_file 0", V2)
    group(tmp_path / "fs/slurm/job_7", 2000, 900, "anon 1\nactive_file 60\ninactive_file 40", V2)
    group(tmp_path / "fs/slurm", 5000, 900, "inactive_file 100", V2)
    assert memory.available_bytes() == 1200  # cached files count as free


def test_the_limit_of_a_container_with_control_groups_version_1(tmp_path):
    """In a container, the group is the root of the mounted folder, whatever its path outside."""
    (tmp_path / "cgroup").write_text("3:cpuset:/\n4:memory:/docker/abc\n0::/\n")
    group(tmp_path / "fs/memory", 3000, 3100, "total_inactive_file 50", V1)
    assert memory.available_bytes() == 0
    group(tmp_path / "fs/memory", 3000, 1000, "total_rss 5\ntotal_inactive_file 50", V1)
    assert memory.available_bytes() == 2050


def test_the_memory_of_this_process_grows_with_its_tensors():
    cpu = torch.device("cpu")
    before = memory.used_bytes(cpu)
    # pages of its own, because an allocator may use memory again that it has kept
    tensor = torch.frombuffer(mmap.mmap(-1, 100 << 20), dtype=torch.uint8).fill_(1)
    during, peak = memory.used_bytes(cpu), memory.peak_bytes(cpu)
    assert during - before > 50 << 20 and peak >= during - (1 << 20)
    del tensor
    assert memory.used_bytes(cpu) < during - (50 << 20)
    assert memory.peak_bytes(cpu) >= peak


def test_the_largest_number_counts_without_proc(monkeypatch, tmp_path):
    cpu = torch.device("cpu")
    monkeypatch.setattr(memory, "_STATM", tmp_path / "none")
    assert memory.used_bytes(cpu) == memory.peak_bytes(cpu) > 10 << 20

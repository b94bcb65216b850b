"""Test what the doctor finds: on this machine, on real ranks, and if something is missing."""

import os
import re
import subprocess
import sys

import pytest

from remuda.cluster import doctor
from remuda.cluster.doctor import installation, machine, probe, ranks, results, trials
from remuda.cluster.doctor.findings import FAILS, MISSING, OK, Finding, read_answer, shortened
from remuda.cluster.doctor.links import links
from remuda.cluster.mpirun import command, find
from tests.cli.test_cli import call

STATES = (OK, MISSING, FAILS)


@pytest.fixture(autouse=True)
def nowhere(monkeypatch):
    """Hide any launcher or Slurm job that the tests run in."""
    for name in [name for name in os.environ if name.startswith(("SLURM_", "OMPI_COMM_", "PMI_"))]:
        monkeypatch.delenv(name)


def lines_of(printed: str) -> dict[str, tuple[str, str]]:
    """Return state and text by name; every line must have all three."""
    found = {}
    for line in printed.splitlines():
        match = re.fullmatch(rf"({'|'.join(STATES)}) +(\S.{{0,10}}\S) +(\S.*)", line)
        assert match, line
        found.setdefault(match[2].strip(), (match[1], match[3]))
    return found


def examine(num_ranks: int) -> tuple[bool, dict[str, tuple[str, str]]]:
    told: list[str] = []
    works = doctor.examine(num_ranks, told.append)
    return works, lines_of("\n".join(told))


# With everything installed


def test_real_ranks_are_started_and_measured(tmp_path):
    pytest.importorskip("mpi4py", reason="ranks need mpi4py")
    result = call("doctor", "--ranks", 2, REMUDA_DATA=str(tmp_path))
    assert result.returncode == 0 and not result.stderr, result.stdout + result.stderr
    found = lines_of(result.stdout)
    for name in (
        "Python",
        "PyTorch",
        "cores",
        "job",
        "mpi4py",
        "launcher",
        "MPI",
        "threads",
        "ranks",
        "host",
    ):
        assert found[name][0] == OK, name
    assert found["data"] == (
        MISSING,
        f"{tmp_path} contains no data set: runs download the data that they need",
    )
    assert found["launcher"][1].startswith(find())
    assert "ranks 0-1; cores for each: " in found["host"][1]
    for name, pattern, least, most in (
        ("ranks", r"2 started and joined in ([\d.]+) s", 0.1, 200),
        ("latency", r"([\d.]+) µs on a host, .*", 0.1, 1e6),
        ("bandwidth", r"([\d,]+) MB/s on a host, .*", 1, 1e6),
        ("allreduce", r"([\d.]+) ms for 5 MB over 2 ranks", 0.1, 1e4),
    ):
        match = re.fullmatch(pattern, found[name][1])
        assert match and least <= float(match[1].replace(",", "")) <= most, (name, found[name])
    has_ulfm = "--with-ft ulfm" in found["launcher"][1]
    assert found["ULFM"][0] == (OK if has_ulfm else MISSING)


def test_ranks_of_a_launcher_are_joined():
    """With three ranks, the last one takes no part in the measurement between two."""
    pytest.importorskip("mpi4py", reason="ranks need mpi4py")
    words = [*command(3), sys.executable, "-m", "remuda", "doctor"]
    result = subprocess.run(words, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stdout + result.stderr
    found = lines_of(result.stdout)
    assert found["job"][1] == "rank 0 of 3; the test uses these ranks"
    assert found["ranks"][1] == "3 joined"
    assert result.stdout.count("latency") == 1, "only one rank prints"


# With something missing


@pytest.fixture
def no_mpirun(monkeypatch, tmp_path):
    """Hide mpirun: Python has none next to it, and PATH is empty."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_a_missing_launcher_is_reported(no_mpirun):
    pytest.importorskip("mpi4py", reason="ranks need mpi4py")
    works, found = examine(2)
    assert not works
    state, text = found["launcher"]
    assert state == MISSING and "load the cluster's MPI module" in text
    assert found["MPI"][0] == OK, "one rank needs no launcher"
    assert found["ranks"] == (FAILS, "2 cannot be started without a launcher: only one rank works")


@pytest.mark.parametrize(
    "num_ranks, works", [(0, True), (2, False)], ids=["not asked for", "asked for"]
)
def test_a_missing_mpi4py_is_reported(monkeypatch, num_ranks, works):
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda name: None)
    worked, found = examine(num_ranks)
    assert worked is works
    assert found["mpi4py"][0] == MISSING and "pip install 'remuda[mpi]'" in found["mpi4py"][1]
    assert found["ranks"] == (FAILS, "cannot be started without mpi4py: install it as shown above")


def test_the_exit_status_tells_whether_ranks_would_work(monkeypatch):
    from tests.cli.test_cli import in_process

    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda name: None)
    assert in_process("doctor", "--ranks", 2) == (2, "") and in_process("doctor") == (0, "")
    status, words = in_process("doctor", "--ranks", "-1")
    assert status == 2 and "engine.ranks must be at least 0" in words


def test_mpi4py_without_a_library_is_reported(monkeypatch):
    pytest.importorskip("mpi4py", reason="ranks need mpi4py")
    monkeypatch.setenv("MPI4PY_LIBMPI", "/nowhere/libmpi.so")  # as after another module was loaded
    works, found = examine(1)
    if found["ranks"][0] == OK:
        pytest.skip("this mpi4py is linked with its library")
    assert not works and found["ranks"][0] == FAILS
    assert "needs mpi4py and an MPI library" in found["ranks"][1]
    assert "Traceback" not in found["ranks"][1]


def fake(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_launcher_that_fails_is_quoted(no_mpirun, monkeypatch):
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(installation.importlib.metadata, "version", lambda name: "4.0")
    fake(
        no_mpirun / "mpirun",
        'test "$1" = --version && echo "mpirun (Open MPI) 4.1.2" && exit\n'
        "echo ----- >&2; echo 'There are not enough slots' >&2; echo '  for 2.' >&2; exit 3",
    )
    works, found = examine(2)
    assert not works and found["launcher"][0] == OK
    assert found["ranks"][1].startswith(
        "2 ranks exited with status 3 (There are not enough slots for 2.): try by hand: "
    )
    fake(no_mpirun / "mpirun", "exit 1")
    assert installation.launcher().state == MISSING


def test_ranks_that_never_answer_are_ended(no_mpirun, monkeypatch):
    monkeypatch.setattr(trials, "TIMEOUT", 0.3)
    fake(no_mpirun / "mpirun", 'case "$*" in --version) exit;; esac\nexec /bin/sleep 60')
    with pytest.raises(Exception, match=r"2 ranks did not answer within 0 s: .* try by hand"):
        trials.trial(2)


@pytest.mark.parametrize("types, state", [("none pmi2 pmix pmix_v4", OK), ("none pmi2", MISSING)])
def test_srun_needs_pmix(no_mpirun, types, state):
    fake(no_mpirun / "srun", f'[ "$1" = --mpi=list ] && echo "MPI plugin types are... {types}" >&2')
    assert installation.srun(str(no_mpirun / "srun")).state == state


def test_a_slurm_job_is_named_and_its_tasks_are_asked_for(monkeypatch):
    for name, value in {"JOB_ID": "77", "JOB_NUM_NODES": "2", "NTASKS": "8"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    assert installation.job().text == "Slurm job 77, nodes: 2, tasks: 8"
    assert ranks.are_asked_for(0)


# The answer of a trial


def rank(**changed):
    same = {"host": "a", "cores": 4, "num_usable": 8, "num_sharing": 2, "device": "cuda:0"}
    return {**same, "folder": ["/home/me", 1, 2], "versions": "remuda 1", **changed}


ANSWER = {
    "library": "Open MPI v4.1.2",
    "standard": "3.1",
    "threads": "multiple",
    "ulfm": "none",
    "cuda": None,
    "ranks": [rank(), rank(device="cuda:1"), rank(host="b"), rank(host="b", device="cuda:1")],
    "links": [
        {"hosts": ["a", "a"], "latency": 2e-6, "exchange": 0.004},
        {"hosts": ["a", "b"], "latency": 2.5e-5, "exchange": 0.016},
    ],
    "sum": 0.0021,
    "startup": 3.26,
}


def test_an_answer_is_reported_in_words():
    lines = [str(finding) for finding in (*results.library(ANSWER), *results.ranks(ANSWER))]
    assert lines == [
        "ok          MPI         Open MPI v4.1.2, MPI 3.1",
        "ok          threads     level multiple",
        "missing     ULFM        Open MPI v4.1.2 lacks it, so a run stops when it loses a rank, "
        "and you must resume it: use Open MPI 5",
        "missing     CUDA-aware  unknown: leave engine.cuda_aware=false; "
        "rows travel through the host's memory",
        "ok          ranks       4 started and joined in 3.3 s",
        "ok          host        a: ranks 0-1; cores for each: 4; on cuda:0, cuda:1",
        "ok          host        b: ranks 2-3; cores for each: 4; on cuda:0, cuda:1",
        "ok          latency     2.0 µs on a host, a message of 8 bytes",
        "ok          bandwidth   4,000 MB/s on a host, each way, 16 MB both ways at once",
        "ok          latency     25.0 µs between hosts, a message of 8 bytes",
        "ok          bandwidth   1,000 MB/s between hosts, each way, 16 MB both ways at once",
        "ok          allreduce   2.1 ms for 5 MB over 4 ranks",
    ]


def test_too_few_cores_and_differences_between_ranks_are_reported():
    def findings(*facts):
        return list(results.ranks({**ANSWER, "ranks": list(facts), "links": []}))

    def failure(*facts):
        (text,) = [finding.text for finding in findings(*facts) if finding.state == FAILS]
        return text

    crowded = rank(num_usable=1, cores=1)
    assert "these ranks share cores, which is slow" in findings(crowded, crowded)[1].text
    elsewhere = rank(folder=["/home/me", 5, 6])
    assert "rank 1 is not in rank 0's folder /home/me" in failure(rank(), elsewhere)
    older = rank(versions="remuda 0")
    assert "rank 1 has remuda 0, but rank 0 has remuda 1" in failure(rank(), older)


def test_each_pair_of_hosts_is_measured_once():
    assert probe.pairs(["a"]) == []
    assert probe.pairs(["a", "a", "a"]) == [(0, 1)]
    assert probe.pairs(["a", "b", "b", "c"]) == [(1, 2), (0, 1), (0, 3), (1, 3)]


def test_three_hosts_give_a_table():
    seconds = {"ab": (2e-5, 0.016), "ac": (3e-5, 1.6), "bc": (1.234e-3, 2.0)}
    measured = [
        {"hosts": [*pair], "latency": latency, "exchange": exchange}
        for pair, (latency, exchange) in seconds.items()
    ]
    assert [str(finding) for finding in links(measured)] == [
        "ok          latency     µs     b        c",
        "ok          latency     a   20.0     30.0",
        "ok          latency     b         1,234.0",
        "ok          bandwidth   MB/s        b     c",
        "ok          bandwidth   a     1,000.0  10.0",
        "ok          bandwidth   b               8.0",
        "ok          bandwidth   a - c and b - c reach less than a quarter of the fastest pair, "
        "1,000 MB/s, and slow down every round: check their cables and network adapters",
    ]
    assert len(list(links(measured[1:]))) == 6, "no pair is much slower than the others"


def test_answers_are_found_among_other_output():
    assert read_answer('warning: no IB\n[1]\n{"a": 1}\nbye') == {"a": 1}
    assert read_answer("x\n") == {}


def test_error_messages_become_one_line():
    assert shortened("-----\n  A daemon\n  died.\n=====\n") == "A daemon died."
    traceback = "Traceback (most recent call last):\n  File x\nRuntimeError: no libmpi\nbye"
    assert shortened(traceback) == "RuntimeError: no libmpi"
    assert shortened("abcdef", 3) == "abc ..."


# This machine


def test_memory_is_limited_by_the_control_group(tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  9000 kB\nMemAvailable:  3000 kB\n")
    assert machine.usable_memory(meminfo, tmp_path) == 3000 * 1024
    (tmp_path / "memory.current").write_text("1000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.usable_memory(meminfo, tmp_path) == 3000 * 1024
    (tmp_path / "memory.max").write_text("5000\n")
    assert machine.usable_memory(meminfo, tmp_path) == 4000
    assert machine.usable_memory(tmp_path / "none", tmp_path) is None


def test_a_gpu_that_cannot_compute_is_reported(monkeypatch):
    def broken(index):
        raise RuntimeError("CUDA error: out of memory\nCompile with ...")

    monkeypatch.setattr(machine.torch.cuda, "mem_get_info", broken)
    finding = machine._gpu(1)
    assert finding.state == FAILS and finding.name == "cuda:1" and "out of memory" in finding.text


def test_a_gpu_needs_a_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert machine._compiler().state == FAILS and "engine.compile=false" in machine._compiler().text
    fake(tmp_path / "gcc", "")
    assert machine._compiler() == Finding(OK, "C compiler", str(tmp_path / "gcc"))

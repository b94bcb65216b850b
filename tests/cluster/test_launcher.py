"""Test how ranks are started, with stand-ins for mpirun."""

import sys
from dataclasses import replace

import pytest

from remuda.cluster import mpirun, supervision
from remuda.errors import UserError
from tests.cli.test_cli import in_process
from tests.cluster.test_launch import DIGITS

RULER = "-" * 74


@pytest.fixture
def fake_mpirun(tmp_path, monkeypatch):
    """Write a shell script that stands in for mpirun."""
    path = tmp_path / "mpirun"

    def write(script):
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(mpirun, "find", lambda: str(path))
        return str(path)

    return write


def start(folder, tell, **settings):
    settings = {"timeout": 2.0, **settings}
    job = supervision.Job(arguments=["train"], num_ranks=2, folder=folder / "run", **settings)
    return supervision.start(job, tell)


def test_options_suit_the_launcher(fake_mpirun, monkeypatch):
    def options(version):
        return mpirun.options(fake_mpirun(f"echo '{version}'"), 2)

    monkeypatch.setattr(mpirun, "usable_cores", lambda: 2)
    assert "--with-ft" in options("mpirun (Open MPI) 5.0.11")
    assert "--with-ft" not in options("mpirun (Open MPI) 4.1.2")
    assert "mpi_yield_when_idle" not in options("mpirun (Open MPI) 4.1.2")
    monkeypatch.setattr(mpirun, "usable_cores", lambda: 1)
    assert "mpi_yield_when_idle" in options("mpirun (Open MPI) 4.1.2")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "--allow-run-as-root" not in options("mpirun (Open MPI) 5.0.11")
    assert options("HYDRA build details: Version: 4.2") == []


def test_ulfm_can_be_switched_off(fake_mpirun, monkeypatch):
    path = fake_mpirun("echo 'mpirun (Open MPI) 5.0.11'")
    assert "--with-ft" in mpirun.options(path, 2)
    monkeypatch.setenv("REMUDA_ULFM", "0")
    assert "--with-ft" not in mpirun.options(path, 2)


def test_a_missing_mpirun_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(supervision.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    status, words = in_process(*DIGITS, "--engine", "mpi", "--ranks", 2)
    assert status == 2 and "cannot find mpirun" in words and len(words.strip().splitlines()) == 1


def test_an_mpirun_that_fails_to_start_is_started_again(fake_mpirun, monkeypatch, tmp_path):
    notice = f'{RULER} "The PMIx server\'s listener thread failed to start." {RULER}'
    fake_mpirun(
        'test "$1" = --version && exit\n'
        f"echo x >> {tmp_path}/calls\n"
        f"if [ $(wc -l < {tmp_path}/calls) -lt $SUCCEEDS_AT ]; then\n"
        f"printf '%s\\n' {notice} >&2; exit 1\n"
        "fi\n"
        "printf '\\016\\n' >&2"
    )
    told: list[str] = []
    monkeypatch.setenv("SUCCEEDS_AT", "3")
    assert start(tmp_path, told.append) == 0
    assert told == ["MPI did not start on all ranks; starting them again"] * 2
    (tmp_path / "calls").unlink()
    monkeypatch.setenv("SUCCEEDS_AT", "9")
    with pytest.raises(UserError, match="MPI did not start on all ranks, 3 times"):
        start(tmp_path, told.append)


@pytest.mark.parametrize(
    "script, message",
    [
        ("exit 7", "the ranks exited with status 7 and without an error message"),
        ("printf '\\002\\n' >&2", "all ranks died"),
        (
            f"printf '%s\\n' {RULER} 'process rank 1 with PID 9 on node n7 exited on signal 9.' "
            f"{RULER} >&2; exit 137",
            r"rank 1 on n7 was ended by signal 9 \(Killed\), and mpirun ended all others",
        ),
    ],
)
def test_ranks_that_end_without_a_message_are_explained(fake_mpirun, tmp_path, script, message):
    fake_mpirun(f'test "$1" = --version && exit\n{script}')
    with pytest.raises(UserError, match=f"^{message}: start the run again$"):
        start(tmp_path, print)


def test_output_of_ranks_is_passed_on_without_their_markers(fake_mpirun, tmp_path, capfd):
    fake_mpirun('test "$1" = --version && exit\nprintf "\\002\\none\\n\\016\\ntw\\016\\no\\n" >&2')
    assert start(tmp_path, print) == 0
    assert capfd.readouterr().err == "one\ntwo\n"


def test_the_next_step_is_to_resume_or_to_start_again(tmp_path):
    job = supervision.Job(arguments=[], num_ranks=2, folder=tmp_path)
    assert supervision.next_step(job) == "start the run again"
    (tmp_path / "config.toml").touch()
    assert supervision.next_step(job) == f"resume with: remuda resume {tmp_path}"
    scoring = replace(job, trains=False)
    assert supervision.next_step(scoring) == "start the command again"

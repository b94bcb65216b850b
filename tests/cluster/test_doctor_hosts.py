"""Test what the doctor finds on other hosts, with hand-made facts and with stand-ins for ssh."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from remuda.cluster.doctor import facts, hosts
from remuda.cluster.doctor.comparison import GIB, compare
from remuda.cluster.doctor.findings import FAILS, MISSING, OK
from remuda.cluster.hosts import Host
from tests.cli.test_cli import in_process

FACTS = {
    "time": 0.0,
    "hostname": "b",
    "python": "3.12.1",
    "versions": {"remuda": "1.0", "torch": "2.5", "mpi4py": "4.0"},
    "mpi": {"library": "Open MPI v5.0.11"},
    "unknown": [],
    "sees_folder": True,
    "data": {"/data": ["cifar10", "mnist"]},
    "cores": 8,
    "memory": 16 * GIB,
}


def problems(changed, slots=4, ahead=0.0):
    """Return state, name and text of each problem of a host with these facts."""
    first, *others = compare(Host("b", slots), {**FACTS, **changed}, FACTS, ahead)
    assert first.state == OK and first.name == "host"
    return [(finding.state, finding.name, finding.text) for finding in others]


def test_a_host_like_this_machine_has_no_problems():
    (finding,) = compare(Host("b", 4), FACTS, FACTS, 1.5)
    assert finding.text == (
        "b: Python 3.12.1, remuda 1.0, torch 2.5, mpi4py 4.0, Open MPI v5.0.11; "
        "8 cores and 16.0 GiB free for 4 ranks"
    )


@pytest.mark.parametrize(
    "changed, state, name, words",
    [
        ({"python": "3.9.2"}, FAILS, "Python", "b has Python 3.9.2 at"),
        ({"versions": FACTS["versions"] | {"torch": None}}, FAILS, "torch", "b lacks torch: share"),
        (
            {"versions": FACTS["versions"] | {"remuda": "0.9"}},
            FAILS,
            "remuda",
            "b has remuda 0.9, but this machine 1.0: share the folder, or copy it: rsync -a ",
        ),
        ({"mpi": {"library": "Open MPI v4.1.2"}}, FAILS, "MPI", "b loads Open MPI v4.1.2, but"),
        ({"mpi": {"error": "no libmpi.so"}}, FAILS, "MPI", "b loads no library, but this machine"),
        ({"sees_folder": False}, FAILS, "folder", "b does not share the folder"),
        ({"data": {"/data": ["mnist"]}}, MISSING, "data", "b lacks cifar10 in /data: copy"),
        ({"data": {"/data": None}}, MISSING, "data", "b lacks cifar10 and mnist in /data: copy"),
        ({"cores": 3}, MISSING, "cores", "b has 3 cores for 4 ranks, which is slow: start fewer"),
        ({"memory": GIB}, MISSING, "memory", "b has 1.0 GiB free, which is little for 4 ranks"),
        ({"unknown": ["a"]}, FAILS, "name", "b cannot resolve a, where rank 0 runs"),
    ],
)
def test_each_problem_of_a_host_is_reported_with_a_remedy(changed, state, name, words):
    ((found, title, text),) = problems(changed)
    assert (found, title) == (state, name) and text.startswith(words) and ": " in text


def test_a_wrong_clock_is_reported():
    assert problems({}, ahead=-40.2)[0][2].startswith("the clock of b is 40 s behind")
    assert problems({}, ahead=7.0)[0][2].startswith("the clock of b is 7 s ahead")


def test_facts_are_true_for_this_machine(tmp_path):
    (tmp_path / "mnist").touch()
    there = {"names": ["localhost", "no-such-host.invalid"], "file": str(tmp_path)}
    questions = json.dumps({**there, "data": [str(tmp_path), "/nowhere"]})
    words = [sys.executable, facts.__file__, questions]
    found = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    assert found["unknown"] == ["no-such-host.invalid"] and found["sees_folder"]
    assert found["data"] == {str(tmp_path): ["mnist"], "/nowhere": None}
    assert found["cores"] >= 1 and found["versions"]["remuda"]
    # Without any package, it still answers.
    found = json.loads(
        subprocess.run(
            [sys.executable, "-I", "-S", "-", questions],
            input=Path(facts.__file__).read_bytes(),
            capture_output=True,
            check=True,
        ).stdout
    )
    assert found["versions"] == {"remuda": None, "torch": None, "mpi4py": None}
    assert "error" in found["mpi"]


@pytest.mark.parametrize(
    "words, remedy",
    [
        ("ssh: Could not resolve hostname b", "add b to /etc/hosts or ~/.ssh/config"),
        ("root@b: Permission denied (publickey).", "ssh-copy-id b"),
        ("Host key verification failed.", "accept the key of the host once: ssh b"),
        ("ssh: connect to host b port 22: Connection refused", "start the ssh server there"),
        ("no answer within 15 s", "check that it is switched on and connected: ping b"),
    ],
)
def test_the_remedy_suits_the_error_of_ssh(words, remedy):
    assert remedy in hosts._unreachable("b", words).text


@pytest.fixture
def fake_ssh(tmp_path, monkeypatch):
    """Write a shell script that stands in for ssh."""

    def write(script):
        path = tmp_path / "ssh"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("REMUDA_SSH", str(path))

    return write


@pytest.mark.parametrize(
    "script, words",
    [
        ("exit 127", f"b.invalid has no {sys.executable}: share its folder, or copy it: rsync -a"),
        ("echo 'bad libc' >&2; exit 1", f"b.invalid cannot run {sys.executable} (bad libc): try"),
        ("sleep 60", "b.invalid did not start Python within 0 s"),
    ],
)
def test_a_python_that_does_not_start_is_reported(fake_ssh, monkeypatch, script, words):
    fake_ssh(f'test "$2" = true && exit\n{script}')
    monkeypatch.setattr(hosts, "TIMEOUT", 0.3 if "sleep" in script else 20.0)
    answer = hosts._ask("b.invalid", {"names": [], "file": "/", "data": []})
    assert answer.state == FAILS and answer.name == "Python" and answer.text.startswith(words)


def test_the_clock_of_a_host_is_compared(fake_ssh, monkeypatch):
    for shift in (-100, 0, 100):
        fake_ssh(f'echo "{{\\"time\\": $(($(date +%s) + {shift}))}}"')
        ahead = hosts._ask("b.invalid", {}).ahead
        assert shift - 2 <= ahead <= shift + 2 and (shift or ahead < 0.01)


def test_impossible_requests_fail_with_one_sentence():
    for words, sentence in (
        (("--hosts", "a:2,b", "--ranks", 2), "engine.hosts=a:2,b:1 starts 3 ranks"),
        (("--hosts", "a:x"), "cannot read the host 'a:x'"),
        (("--hosts", "./none"), "cannot read the hosts in none: No such file"),
    ):
        status, said = in_process("doctor", *words)
        assert status == 2 and sentence in said and len(said.strip().splitlines()) == 1, said

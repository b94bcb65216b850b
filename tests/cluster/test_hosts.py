"""Test how hosts are named, which ranks they get, and what users read if one does not answer."""

import socket

import pytest

from remuda.cluster import hosts, launch, mpirun
from remuda.cluster.environment import RANK_VARIABLES, STARTED_BY_REMUDA
from remuda.cluster.hosts import Host
from remuda.config import EngineConfig, from_dict
from remuda.errors import UserError
from remuda.training.run import changed
from tests.cli.test_cli import in_process
from tests.cluster.test_launch import DIGITS

AB = [Host("a", 4), Host("b", 2)]


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    names = [name for pair in RANK_VARIABLES for name in pair]
    for name in (*names, "SLURM_NTASKS", "SLURM_JOB_ID", STARTED_BY_REMUDA, "REMUDA_SSH"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "text, found",
    [
        ("a:4,b:2", AB),
        ("a:4, b", [Host("a", 4), Host("b", 1)]),
        ("a slots=4,b slots = 2", AB),
        ("a,b:2,a:3", AB),
        ("node-1.org:2,10.0.0.7", [Host("node-1.org", 2), Host("10.0.0.7", 1)]),
        ("", []),
    ],
)
def test_hosts_are_a_list_of_names_and_slots(text, found):
    assert hosts.parse(text) == found
    assert hosts.parse(hosts.describe(found)) == found


@pytest.mark.parametrize("text", ["a:0", "a:x", "a b", "a:4:4", ":4", "a slots=", "me@a", "-o"])
def test_an_unreadable_host_is_named(text):
    with pytest.raises(UserError, match=r"cannot read the host .*: write a name and the number"):
        hosts.parse(f"b:2,{text}")


def test_hosts_can_be_listed_in_a_file(tmp_path):
    path = tmp_path / "nodes"
    path.write_text("# our machines\n\na:4   # the big one\nb slots=2\n")
    assert hosts.read(str(path)) == AB
    path.write_text("a\na\nb\na\nb\na\n")  # as batch systems write it: a line for each slot
    assert hosts.read(str(path)) == AB
    path.write_text("# none\n")
    with pytest.raises(UserError, match="nodes names no host"):
        hosts.read(str(path))
    with pytest.raises(UserError, match=r"cannot read the hosts in .*none: No such file"):
        hosts.read(str(tmp_path / "none"))


def test_the_hosts_of_the_remaining_ranks_are_kept():
    assert hosts.of_ranks(AB, [0, 1, 3, 5]) == [Host("a", 3), Host("b", 1)]
    assert hosts.of_ranks(AB, [4, 5]) == [Host("b", 2)]


def test_this_machine_is_recognised():
    assert all(map(hosts.is_here, ("localhost", "127.0.0.1", socket.gethostname())))
    assert not hosts.is_here("192.0.2.1") and not hosts.is_here("no-such-host.invalid")


ROUTES = """Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0
docker0 000011AC 00000000 0001 0 0 0 0000FFFF 0 0 0
eth0 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0
"""


@pytest.mark.parametrize(
    "names, found",
    [
        (["192.0.2.7", "192.0.2.8", "localhost"], "192.0.2.0/24"),
        (["172.17.3.4"], "172.17.0.0/16"),
        (["192.0.2.7", "198.51.100.8"], ""),  # only the default route leads to both
        (["192.0.2.7", "no-such-host.invalid"], ""),
        (["localhost"], ""),
    ],
)
def test_the_network_between_hosts_is_found(tmp_path, names, found):
    routes = tmp_path / "route"
    routes.write_text(ROUTES)
    assert hosts.network([Host(name, 1) for name in names], routes) == found
    assert hosts.network([Host(name, 1) for name in names], tmp_path / "none") == ""


def test_hosts_that_do_not_answer_are_found(monkeypatch, tmp_path):
    ssh = tmp_path / "my ssh"
    ssh.write_text('#!/bin/sh\necho "$1: no route" >&2; test "$1" = no-a.invalid\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("REMUDA_SSH", f"'{ssh}'")
    asked = [Host("localhost", 1), Host("no-a.invalid", 4), Host("no-b.invalid", 4)]
    assert hosts.living(asked) == asked[:2]
    message = r"no-b.invalid does not answer by ssh \(no-b.invalid: no route\): run `remuda doctor"
    with pytest.raises(UserError, match=message):
        hosts.check(asked)
    hosts.check(asked[:2])
    monkeypatch.setenv("REMUDA_SSH", "/nowhere/ssh")
    assert "cannot run /nowhere/ssh" in hosts.complaint("no-a.invalid")
    monkeypatch.setenv("REMUDA_SSH", "sh -c 'sleep 60' sh")
    monkeypatch.setattr(hosts, "ANSWER_TIMEOUT", 0.2)
    assert hosts.complaint("no-a.invalid") == "no answer within 0 s"


def test_the_slots_of_all_hosts_are_the_ranks_to_start(monkeypatch):
    assert launch.num_to_start(EngineConfig(name="mpi", hosts="a:4,b:2")) == 6
    assert launch.num_to_start(EngineConfig(name="mpi", hosts="a:4,b:2", ranks=6)) == 6
    assert launch.num_to_start(EngineConfig(name="mpi", hosts="b")) == 1, "on another machine"
    monkeypatch.setenv(STARTED_BY_REMUDA, "1")
    assert launch.num_to_start(EngineConfig(name="mpi", hosts="b")) == 0


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("--hosts", "a:2,b:2"), "engine.hosts=a:2,b:2 requires MPI: add --engine mpi"),
        (
            ("--hosts", "a:2,b:2", "--engine", "mpi", "--ranks", "3"),
            "engine.ranks=3, but engine.hosts=a:2,b:2 starts 4 ranks: leave out --ranks",
        ),
        (("--hosts", "a:-2", "--engine", "mpi"), "cannot read the host 'a:-2'"),
        (("--hosts", "./none", "--engine", "mpi"), "cannot read the hosts in none: No such file"),
    ],
)
def test_impossible_requests_fail_with_one_sentence(words, sentence):
    status, said = in_process(*DIGITS, *words)
    assert status == 2 and sentence in said and len(said.strip().splitlines()) == 1, said


def test_a_resume_keeps_the_hosts_or_changes_them(tiny, monkeypatch):
    tiny["engine"] |= {"name": "mpi", "hosts": "a:2,b:1", "ranks": 3}
    config = from_dict(tiny)

    def engine(**given):
        names = ("rounds", "device", "members", "engine", "ranks", "hosts")
        found = changed(config, **{name: given.get(name) for name in names}).engine
        return found.hosts, found.ranks

    assert engine() == ("a:2,b:1", 3)
    assert engine(hosts="a:2") == ("a:2", 0), "the hosts tell the number of ranks"
    assert engine(engine="stacked") == ("", 0)
    assert engine(hosts="", ranks=2) == ("", 2)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    assert engine() == ("", 2), "another launcher has chosen the hosts"
    monkeypatch.setenv(STARTED_BY_REMUDA, "1")
    assert engine(hosts="a:2") == ("a:2", 2)


# The command line of mpirun


@pytest.fixture
def fake_mpirun(tmp_path):
    path = tmp_path / "prefix" / "bin" / "mpirun"
    path.parent.mkdir(parents=True)

    def write(version):
        path.write_text(f"#!/bin/sh\necho '{version}'\n")
        path.chmod(0o755)
        return str(path)

    return write


def after(words, name):
    """Return the words that follow each occurrence of a word."""
    return [words[i + 1] for i, word in enumerate(words) if word == name]


def test_mpirun_starts_ranks_on_the_hosts(fake_mpirun, monkeypatch, tmp_path):
    monkeypatch.setenv("REMUDA_DATA", "/data")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/tmp/agent")
    monkeypatch.setenv("OMPI_MCA_x", "1")
    monkeypatch.setattr(mpirun, "usable_cores", lambda: 4)
    path = fake_mpirun("mpirun (Open MPI) 5.0.11")
    monkeypatch.setattr(mpirun, "network", lambda hosts: "10.0.0.0/8")
    words = mpirun.options(path, 6, AB)
    assert after(words, "--host") == ["a:4,b:2"]
    assert after(words, "btl_tcp_if_include") == ["10.0.0.0/8"]
    assert after(words, "--prefix") == [str(tmp_path / "prefix")]
    assert after(words, "plm_ssh_agent") == ["ssh -o BatchMode=yes -o ConnectTimeout=10"]
    assert "mpi_yield_when_idle" not in words, "no host has more ranks than cores"
    forwarded = after(words, "-x")
    assert {"PATH", "REMUDA_DATA", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"} <= {*forwarded}
    assert not {"SSH_AUTH_SOCK", "HOME", "OMPI_MCA_x"} & {*forwarded}
    assert forwarded[-1] == f"{STARTED_BY_REMUDA}=1"
    monkeypatch.setenv("REMUDA_SSH", "ssh -p 2222")
    assert after(mpirun.options(path, 6, AB), "plm_ssh_agent") == ["ssh -p 2222"]
    assert "--host" not in mpirun.options(path, 6)
    monkeypatch.setenv("OMPI_MCA_btl_tcp_if_exclude", "lo")
    assert "btl_tcp_if_include" not in mpirun.options(path, 6, AB)
    words = mpirun.options(fake_mpirun("mpirun (Open MPI) 4.1.2"), 6, AB)
    assert after(words, "plm_rsh_agent") == ["ssh -p 2222"]


def test_hosts_need_open_mpi_and_no_slurm(fake_mpirun, monkeypatch):
    with pytest.raises(UserError, match=r"--hosts requires Open MPI, but .* another MPI library"):
        mpirun.options(fake_mpirun("HYDRA build details: Version: 4.2"), 6, AB)
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    with pytest.raises(UserError, match="--hosts cannot be used in Slurm job 77"):
        mpirun.options(fake_mpirun("mpirun (Open MPI) 5.0.11"), 6, AB)

"""The doctor finds what would fail on other hosts, and measures the links between them."""

import re
import sys
import time

import pytest


def rows(printed, name):
    """Return the texts of all lines about a check that is ok."""
    return re.findall(rf"^ok +{name} +(\S.*)$", printed, re.MULTILINE)


def failures(printed):
    """Return the name and the text of all lines that would fail."""
    return re.findall(r"^would fail +(\S+) +(\S.*)$", printed, re.MULTILINE)


@pytest.mark.soak
def test_hosts_that_work_are_measured(hosts):
    """The bridge has the same address on all hosts, like the one that Docker makes."""
    for host in hosts.names:
        for words in (
            ("link", "add", "docker0", "type", "bridge"),
            ("address", "add", "172.17.0.1/16", "dev", "docker0"),
            ("link", "set", "docker0", "up"),
        ):
            assert hosts.run(host, "ip", *words).returncode == 0
    hosts.limit("h3", "100mbit")
    try:
        result = hosts.remuda("h1", "doctor", "--hosts", "h1:2,h2,h3")
    finally:
        for host in hosts.names:
            hosts.run(host, "ip", "link", "delete", "docker0")
    printed = result.stdout
    assert result.returncode == 0 and not failures(printed), printed + result.stderr
    found = rows(printed, "host")
    assert [re.split(r"[:;]", text)[0] for text in found] == ["h1", "h2", "h3"] * 2
    assert "for 2 ranks" in found[0] and "h1: ranks 0-1;" in found[3]
    assert rows(printed, "ranks")[0].startswith("4 started and joined in ")
    # latency: on a host, then the table
    on_a_host, header, h1, h2 = rows(printed, "latency")
    assert "on a host" in on_a_host and header.split() == ["µs", "h2", "h3"]
    assert h1.split()[0] == "h1" and len(h1.split()) == 3 and len(h2.split()) == 2
    _, header, h1, h2, slow = rows(printed, "bandwidth")
    assert header.split() == ["MB/s", "h2", "h3"]
    fast, *limited = (float(word.replace(",", "")) for word in (*h1.split()[1:], h2.split()[1]))
    # 100 Mbit/s are 12.5 MB/s. On a busy machine, the two directions may follow one another, and
    # the rate is then half as large.
    assert all(5 < rate <= 12.6 for rate in limited) and fast > 50, printed
    assert slow.startswith("h1 - h3 and h2 - h3 reach less than a quarter of the fastest pair")


def test_hosts_that_would_fail_are_named(hosts, tmp_path):
    """Python on h2 has no packages, the link of h3 is cut, and no host is called h4."""
    python, ssh = tmp_path / "python", tmp_path / "ssh"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    words = f'"$1" "$(echo "$2" | sed "s|{sys.executable}|{python}|")"'
    real = hosts.environment["REMUDA_SSH"]
    ssh.write_text(f'#!/bin/sh\ntest "$1" = h2 && exec {real} {words}\nexec {real} "$@"\n')
    for script in (python, ssh):
        script.chmod(0o755)
    hosts.cut("h3")
    began = time.monotonic()
    env = {"REMUDA_SSH": str(ssh)}
    result = hosts.remuda("h1", "doctor", "--hosts", "h1:2,h2,h3,h4", env=env)
    assert result.returncode == 2 and time.monotonic() - began < 100
    found = failures(result.stdout)
    assert [name for name, _ in found] == ["remuda", "torch", "mpi4py", "ssh", "ssh", "hosts"]
    texts = [text for _, text in found]
    assert texts[1].startswith("h2 lacks torch: share the folder, or copy it: rsync -a ")
    assert texts[3].startswith("h3 does not answer (") and texts[3].endswith("ping h3")
    assert "Could not resolve hostname h4" in texts[4] and "check the spelling" in texts[4]
    assert texts[5] == "some would fail; the test continues on h1"
    assert rows(result.stdout, "ranks")[0].startswith("2 started"), "on h1 only"


def test_a_run_names_a_host_that_does_not_answer(hosts, tmp_path):
    hosts.cut("h2")
    words = ("--engine", "mpi", "--hosts", "h1:1,h2:1", "--out", tmp_path / "run")
    result = hosts.remuda("h1", "train", "md-gan-digits", *words)
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1
    assert "h2 does not answer by ssh (" in result.stderr
    assert "run `remuda doctor --hosts h1:1,h2:1` for details" in result.stderr
    assert not (tmp_path / "run").exists()

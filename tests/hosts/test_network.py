"""The hosts of these tests behave like machines: own names, own network, faults that end."""

import time

import pytest

from tests.hosts.network import why_impossible


def answers(hosts, name):
    """Return whether a host answers h1 by ssh within two seconds."""
    words = [*hosts.environment["REMUDA_SSH"].split(), "-o", "ConnectTimeout=2", name, "hostname"]
    result = hosts.run("h1", "timeout", "4", *words)
    return result.stdout.strip() == name


def test_hosts_know_each_other_by_name(hosts):
    assert not why_impossible()
    assert all(answers(hosts, name) for name in ("h1", "h2", "h3"))
    assert hosts.run("h2", "hostname").stdout == "h2\n"


@pytest.mark.parametrize("fault, end", [("cut", "mend"), ("freeze", "thaw")])
def test_a_fault_of_one_host_ends(hosts, fault, end):
    getattr(hosts, fault)("h3")
    assert not answers(hosts, "h3") and answers(hosts, "h2")
    getattr(hosts, end)("h3")
    assert answers(hosts, "h3")


def test_the_processes_of_a_host_can_be_killed(hosts):
    sleeper = hosts.popen("h2", "sleep", "60")
    time.sleep(0.2)
    assert sleeper.pid in hosts.processes("h2") and sleeper.pid not in hosts.processes("h1")
    hosts.kill("h2")
    assert sleeper.wait(5) == -9 and not answers(hosts, "h2")
    hosts.reset()
    assert answers(hosts, "h2")


def test_a_link_can_be_limited(hosts):
    def seconds():
        began = time.monotonic()
        ssh = hosts.environment["REMUDA_SSH"]
        send = f"head -c 4000000 /dev/zero | {ssh} h2 'cat > /dev/null'"
        assert hosts.run("h1", "sh", "-c", send).returncode == 0
        return time.monotonic() - began

    fast = seconds()
    hosts.limit("h2", "10mbit")
    assert seconds() > max(3.0, fast), "4 MB at 10 Mbit/s take 3.2 s"

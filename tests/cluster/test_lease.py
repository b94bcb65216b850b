"""Test whether rank 0 may continue without the ranks that it has lost."""

import os
import signal
import subprocess
import sys
import time

import pytest

from remuda.cluster import lease
from remuda.cluster.environment import LEASE
from remuda.cluster.hosts import Host
from remuda.cluster.lease import Lease, is_held


@pytest.fixture
def held(monkeypatch):
    made = Lease()
    monkeypatch.setenv(LEASE, made.value)
    yield made
    made.close()


def test_a_lease_holds_until_it_is_closed(held):
    assert is_held() and is_held()
    held.close()
    assert not is_held()
    held.close()


def test_a_job_without_a_launcher_needs_no_lease(monkeypatch):
    monkeypatch.delenv(LEASE, raising=False)
    assert is_held()


def test_another_token_is_refused(held, monkeypatch):
    host, port, token = held.value.split()
    for wrong in ("", "x", token[:-1], token + token):
        monkeypatch.setenv(LEASE, f"{host} {port} {wrong or '-'}")
        assert not is_held()


def test_a_launcher_that_does_not_answer_has_withdrawn_the_lease(held, monkeypatch):
    monkeypatch.setattr(lease, "ANSWER_TIMEOUT", 0.3)
    monkeypatch.setenv(LEASE, "192.0.2.1 9 token")  # an address that no machine has
    began = time.monotonic()
    assert not is_held() and time.monotonic() - began < 5


def test_a_suspended_launcher_has_withdrawn_the_lease():
    """Its job was probably suspended too, and its ranks seem lost to each other."""
    script = (
        "import sys, time; from remuda.cluster.lease import Lease\n"
        "lease = Lease(limit=3.0); print(lease.value, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        os.environ[LEASE] = launcher.stdout.readline().strip()
        try:
            time.sleep(3.5)
            assert is_held()
            launcher.send_signal(signal.SIGSTOP)
            time.sleep(3.5)
            launcher.send_signal(signal.SIGCONT)
            assert not is_held() and not is_held()
        finally:
            del os.environ[LEASE]
            launcher.kill()


def test_other_hosts_reach_the_launcher_by_its_address(monkeypatch):
    """Rank 0 runs on another host, which this machine reaches from one of its addresses."""
    monkeypatch.setattr(lease, "is_here", lambda name: False)
    made = Lease([Host("127.0.0.1", 1), Host("192.0.2.1", 1)])
    assert made.value.startswith("127.0.0.1 ")
    monkeypatch.setenv(LEASE, made.value)
    assert is_held()
    made.close()

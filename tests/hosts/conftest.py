"""Provide three hosts to the tests in this folder."""

import pytest

from tests.hosts.network import Network, why_impossible

pytest.importorskip("mpi4py", reason="ranks need mpi4py")


@pytest.fixture(scope="session")
def network(tmp_path_factory):
    """Make the hosts h1, h2 and h3 once for all tests."""
    if reason := why_impossible():
        pytest.skip(reason)
    with Network(3, tmp_path_factory.mktemp("hosts")) as made:
        yield made


@pytest.fixture
def hosts(network):
    """Return the network of the hosts h1, h2 and h3; faults end with the test."""
    yield network
    network.reset()

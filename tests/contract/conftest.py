"""Run a test on every strategy, engine and network of the contract."""

import pytest

from remuda.strategies import STRATEGIES
from tests.contract.cases import ENGINES, NETWORKS


@pytest.fixture(params=STRATEGIES)
def strategy(request):
    return request.param


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


@pytest.fixture(params=NETWORKS)
def networks(request):
    return request.param

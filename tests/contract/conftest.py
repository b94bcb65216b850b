"""Run a test on every strategy, engine and network of the contract."""

import pytest

from remuda.strategies import STRATEGIES
from tests.contract.cases import ENGINES, NETWORKS

LIGHT = {"mlp", "dcgan"}  # networks that asynchronous strategies always train


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Train the larger networks with asynchronous strategies only in the long series.

    They use the same iterations as the synchronous strategies, which always train all networks.
    """
    for item in items:
        values = getattr(getattr(item, "callspec", None), "params", {})
        networks = values.get("networks") or values.get("family")
        name = values.get("strategy")
        if not isinstance(name, str) or name not in STRATEGIES or networks in (None, *LIGHT):
            continue
        if STRATEGIES[name].is_asynchronous:
            item.add_marker(pytest.mark.soak)


@pytest.fixture(params=STRATEGIES)
def strategy(request):
    return request.param


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


@pytest.fixture(params=NETWORKS)
def networks(request):
    return request.param

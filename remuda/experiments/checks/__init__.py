"""Check that a part keeps the contract of its kind: networks, strategies, losses, data sets."""

from collections.abc import Iterator, Sequence
from typing import Any

from remuda.data import DATASETS
from remuda.errors import UserError
from remuda.experiments.checks.networks import check_networks
from remuda.experiments.checks.others import check_dataset, check_loss
from remuda.experiments.checks.outcome import Outcome
from remuda.experiments.checks.strategies import check_strategy
from remuda.gan import LOSSES, Loss
from remuda.networks import NETWORKS, Networks
from remuda.strategies import STRATEGIES, Strategy
from remuda.system import parts

__all__ = ["Outcome", "check"]

TABLES = (NETWORKS, STRATEGIES, LOSSES, DATASETS)
TAKES = "a subclass of Networks or Strategy, a Loss, or a function that loads a data set"


def check(name: str, settings: Sequence[str] = ()) -> Iterator[Outcome]:
    """Run the contract of the part with this name, and yield the outcome of every check.

    ``settings`` have the form of ``--set``, such as ``networks.width=32`` or ``data.name=mnist``.
    """
    part = _find(name)
    if isinstance(part, type) and issubclass(part, Networks):
        return check_networks(name, settings)
    if isinstance(part, type) and issubclass(part, Strategy):
        return check_strategy(name, settings)
    if isinstance(part, Loss):
        return check_loss(part)
    if callable(part) and not isinstance(part, type):
        return check_dataset(part, settings)
    raise UserError(f"{name} is a {type(part).__name__}: remuda check takes {TAKES}")


def _find(name: str) -> Any:
    if parts.is_reference(name):
        parts.refresh(name)
        return parts.load_reference(name)
    problems: list[UserError] = []
    for table in TABLES:
        try:
            return table[name]
        except KeyError:
            continue
        except UserError as error:  # a part of another kind, or code that cannot be imported
            problems.append(error)
    if problems:
        raise problems[0]
    raise UserError(
        f"no networks, strategy, loss or data set is called {name!r}: remuda list shows their "
        "names, and remuda check takes no scores and engines"
    )

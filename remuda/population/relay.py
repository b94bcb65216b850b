"""Send rows through the server, which may change or combine them."""

from collections.abc import Callable

from remuda.engines.base import Engine
from remuda.tensors.trees import Tree


def through_server(engine: Engine, fn: Callable[..., Tree], *rows: Tree) -> Tree:
    """Send all rows to the server, and give member i row i of ``fn(*rows)``."""
    received = engine.gather(lambda _, *rows: fn(*rows), (), *rows)
    return engine.scatter(lambda rows: rows, received)

"""Start processes on one or more hosts, watch them while they train, and check what they need."""

from typing import TYPE_CHECKING

from remuda.system.choices import lazy_exports

if TYPE_CHECKING:
    from remuda.cluster.environment import rank_from_environment
    from remuda.cluster.launch import join

__all__ = ["join", "rank_from_environment"]

__getattr__, __dir__ = lazy_exports(
    __name__, {"environment": ["rank_from_environment"], "launch": ["join"]}
)

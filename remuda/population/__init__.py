"""Index tables over a population (who is present, who receives from whom), and evolution."""

from remuda.population.exchange import derangement, survivors

__all__ = ["derangement", "survivors"]

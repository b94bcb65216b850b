"""Index tables over a population, who is there and who receives from whom; and an evolution's arithmetic."""

from remuda.population.exchange import derangement, survivors

__all__ = ["derangement", "survivors"]

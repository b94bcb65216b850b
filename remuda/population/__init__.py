"""Build index tables over a population (which members are present, and exchanges); evolve it."""

from remuda.population.exchange import derangement, survivors

__all__ = ["derangement", "survivors"]

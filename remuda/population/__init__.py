"""Build index tables of a population's members and exchanges, and evolve the population."""

from remuda.population.exchange import derangement, survivors

__all__ = ["derangement", "survivors"]

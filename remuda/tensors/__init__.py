"""Trees of tensors, random keys, derivatives and functions as values."""

from remuda.tensors import calculus, functions, random, trees

__all__ = ["calculus", "functions", "random", "trees"]

"""Provide trees of tensors, random keys, derivatives, and functions that compare by value."""

from remuda.tensors import calculus, functions, random, trees

__all__ = ["calculus", "functions", "random", "trees"]

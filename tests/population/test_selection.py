"""Fitness, tournaments and who stays, on hand-made numbers."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from remuda.population.selection import FITNESSES, draw_present, fittest, tournament
from remuda.tensors import random

LOSSES = torch.tensor([[1.0, 2.0, 9.0], [4.0, 3.0, 5.0]])
PRESENT = torch.tensor([True, True, False])


def test_fitness_is_of_those_present():
    assert FITNESSES["mean"](LOSSES, PRESENT).tolist() == [1.5, 3.5]
    assert FITNESSES["worst"](LOSSES, PRESENT).tolist() == [2.0, 4.0]
    assert FITNESSES["best"](LOSSES, PRESENT).tolist() == [1.0, 3.0]
    assert FITNESSES["mean"](LOSSES, torch.ones(3, dtype=torch.bool)).tolist() == [4.0, 4.0]


def test_a_tournament_of_all_is_won_by_the_fittest_and_one_of_one_by_anybody():
    fitness, everyone = torch.tensor([3.0, 1.0, 2.0]), torch.ones(3, dtype=torch.bool)
    keys = [torch.tensor(random.key(0, "test", i)) for i in range(200)]
    assert all(tournament(fitness, everyone, key, 3) == 1 for key in keys)
    winners = torch.stack([tournament(fitness, everyone, key, 1) for key in keys])
    assert torch.bincount(winners, minlength=3).min() > 40
    # Two contenders out of three include the fittest in two of three draws; the worst never wins.
    winners = torch.bincount(
        torch.stack([tournament(fitness, everyone, key, 2) for key in keys]), minlength=3
    )
    assert winners[0] == 0 and 100 < winners[1] < 165


def test_absent_and_broken_ones_do_not_win():
    fitness = torch.tensor([5.0, 0.0, torch.nan])
    there = torch.tensor([True, False, True])
    for i in range(50):
        assert tournament(fitness, there, torch.tensor(random.key(1, "test", i)), 2) == 0


def test_the_fittest_stay_in_order():
    assert fittest(torch.tensor([2.0, torch.nan, 1.0, 2.0]), 3).tolist() == [2, 0, 3]


@given(st.lists(st.booleans(), min_size=1, max_size=6), st.integers(0, 1000))
def test_draws_from_those_present_are_even(flags, seed):
    flags[seed % len(flags)] = True
    present = torch.tensor([flags, flags])
    draws = torch.arange(24).reshape(1, 4, 6).expand(2, -1, -1)
    places = draw_present(draws, present)
    assert places.shape == draws.shape
    counts = torch.bincount(places.flatten(), minlength=len(flags))
    assert (counts[~present[0]] == 0).all() and counts[present[0]].max() - counts[
        present[0]
    ].min() <= 2

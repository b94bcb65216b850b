"""Aggregates on hand-made numbers: what they return, whom they ignore, and what cannot win."""

import pytest
import torch

from remuda.population.aggregates import AGGREGATES, WEISZFELD_STEPS, most_liars, spare

ROBUST = [name for name in AGGREGATES if name != "mean"]


def combine(name, rows, present=None, f=0):
    messages = torch.tensor(rows, dtype=torch.float32)
    mask = torch.ones(len(rows), dtype=torch.bool) if present is None else torch.tensor(present)
    combined, kept = AGGREGATES[name](messages, mask, f)
    assert kept.shape == (len(rows),) and ((kept >= 0) & (kept <= 1)).all()
    return combined.tolist(), kept.tolist()


def test_the_median_of_every_coordinate():
    rows = [[1.0, 9.0], [2.0, 8.0], [300.0, 7.0]]
    assert combine("median", rows) == ([2.0, 8.0], [0.0, 1.0, 0.0])
    assert combine("median", [[1.0], [2.0], [4.0], [90.0]]) == ([3.0], [0.0, 1.0, 1.0, 0.0])
    combined, kept = combine("median", [[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]])
    assert (combined, kept) == ([1.0, 5.0], [0.5, 1.0, 0.5]), "equal values are all in the middle"


def test_a_trimmed_mean_drops_the_largest_and_the_smallest_values():
    rows = [[0.0], [1.0], [2.0], [6.0], [100.0]]
    assert combine("trimmed-mean", rows, f=1) == ([3.0], [0.0, 1.0, 1.0, 1.0, 0.0])
    assert combine("trimmed-mean", rows, f=2) == combine("median", rows)
    assert combine("trimmed-mean", rows) == combine("median", rows), "as many as possible"
    two = [[0.0], [2.0], [9.0], [9.0], [9.0]]
    present = [True, True, False, False, False]
    assert combine("trimmed-mean", two, present, f=2)[0] == [1.0], "no more than possible"


def test_krum_uses_the_messages_with_the_closest_neighbours():
    """n = 5, f = 1: two neighbours count, and the two best messages are averaged."""
    rows = [[0.0], [1.0], [3.0], [7.0], [1000.0]]
    # Sums of the two smallest squared distances: 1 + 9, 1 + 4, 4 + 9, 16 + 36, about 2e6.
    assert combine("krum", rows, f=1) == ([0.5], [1.0, 1.0, 0.0, 0.0, 0.0])
    # 1 + 49, 1 + 36, 9 + 25, 9 + 4, 4 + 25; without squares, 3 would beat 14.
    far = [[2.0], [3.0], [9.0], [12.0], [14.0]]
    assert combine("krum", far, f=1) == ([13.0], [0.0, 0.0, 0.0, 1.0, 1.0])
    present = [False, True, True, True, True]  # f falls to 0 among four
    assert combine("krum", rows, present)[1] == [0.0, 1.0, 1.0, 0.0, 0.0]
    assert combine("krum", [[4.0], [5.0]], [False, True]) == ([5.0], [0.0, 1.0])


def plain_krum(rows, f):
    """Return the places of the messages that Multi-Krum averages, with loops over plain numbers."""
    count = len(rows) - f - 2
    scores = []
    for i, row in enumerate(rows):
        others = [other for j, other in enumerate(rows) if j != i]
        squares = [sum((a - b) ** 2 for a, b in zip(row, other, strict=True)) for other in others]
        scores.append(sum(sorted(squares)[:count]))
    return sorted(sorted(range(len(rows)), key=scores.__getitem__)[:count])


@pytest.mark.parametrize("seed", range(20))
def test_krum_equals_a_plain_version(seed):
    torch.manual_seed(seed)
    messages, f = torch.randn(8, 3) ** 3, 1 + seed % 2
    combined, kept = AGGREGATES["krum"](messages, torch.ones(8, dtype=torch.bool), f)
    places = plain_krum(messages.double().tolist(), f)
    assert kept.nonzero().flatten().tolist() == places
    assert torch.allclose(combined, messages[places].mean(0))


def test_krum_compares_many_messages_that_are_close_to_each_other():
    """With more than 25 messages, distances as products would lose these differences."""
    messages = 1000 + 1e-3 * torch.arange(30.0)[:, None].expand(30, 4)
    messages[::3] += 0.1
    _, kept = AGGREGATES["krum"](messages, torch.ones(30, dtype=torch.bool), 10)
    assert kept.sum() == 18 and not kept[::3].any()


def test_the_geometric_median_minimises_the_sum_of_distances():
    torch.manual_seed(0)
    messages = torch.randn(7, 3)
    messages[6] = 50.0
    point, kept = AGGREGATES["geometric-median"](messages, torch.ones(7, dtype=torch.bool), 0)
    total = (messages - point).norm(dim=1).sum()
    for _ in range(50):
        other = point + 0.1 * torch.randn(3)
        assert (messages - other).norm(dim=1).sum() > total - 1e-3
    distances = (messages - point).norm(dim=1)
    assert torch.allclose(kept, distances.min() / distances, atol=0.02)
    assert kept[6] < 0.05 and WEISZFELD_STEPS >= 5


def test_the_geometric_median_of_a_majority_is_the_majority():
    rows = [[1.0, 2.0]] * 3 + [[9.0, -5.0], [0.0, 0.0]]
    combined, kept = combine("geometric-median", rows)
    assert combined == pytest.approx([1.0, 2.0]) and kept == pytest.approx([1, 1, 1, 0, 0])


def test_a_message_at_the_starting_point_does_not_hold_the_geometric_median():
    """The median of every coordinate is the first message, but the sum of distances is not least.

    Two others pull to the right, and only the second coordinates of the last two differ much.
    """
    rows = torch.tensor([[0.0, 0], [100, 1], [100, -1], [-1, 100], [-1, -100]])
    everyone = torch.ones(5, dtype=torch.bool)
    assert AGGREGATES["median"](rows, everyone, 0)[0].tolist() == [0, 0]
    point, _ = AGGREGATES["geometric-median"](rows, everyone, 0)
    assert point[0] > 10 and (rows - point).norm(dim=1).sum() < rows.norm(dim=1).sum() - 10


def test_long_messages_are_shortened_to_the_median_length():
    rows = [[3.0, 0.0], [0.0, 4.0], [50.0, 0.0]]  # lengths 3, 4 and 50; the third is cut to 4
    combined, kept = combine("norm-clipped", rows)
    assert combined == pytest.approx([7 / 3, 4 / 3]) and kept == pytest.approx([1.0, 1.0, 0.08])
    assert combine("norm-clipped", [[0.0], [0.0], [2.0]])[0] == [0.0]


@pytest.mark.parametrize("name", AGGREGATES)
def test_equal_messages_are_kept(name):
    combined, kept = combine(name, [[1.5, -2.0]] * 5)
    assert combined == pytest.approx([1.5, -2.0])
    assert all(value == 1 for value in kept) or name == "krum"


@pytest.mark.parametrize("name", AGGREGATES)
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_absent_members_and_numbers_that_are_not_finite_never_win(name, bad):
    good = [[1.0, 1.0], [1.1, 0.9], [0.9, 1.1], [1.0, 1.05], [1.05, 1.0]]
    expected, kept = combine(name, good)
    found = combine(name, [*good, [0.0, bad]])
    assert found[0] == pytest.approx(expected, abs=1e-4)
    assert found[1] == pytest.approx([*kept, 0.0], abs=1e-3)
    absent = combine(name, [[bad, bad], *good], [False] + [True] * 5)
    assert absent[0] == pytest.approx(expected, abs=1e-4)
    assert absent[1] == pytest.approx([0.0, *kept], abs=1e-3)


@pytest.mark.parametrize("name", AGGREGATES)
def test_without_any_message_the_result_is_nan(name):
    combined, kept = combine(name, [[1.0], [torch.nan]], [False, True])
    assert combined[0] != combined[0] and kept == [0.0, 0.0]


@pytest.mark.parametrize("name", ROBUST)
@pytest.mark.parametrize("size", [1e3, 1e30, 3e38])
def test_large_lies_move_the_result_only_a_little(name, size):
    """Squares of these numbers overflow."""
    torch.manual_seed(1)
    honest = 1 + 0.1 * torch.randn(7, 4)
    lies = torch.full((3, 4), -size)
    messages = torch.cat([lies, honest])
    combined, kept = AGGREGATES[name](messages, torch.ones(10, dtype=torch.bool), 3)
    distance = (combined - 1).abs().max()
    assert distance < (1.0 if name == "norm-clipped" else 0.2)  # clipped lies keep their direction
    assert (kept[:3] < 0.01).all()


def test_how_many_liars_can_be_withstood():
    assert [most_liars("median", n) for n in (1, 2, 3, 10)] == [0, 0, 1, 4]
    assert [most_liars("krum", n) for n in (1, 4, 5, 10)] == [0, 0, 1, 3]
    for name in ROBUST:
        assert most_liars(name, 2 * 3 + spare(name)) == 3
        assert most_liars(name, 2 * 3 + spare(name) - 1) == 2

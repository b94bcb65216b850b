"""Reputations on hand-made numbers and on simulated feedback."""

import pytest
import torch

from remuda.population.reputation import RATE, combine_by_reputation, trusted

HALF = 0.5**0.5
NAMES = ("sign", "noise", "collude", "scaled")


def combine(rows, reputation=None, present=None):
    mask = torch.ones(len(rows), dtype=torch.bool) if present is None else torch.tensor(present)
    before = torch.tensor(reputation or [0.0] * len(rows))
    found = combine_by_reputation(torch.tensor(rows, dtype=torch.float32), mask, before)
    return tuple(part.tolist() for part in found)


def test_agreement_is_the_cosine_with_the_others():
    combined, kept, reputation = combine([[1.0, 0.0], [0.0, 1.0], [HALF, HALF]])
    cosine = HALF / (HALF**2 + (1 + HALF) ** 2) ** 0.5  # of (1, 0) and (HALF, 1 + HALF)
    assert reputation == pytest.approx([RATE * cosine, RATE * cosine, RATE])
    assert kept == [1.0, 1.0, 1.0] and combined == pytest.approx([(1 + HALF) / 3] * 2)


def test_reputations_are_moving_averages():
    _, _, reputation = combine([[1.0, 0.0], [0.0, 1.0]], [0.5, -0.5])
    assert reputation == pytest.approx([0.5 * (1 - RATE), -0.5 * (1 - RATE)])  # agreement 0


def test_duplicates_share_one_vote():
    rows = [[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [0.0, 4.0]]  # the median length is 2.5
    combined, kept, reputation = combine(rows)
    assert kept == pytest.approx([0.5, 0.5, 0.5 * 2.5 / 3, 0.5 * 2.5 / 4])
    assert combined == pytest.approx([(1 + 2.5) / 4, (2 + 2.5) / 4])
    assert reputation == pytest.approx([0.0] * 4)


def test_duplicates_do_not_confirm_each_other():
    """The first two are duplicates, because the median of the first one's distances is 1."""
    rows = [[1.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 1.0]]
    combined, kept, reputation = combine(rows)
    assert reputation[:2] == [0.0, 0.0] and min(reputation[2:]) > 0
    assert kept == pytest.approx([0, 0, 1, 1, HALF])
    assert combined == pytest.approx([0.0, (1 + HALF) / 3, (1 + HALF) / 3])


def test_a_majority_has_no_duplicates():
    """The distances between its messages are small, but they are alike."""
    near = [[1.0, 0.02], [1.0, -0.02], [1.0, 0.0], [-1.0, 0.0], [-2.0, 0.0]]
    _, kept, reputation = combine(near)
    assert kept == pytest.approx([1, 1, 1, 0, 0], abs=1e-3)
    assert reputation == pytest.approx([RATE] * 3 + [-RATE] * 2, rel=1e-3)


def test_who_is_trusted():
    everyone = torch.ones(5, dtype=torch.bool)
    reputation = torch.tensor([1.0, 0.8, 0.8, 0.41, 0.39])  # the limit is 0.4
    assert trusted(reputation, everyone).tolist() == [True, True, True, True, False]
    present = torch.tensor([False, False, True, True, True])  # the limit is 0.205
    assert trusted(reputation, present).tolist() == [False, False, True, True, True]
    assert trusted(reputation - 2, present).tolist() == present.tolist()
    assert trusted(torch.zeros(5), everyone).all()


def test_only_members_with_a_good_reputation_are_witnesses():
    rows = [[1.0, 0.0], [0.0, 1.0], [HALF, HALF]]
    _, _, reputation = combine(rows, [0.8, 0.8, 0.1])
    old = 1 - RATE
    assert reputation == pytest.approx([0.8 * old, 0.8 * old, 0.1 * old + RATE])


def test_long_messages_are_shortened_to_the_median_length():
    rows = [[3.0, 0.0], [0.0, 4.0], [40.0, 40.0]]
    combined, kept, _ = combine(rows)
    factor = 4 / (2 * 1600) ** 0.5
    assert kept == pytest.approx([1.0, 1.0, factor])
    assert combined == pytest.approx([(3 + 40 * factor) / 3, (4 + 40 * factor) / 3])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_absent_members_and_numbers_that_are_not_finite_have_no_influence(bad):
    rows, before = [[1.0, 0.0], [0.0, 1.0], [HALF, HALF]], [0.3, 0.2, 0.4]
    combined, kept, reputation = combine(rows, before)
    more = [*rows, [bad, 0.0], [7.0, 7.0]]
    found = combine(more, [*before, 0.9, 0.7], [True, True, True, True, False])
    assert found[0] == pytest.approx(combined)
    assert found[1] == pytest.approx([*kept, 0.0, 0.0])
    assert found[2] == pytest.approx([*reputation, 0.9, 0.7])


def test_messages_of_zeros_are_harmless():
    combined, _, reputation = combine([[0.0, 0.0]] * 3)
    assert combined == [0.0, 0.0] and reputation == [0.0] * 3
    combined, kept, reputation = combine([[1.0], [torch.nan]], [0.1, 0.2], [False, True])
    assert combined[0] != combined[0] and kept == [0.0, 0.0]
    assert reputation == pytest.approx([0.1, 0.2])
    assert torch.tensor(combine([[3e38, 3e38], [1.0, 2.0], [2.0, 1.0]])[0]).isfinite().all()


def falsified(name, honest, liars):
    if name == "sign":
        return -honest[:liars]
    if name == "scaled":
        return 10 * honest[:liars]
    noise = torch.randn_like(honest[:liars])
    noise = noise[:1].expand_as(noise) if name == "collude" else noise
    return noise * honest.std()


@pytest.mark.parametrize("noise", [0.2, 3.0])
@pytest.mark.parametrize("name", NAMES)
def test_liars_are_ignored_after_some_iterations(name, noise):
    """The noise of honest messages is weak or strong: their cosines are about 0.96 or 0.1."""
    torch.manual_seed(0)
    everyone, reputation, distances = torch.ones(10, dtype=torch.bool), torch.zeros(10), []
    for _ in range(200):
        honest = torch.randn(400) + noise * torch.randn(10, 400)
        messages = torch.cat([falsified(name, honest, 3), honest[3:]])
        combined, kept, reputation = combine_by_reputation(messages, everyone, reputation)
        mean = honest[3:].mean(0)
        distances.append(float((combined - mean).norm() / mean.norm()))
    ignored = (kept == 0).tolist()
    assert ignored == [name != "scaled"] * 3 + [False] * 7
    assert kept.max() <= 1 and (kept[:3] < 0.2).all()
    assert sum(distances[-50:]) / 50 < (0.5 if name == "scaled" else 0.1)

"""Reputations on hand-made numbers and on simulated feedback."""

import pytest
import torch

from remuda.population.reputation import RATE, combine_by_reputation, reputations, trusted

HALF = 0.5**0.5
OLD = 1 - RATE
NAMES = ("sign", "noise", "collude", "noisy-collude", "scaled", "zero")


def combine(rows, agreement=None, present=None):
    mask = torch.ones(len(rows), dtype=torch.bool) if present is None else torch.tensor(present)
    before = torch.zeros(len(rows), len(rows)) if agreement is None else torch.tensor(agreement)
    return combine_by_reputation(torch.tensor(rows, dtype=torch.float32), mask, before)


def test_agreements_are_moving_averages_of_cosines():
    rows = [[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]]
    cosines = torch.tensor([[1, 0, HALF], [0, 1, HALF], [HALF, HALF, 1]])
    _, _, agreement = combine(rows)
    assert torch.allclose(agreement, RATE * cosines)
    before = [[0.5, -0.5, 0.2], [-0.5, 0.4, 0.3], [0.2, 0.3, 0.1]]
    _, _, agreement = combine(rows, before)
    assert torch.allclose(agreement, OLD * torch.tensor(before) + RATE * cosines)


def test_a_reputation_is_the_median_of_the_agreements():
    """Members that were never compared do not count."""
    agreement = [[0.9, 0.1, -0.4, 0.0], [0.1, 0.8, 0.3, 0.6], [-0.4, 0.3, 0.7, 0.0], [0.0] * 4]
    expected = [0.1, (0.3 + 0.6) / 2, 0.3, 0.0]
    assert reputations(torch.tensor(agreement)).tolist() == pytest.approx(expected)


def test_two_colluding_members_of_five_cannot_raise_their_reputations():
    """The liars agree with each other perfectly, and honest members with each other hardly."""
    agreement = torch.full((5, 5), 0.1)
    agreement[:2, 2:] = agreement[2:, :2] = -0.02
    agreement[:2, :2] = 1.0
    agreement[2:, 2:].fill_diagonal_(1.0)
    expected = [-0.02] * 2 + [0.1] * 3
    assert reputations(agreement).tolist() == pytest.approx(expected)


def test_who_is_trusted():
    everyone = torch.ones(5, dtype=torch.bool)
    reputation = torch.tensor([1.0, 0.8, 0.8, 0.41, 0.39])  # the limit is 0.4
    assert trusted(reputation, everyone).tolist() == [True, True, True, True, False]
    present = torch.tensor([False, False, True, True, True])  # the limit is 0.205
    assert trusted(reputation, present).tolist() == [False, False, True, True, True]
    assert trusted(reputation - 2, present).tolist() == present.tolist()
    assert trusted(torch.zeros(5), everyone).all()


def test_the_result_is_the_mean_of_trusted_messages():
    rows = [[1.0, 0.0], [3.0, 0.0], [-2.0, 0.0]]
    combined, kept, _ = combine(rows)
    assert kept.tolist() == pytest.approx([1, 2 / 3, 0])  # the median length is 2
    assert combined.tolist() == pytest.approx([(1 + 2) / 2, 0.0])


def test_long_messages_are_shortened_to_the_median_length():
    rows = [[3.0, 0.0], [0.0, 4.0], [40.0, 40.0]]
    combined, kept, _ = combine(rows, [[0.5] * 3] * 3)
    factor = 4 / (2 * 1600) ** 0.5
    assert kept.tolist() == pytest.approx([1.0, 1.0, factor])
    assert combined.tolist() == pytest.approx([(3 + 40 * factor) / 3, (4 + 40 * factor) / 3])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_absent_members_and_numbers_that_are_not_finite_have_no_influence(bad):
    rows = [[1.0, 0.0], [0.0, 1.0], [HALF, HALF]]
    before = torch.rand(5, 5, generator=torch.Generator().manual_seed(1))
    combined, kept, agreement = combine(rows, before[:3, :3].tolist())
    more = [*rows, [bad, 0.0], [7.0, 7.0]]
    before[:3, 3:] = 0  # otherwise, what other members said earlier counts for reputations
    found = combine(more, before.tolist(), [True, True, True, True, False])
    assert found.combined.tolist() == pytest.approx(combined.tolist())
    assert found.kept.tolist() == pytest.approx([*kept.tolist(), 0.0, 0.0])
    assert torch.allclose(found.agreement[:3, :3], agreement)
    assert torch.equal(found.agreement[3:], before[3:])
    assert torch.equal(found.agreement[:, 3:], before[:, 3:])


def test_messages_of_zeros_are_harmless():
    combined, _, agreement = combine([[0.0, 0.0]] * 3)
    assert combined.tolist() == [0.0, 0.0] and not agreement.any()
    before = [[0.1, 0.2], [0.2, 0.3]]
    combined, kept, agreement = combine([[1.0], [torch.nan]], before, [False, True])
    assert combined.isnan().all() and kept.tolist() == [0.0, 0.0]
    assert torch.allclose(agreement, torch.tensor(before))
    assert combine([[3e38, 3e38], [1.0, 2.0], [2.0, 1.0]]).combined.isfinite().all()


def falsified(name, honest, liars):
    if name == "sign":
        return -honest[:liars]
    if name == "scaled":
        return 10 * honest[:liars]
    if name == "zero":
        return torch.zeros_like(honest[:liars])
    noise = torch.randn_like(honest[:liars])
    if name == "collude":
        noise = noise[:1].expand_as(noise)
    if name == "noisy-collude":
        noise = noise[:1] + 0.5 * noise
    return noise * honest.std()


@pytest.mark.parametrize(("liars", "size"), [(3, 10), (4, 10), (2, 5)])
@pytest.mark.parametrize("noise", [0.2, 3.0])
@pytest.mark.parametrize("name", NAMES)
def test_liars_are_ignored_after_some_iterations(name, noise, liars, size):
    """The noise of honest messages is weak or strong: their cosines are about 0.96 or 0.1."""
    torch.manual_seed(0)
    everyone, agreement = torch.ones(size, dtype=torch.bool), torch.zeros(size, size)
    distances = []
    for _ in range(200):
        honest = torch.randn(400) + noise * torch.randn(size, 400)
        messages = torch.cat([falsified(name, honest, liars), honest[liars:]])
        combined, kept, agreement = combine_by_reputation(messages, everyone, agreement)
        mean = honest[liars:].mean(0)
        distances.append(float((combined - mean).norm() / mean.norm()))
    ignored = (kept == 0).tolist()
    assert ignored == [name != "scaled"] * liars + [False] * (size - liars)
    assert kept.max() <= 1 and (kept[:liars] < 0.2).all()
    assert sum(distances[-50:]) / 50 < (1.5 * liars / size if name == "scaled" else 0.1)

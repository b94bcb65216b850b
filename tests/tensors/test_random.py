import torch
from hypothesis import given
from hypothesis import strategies as st

from remuda.tensors import calculus, random

KEY = torch.tensor(random.key(0, "test"))


def test_keys_differ_in_every_part():
    keys = {
        random.key(s, p, *n)
        for s in range(5)
        for p in ("a", "b")
        for n in ((), (0,), (1,), (0, 1), (1, 0))
    }
    assert len(keys) == 5 * 2 * 5
    assert all(0 <= key < 1 << 63 for key in keys)


def test_a_key_is_fixed_for_all_time():
    """Checkpoints and papers rely on it."""
    assert random.key(0, "init", 3) == 3793569830590989215
    assert random.bits(torch.tensor(1), (3,)).tolist() == [1492470133, 0, 1736833618]


def test_uniform_and_normal_have_their_moments():
    u, z = random.uniform(KEY, (400_000,)), random.normal(KEY, (400_000,))
    assert u.min() >= 0 and u.max() < 1
    assert abs(u.mean() - 0.5) < 0.003 and abs(u.var() - 1 / 12) < 0.001
    assert abs(z.mean()) < 0.006 and abs(z.std() - 1) < 0.005
    assert abs((z**3).mean()) < 0.02 and abs((z**4).mean() - 3) < 0.06


def test_octets_are_uniform_over_256_values():
    counts = torch.bincount(random.octets(KEY, (256_000,)), minlength=256)
    assert len(counts) == 256 and counts.min() > 800 and counts.max() < 1200


@given(st.integers(1, 300), st.integers(0, 1 << 62))
def test_the_formula_for_transforms_gives_the_same_octets(count, key):
    key = torch.tensor(key)
    plain = random.octets(key, (count,))
    assert torch.equal(plain, calculus.composable(random.octets)(key, (count,)))
    assert torch.equal(
        plain, torch.func.vmap(lambda key: random.octets(key, (count,)))(key[None])[0]
    )


def test_streams_of_neighbouring_keys_are_not_correlated():
    streams = torch.stack([random.uniform(random.fold(KEY, i), (2000,)) for i in range(50)])
    correlations = torch.corrcoef(streams) - torch.eye(50)
    assert correlations.abs().max() < 0.12


def test_folding_does_not_commute():
    assert random.fold(random.fold(KEY, 0), 1) != random.fold(random.fold(KEY, 1), 0)


def test_same_numbers_under_vmap_as_alone():
    keys = random.fold(KEY, torch.arange(3))
    for draw in (random.uniform, random.normal, random.octets):
        together = torch.func.vmap(lambda key, draw=draw: draw(key, (5, 3)))(keys)
        single = torch.stack([draw(key, (5, 3)) for key in keys])
        assert torch.equal(together, single)


@given(st.integers(1, 300), st.integers(0, 1 << 62))
def test_a_longer_normal_draw_begins_with_the_shorter(count, key):
    key = torch.tensor(key)
    assert torch.equal(random.normal(key, (count,)), random.normal(key, (count + 7,))[:count])


@given(st.integers(1, 500), st.integers(0, 1 << 62))
def test_a_permutation_holds_everything_once(count, key):
    assert sorted(random.permutation(torch.tensor(key), count).tolist()) == list(range(count))


def test_several_keys_give_one_draw_each():
    keys = torch.stack(random.chain(KEY, 2))
    assert keys[0] == KEY and keys[1] == random.fold(KEY, 0) and keys[2] == random.fold(keys[1], 0)
    for draw in (random.bits, random.octets, random.uniform):
        together = draw(keys, (5, 3))
        assert torch.equal(together, torch.stack([draw(key, (5, 3)) for key in keys]))
    transformed = calculus.composable(random.octets)(keys, (7,))
    assert torch.equal(transformed, random.octets(keys, (7,)))

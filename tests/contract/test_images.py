"""Images that ranks generate together equal those of the whole state, for every strategy."""

import copy

import pytest
import torch

from remuda.data.images import to_bytes
from remuda.engines import MPIEngine, Stacked
from remuda.errors import UserError
from remuda.gan.sampling import sample_rows
from remuda.model.model import CHUNK, Model
from remuda.record import DataFacts
from remuda.strategies import STRATEGIES
from remuda.tensors import trees
from tests.contract.cases import Small
from tests.contract.threads import run_ranks

CASES = [
    *((name, {}) for name in STRATEGIES),
    ("fl-gan", dict(sync="discriminator")),
    ("fl-gan", dict(sync="generator", local_norms=True, ema=0.9)),
    ("md-gan", dict(ema=0.9)),
    ("cellular", dict(population=2, height=2, width=3, lose_every=1)),
]


FACTS = DataFacts(name="toy", shape=(1, 8, 8), classes=list("abc"), counts=[3, 2, 1])


def model_of(small, state, engine, facts=FACTS, **more):
    context = copy.deepcopy(small.context)  # threads cannot share modules
    num_labels = small.strategy.num_labels(small.context.gan, engine.size)
    return Model(
        strategy=small.strategy, context=context, state=state, engine=engine, facts=facts,
        num_labels=num_labels, round=2, **more,
    )  # fmt: skip


def part_of(small, state, engine, communicator):
    """Return a rank's part of a whole state: its members' rows, and on rank 0 the server."""
    strategy, span = small.strategy, slice(engine.members[0], engine.members[-1] + 1)
    rows = trees.map(lambda leaf: leaf[span], strategy.rows(state))
    if not communicator.is_root and strategy.rows(state) is not state:
        state = state._replace(server=())
    return strategy.with_rows(state, rows)


def on_ranks(small, state, num_ranks, use, facts=FACTS):
    """Give every rank its part of the state; rank 0 calls ``use(model)``."""

    def work(communicator):
        engine = MPIEngine(communicator, small.engine.size)
        own = part_of(small, state, engine, communicator)
        model = model_of(small, own, engine, facts, communicator=communicator)
        if not communicator.is_root:
            return model.assist()
        try:
            return use(model)
        finally:
            model.dismiss()

    results, sent = run_ranks(num_ranks, work)
    return results[0], sent


@pytest.mark.parametrize("num_ranks", [2, 3])
@pytest.mark.parametrize(("strategy", "settings"), CASES, ids=str)
def test_images_from_ranks_are_those_of_the_whole_state(
    toy_data, monkeypatch, strategy, settings, num_ranks
):
    monkeypatch.setitem(CHUNK, "cpu", 16)  # several chunks
    small = Small(toy_data, strategy, "stacked-loop", "dcgan", **settings)
    state, _ = small.train(2)
    whole = model_of(small, state, small.engine)
    labels = torch.arange(45) * 7 % max(1, whole.num_labels)
    expected = [whole.generate(labels, seed) for seed in (0, 1)]
    if small.engine.size < num_ranks:
        return
    found, sent = on_ranks(
        small, state, num_ranks, lambda model: [model.generate(labels, s) for s in (0, 1)]
    )
    for a, b in zip(expected, found, strict=True):
        assert torch.equal(a, b)
    image = max(1, expected[0][0].numel())
    to_root = sum(size for _, target, size in sent if target == 0)
    small_tables = 2 * 4096  # of cellular
    assert to_root <= 2 * len(labels) * image + small_tables, "no rows travel to rank 0"


@pytest.mark.parametrize("strategy", ["class-parallel", "cellular"])
def test_ranks_generate_from_the_noise_of_the_user(toy_data, strategy):
    small = Small(toy_data, strategy, "stacked-loop", "mlp")
    state, _ = small.train(1)
    whole = model_of(small, state, small.engine)
    latent = small.context.gan.networks.latent
    noise = torch.randn(20, latent, generator=torch.Generator().manual_seed(2))
    expected = whole.sample(20, noise=noise)
    found, _ = on_ranks(small, state, 2, lambda model: model.sample(20, noise=noise))
    assert torch.equal(expected, found)
    assert not torch.equal(expected, whole.sample(20))


@pytest.mark.parametrize("strategy", ["class-parallel", "cellular", "cellular-async"])
def test_every_member_generates_from_the_same_noise(toy_data, strategy):
    small = Small(toy_data, strategy, "stacked-loop", "mlp")
    state, _ = small.train(1)
    whole = model_of(small, state, small.engine)
    labels, size = torch.zeros(5, dtype=torch.int64), small.engine.size
    expected = whole.generate_by_member(labels, 0)
    assert expected.shape == (5 * size, 1, 8, 8)
    found, _ = on_ranks(small, state, 2, lambda model: model.generate_by_member(labels, 0))
    assert torch.equal(expected, found)
    pairs = small.strategy.generators(small.engine, state)
    noise = whole._noise(5, 0)
    for member in range(size):
        rows = torch.full((5,), member)
        images = sample_rows(small.context.gan, pairs, rows, noise, labels)
        assert torch.equal(expected[5 * member : 5 * member + 5], to_bytes(images))


def test_points_travel_as_floats(toy_data):
    small = Small(toy_data, "class-parallel", "stacked-loop", "mlp")
    points = DataFacts(name="ring", shape=(1, 1, 1), classes=list("abc"), counts=[1, 1, 1])
    labels = torch.tensor([2, 0, 1, 2])
    expected = model_of(small, small.start(), small.engine, points).generate(labels, 0)
    assert expected.is_floating_point()
    found, _ = on_ranks(small, small.start(), 3, lambda model: model.generate(labels, 0), points)
    assert torch.equal(found, expected)


def test_only_the_images_of_other_ranks_travel(toy_data):
    small = Small(toy_data, "class-parallel", "stacked-loop", "mlp")
    labels = torch.tensor([0, 2, 2, 1, 0])  # rank 0 hosts members 0 and 1, rank 1 hosts 2
    _, sent = on_ranks(small, small.start(), 2, lambda model: model.generate(labels, 0))
    assert sent == [(1, 0, 2 * 64)]


def test_nan_at_another_rank_is_reported_and_the_next_images_are_fine(toy_data):
    small = Small(toy_data, "class-parallel", "stacked-loop", "mlp")
    state = trees.map(torch.clone, small.start())
    for leaf in state.generator.params.values():
        leaf[2] = torch.nan

    def use(model):
        with pytest.raises(UserError, match="round 2 generates NaN"):
            model.generate(torch.tensor([0, 2]), 0)
        return model.generate(torch.tensor([0, 1]), 0)

    found, _ = on_ranks(small, state, 3, use)
    assert found.shape == (2, 1, 8, 8)


def test_the_authors_of_rank_0_count_for_all_ranks(toy_data, monkeypatch):
    """Even if another rank draws other authors, every image is generated exactly once."""
    small = Small(toy_data, "class-parallel", "stacked-loop", "mlp")
    strategy = type(small.strategy)

    def authors(self, engine, state, noise, labels):
        return labels if 0 in engine.members else torch.zeros_like(labels)

    expected = model_of(small, small.start(), Stacked(3)).generate(torch.tensor([2, 1, 0]), 0)
    monkeypatch.setattr(strategy, "authors", authors)
    found, _ = on_ranks(
        small, small.start(), 3, lambda model: model.generate(torch.tensor([2, 1, 0]), 0)
    )
    assert torch.equal(found, expected)

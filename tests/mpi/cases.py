"""What is true on any number of ranks; run by every rank of a job, and rank 0 compares with ``stacked``.

python -m mpi4py -m tests.mpi.cases
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

from typing import NamedTuple

import torch

from remuda.cluster.launch import join
from remuda.config import EngineConfig
from remuda.data import Dataset, partition
from remuda.data.batches import Batches
from remuda.data.config import DataConfig
from remuda.engines import Metered, MPIEngine, Stacked
from remuda.errors import UserError
from remuda.networks import DCGAN, MLP
from remuda.strategies import STRATEGIES
from remuda.tensors import trees

NETWORKS = {"mlp": MLP(latent=6, hidden=12), "dcgan": DCGAN(latent=6, width=8)}
GRIDS = {5: (1, 5), 6: (2, 3)}
MORE = [  # settings in which other rows travel, or other numbers of messages
    ("md-gan", 5, dict(swap_optimizer="carry", discriminator_steps=2, num_fake_batches=1)),
    ("md-gan", 6, dict(lose_every=1, ema=0.9)),
    ("fl-gan", 5, dict(sync="generator", fraction=0.5)),
    ("fl-gan", 6, dict(sync_optimizer="average", local_norms=True, ema=0.9)),
    ("class-parallel", 5, dict(loss="wasserstein", discriminator_steps=2)),
    ("cellular", 6, dict(neighbourhood="moore", population=2, mixture_samples=8)),
]


def toy_data():
    """Six classes of unequal sizes, 8x8."""
    labels = torch.repeat_interleave(torch.arange(6), torch.tensor([9, 5, 4, 7, 3, 6]))
    noise = torch.randint(0, 40, (len(labels), 1, 8, 8), generator=torch.Generator().manual_seed(0))
    images = (noise + 40 * labels[:, None, None, None]).to(torch.uint8)
    return Dataset("toy", images, labels, tuple("abcdef"))


def train(name, make_engine, size, networks, rounds=2, **settings):
    """A strategy on an engine, its whole state and all members' reports at rank 0."""
    if name == "cellular":
        settings = {
            "height": GRIDS[size][0],
            "width": GRIDS[size][1],
            "mixture_samples": 8,
            **settings,
        }
    data = toy_data()
    strategy = STRATEGIES[name](batch_size=4, steps_per_round=2, **settings)
    config = DataConfig(partition=strategy.partitions[0])
    shares = partition(data.labels, size, config, 6, 3)
    context = strategy.prepare(
        NETWORKS[networks], data.shape, 6, 3, [len(share) for share in shares]
    )
    engine = make_engine(size, strategy.grid)
    batches = Batches(data, shares, members=engine.members, batch_size=4, seed=3)
    count = strategy.batches_per_round(6)
    state, reports = strategy.init(context, engine), []
    for t in range(1, rounds + 1):
        real = batches.draw((t - 1) * count, count)
        rows = trees.map(torch.clone, strategy.rows(state))
        after, metrics = strategy.round(context, engine, state, real, t)
        assert trees.equal(rows, strategy.rows(state)), (
            "a round leaves the state that it began with"
        )
        if t == 1:
            again, _ = strategy.round(context, engine, state, real, t)
            assert trees.equal(after, again), "and can be run again from it"
        state = after
        reports.append(engine.gather(lambda _, rows: rows, (), metrics))
    rows = engine.gather(lambda _, rows: rows, (), strategy.rows(state))
    return strategy.with_rows(state, rows), reports


def check_strategy(world, name, size, networks, **settings):
    def ranks(size, grid):
        return MPIEngine(world, size, grid=grid)

    state, reports = train(name, ranks, size, networks, **settings)
    if not world.is_root:
        assert all(report == () for report in reports)
        return
    expected, lines = train(name, lambda size, _: Stacked(size), size, networks, **settings)
    for (leaf, a), (_, b) in zip(
        trees.named_leaves(expected), trees.named_leaves(state), strict=True
    ):
        assert a.shape == b.shape and a.dtype == b.dtype, leaf
        assert torch.allclose(a.double(), b.double(), atol=2e-3), (name, size, networks, leaf)
    for one, other in zip(lines, reports, strict=True):
        assert all(torch.allclose(one[key], other[key], atol=1e-3) for key in one), (
            name,
            size,
            networks,
        )


def check_strategies(world):
    for name in STRATEGIES:
        for size in (1,) if name == "standalone" else (5, 6):
            if size < world.num_ranks:
                refuse_too_many(world, size)
            else:
                check_strategy(world, name, size, "mlp")
    for name, size, settings in MORE:
        check_strategy(
            world, name, size, "dcgan" if "local_norms" in settings else "mlp", **settings
        )


def refuse_too_many(world, size):
    try:
        MPIEngine(world, size)
    except UserError as error:
        assert "more than the" in str(error)
    else:
        raise AssertionError("more ranks than members")


# Verbs


class Point(NamedTuple):
    x: torch.Tensor
    marks: dict


def numbers(size):
    """Rows of many types, each row of its own numbers."""
    n = torch.arange(size)
    return Point(
        x=torch.stack([n, 10 * n], 1).float() + 0.25,
        marks={
            "count": n + 7,
            "even": n % 2 == 0,
            "byte": (n * 3).to(torch.uint8),
            "double": n[:, None, None].double() / 3 * torch.ones(2, 3, dtype=torch.float64),
            "half": (n / 4).to(torch.bfloat16),
            "nothing": torch.zeros(size, 0),
            "pair": (n.int(), ()),
        },
    )


def check_verbs(world, size):
    engine, reference, whole = MPIEngine(world, size), Stacked(size), numbers(size)
    span = slice(engine.members[0], engine.members[-1] + 1)
    mine = trees.map(lambda leaf: leaf[span].clone(), whole)
    before = trees.map(torch.clone, mine)

    def same(rows, expected, tolerance=0.0):
        expected = trees.map(lambda leaf: leaf[span], expected)
        for (name, a), (_, b) in zip(
            trees.named_leaves(rows), trees.named_leaves(expected), strict=True
        ):
            assert a.dtype == b.dtype and a.shape == b.shape, name
            assert torch.allclose(a.double(), b.double(), rtol=tolerance, atol=0), name
        assert isinstance(rows, Point)

    n = torch.arange(size)
    tables = [
        n.roll(1),
        n.flip(0),
        torch.zeros_like(n),
        n,
        torch.stack([n, n.roll(1), n.roll(-1), n.roll(1)], 1),
    ]
    tables.append(torch.randint(size, (size, 3), generator=torch.Generator().manual_seed(size)))
    for table in tables:
        same(engine.take(mine, table), reference.take(whole, table))
    for weights in (torch.ones(size), n + 1.0, (n == size - 1).double()):
        same(engine.mean(mine, weights), reference.mean(whole, weights), 1e-6)
    for repeat in range(3):  # descriptions travel once
        same(engine.scatter(lambda rows: rows, whole if engine.communicator.is_root else ()), whole)
        only = engine.scatter(
            lambda k: torch.arange(size * 2.0).view(size, 2) + k,
            repeat if engine.communicator.is_root else None,
        )
        assert torch.equal(only, torch.arange(size * 2.0).view(size, 2)[span] + repeat)
    got = engine.gather(lambda server, *rows: (server, *rows), torch.tensor(5.0), mine, mine.x)
    if engine.communicator.is_root:
        assert got[0] == 5 and trees.equal(got[1], whole) and torch.equal(got[2], whole.x)
    else:
        assert got == ()
    assert engine.take((), n) == () and trees.leaves(
        engine.mean({"count": mine.marks["count"]}, torch.ones(size))
    )
    assert trees.equal(mine, before), "verbs leave rows alone"
    twice = engine.map(lambda row: row.x * 2, mine)
    assert torch.equal(twice, whole.x[span] * 2)
    assert world.max_over_ranks(world.rank * 3) == 3 * (world.num_ranks - 1)


# Traffic


def check_traffic(world):
    """Where every rank hosts one member, what is sent is what Metered counts, less what rank 0 keeps for itself."""
    size = world.num_ranks
    if size == 1:
        return
    bare = MPIEngine(world, size)
    engine = Metered(bare)
    rows = {"w": torch.full((1, 5), float(world.rank)), "count": torch.tensor([world.rank])}
    row, floats = 5 * 4 + 8, 5 * 4
    n = torch.arange(size)
    engine.take(rows, n.roll(1))
    engine.take(rows, torch.stack([n, n.roll(1)], 1))
    engine.mean(rows, torch.ones(size))
    engine.scatter(lambda: {"x": torch.zeros(size, 3)})
    engine.gather(lambda server, got: server, (), rows)
    sent = {
        verb: sum(one.get(verb, 0) for one in world.all_gather(dict(bare.sent)))
        for verb in bare.sent
    }
    assert sent["take"] == engine.bytes["take", "across"] == 2 * size * row
    assert engine.bytes["mean", "up"] == engine.bytes["mean", "down"] == size * floats
    assert sent["mean"] == 2 * engine.bytes["mean", "up"]  # in double precision
    assert engine.bytes["scatter", "down"] == size * 12 and sent["scatter"] == (size - 1) * 12
    assert engine.bytes["gather", "up"] == size * row and sent["gather"] == (size - 1) * row


def check_traffic_of_members_together(world):
    """A row that several members of a rank take goes there once, and nothing goes to where it is."""
    if world.num_ranks != 2:
        return
    engine = MPIEngine(world, 5)  # members 0, 1, 2 and 3, 4
    rows = torch.zeros(len(engine.members), 4)
    engine.take(rows, torch.zeros(5, dtype=torch.int64))
    assert engine.sent["take"] == (16 if engine.communicator.is_root else 0)
    engine.take(rows, torch.tensor([1, 0, 3, 4, 3]))
    assert engine.sent["take"] == 16
    engine.scatter(lambda: torch.zeros(5, 4))
    assert engine.sent["scatter"] == (32 if engine.communicator.is_root else 0)


def check_torus(world):
    """One rank for each cell: the communicator knows the torus."""
    if world.num_ranks not in (2, 5):
        return
    MPIEngine(world, world.num_ranks, grid=(1, world.num_ranks))
    dims, periods, coords = world.comm.Get_topo()
    assert (dims, periods, coords) == ([1, world.num_ranks], [1, 1], [0, world.rank])
    check_verbs(world, world.num_ranks)


def check_large_messages(world):
    if world.num_ranks == 2:
        from remuda.engines.mpi import communicator as mpi

        before, mpi.CHUNK = mpi.CHUNK, 1000  # a message in several pieces
        engine = MPIEngine(world, 2)
        rows = torch.arange(777.0)[None] + 1000 * engine.communicator.rank
        taken = engine.take(rows, torch.tensor([1, 0]))
        assert torch.equal(taken, torch.arange(777.0)[None] + 1000 * (1 - engine.communicator.rank))
        mpi.CHUNK = before


def main():
    torch.set_num_threads(1)
    with join(EngineConfig(name="mpi")) as world:
        for size in (5, 6, 9):
            check_verbs(world, size)
        check_traffic(world)
        check_traffic_of_members_together(world)
        check_large_messages(world)
        check_strategies(world)
        check_torus(world)
        if world.is_root:
            print(f"all is well on {world.num_ranks} ranks", flush=True)


if __name__ == "__main__":
    main()

"""Checks that hold on any number of ranks. Every rank of a job runs them:

python -m mpi4py -m tests.mpi.cases

Rank 0 compares the results with those of the engine ``stacked``.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

from typing import NamedTuple

import torch

from remuda.cluster.launch import join
from remuda.config import EngineConfig, from_dict
from remuda.data import Dataset, partition
from remuda.data.batches import Batches
from remuda.data.config import DataConfig
from remuda.engines import Metered, MPIEngine, SingleProcess, Stacked
from remuda.errors import UserError
from remuda.model import Model
from remuda.networks import DCGAN, MLP, ResNet
from remuda.record import DataFacts
from remuda.strategies import STRATEGIES
from remuda.strategies.context import facts_of
from remuda.tensors import trees
from remuda.tensors.codecs import CODECS, Compressor
from remuda.training.assemble import assemble

NETWORKS = {
    "mlp": MLP(latent=6, hidden=12),
    "dcgan": DCGAN(latent=6, width=8),
    "resnet": ResNet(latent=6, width=4, discriminator_width=4, conditional=True),
}
GRIDS = {5: (1, 5), 6: (2, 3)}
SCHEDULE = dict(annealing="cosine", annealing_rounds=1.5, final_lr=0.1, final_betas=(0.1, 0.9))
SCHEDULE |= dict(ema_images=40.0, ema_rampup=0.5)
SPECTRAL = dict(loss="hinge", lipschitz="spectral")
PAIRED = dict(loss="relativistic", r1=0.5, r2=0.5)
SHARED = dict(shared_generator=("input", "body", "head"), shared_discriminator=("input", "body"))
FAMILIES = dict(families=((0, 3), (1, 4, 5)), family_generator=("normalisation",))
# Leaves that a replay does not repeat: simulated time, and mail whose turn has not arrived yet.
SIMULATED = {"md-gan-async": ["clock"], "cellular-async": ["clock", "runners/mail", "seen"]}
MORE = [  # settings with other rows or other numbers of messages
    ("md-gan", 5, "mlp", dict(swap_optimizer="carry", discriminator_steps=2, num_fake_batches=1)),
    ("md-gan", 6, "mlp", dict(lose_every=1, **SCHEDULE)),
    ("md-gan", 5, "resnet", SPECTRAL),
    ("md-gan", 6, "resnet", PAIRED),
    ("md-gan", 5, "mlp", dict(members=12, discriminators=5, same_start=False)),
    ("md-gan", 6, "mlp", dict(members=13, discriminators=6, visits="random")),
    ("fl-gan", 5, "mlp", dict(weights="distances", fraction=0.5)),
    ("md-gan", 6, "mlp", dict(aggregate="median", liars=1, lie="noise", lose_every=1)),
    ("md-gan", 5, "mlp", dict(aggregate="krum", liars=1, lie="constant", num_fake_batches=1)),
    ("md-gan", 6, "mlp", dict(aggregate="reputation", liars=1, num_fake_batches=1)),
    ("md-gan", 5, "resnet", dict(forgive="f2a", liars=2, lie="collude")),
    ("fl-gan", 5, "mlp", dict(sync="generator", fraction=0.5)),
    ("fl-gan", 5, "mlp", dict(aggregate="geometric-median", liars=1, fraction=0.8, ema=0.9)),
    ("fl-gan", 6, "dcgan", dict(aggregate="median", sync_optimizer="average", local_norms=True)),
    ("fl-gan", 5, "resnet", dict(liars=2, lie="labels", **SPECTRAL)),
    ("md-gan", 5, "mlp", dict(compress_down="int4", compress_up="int8", compress_across="int16")),
    ("md-gan", 6, "dcgan", dict(compress_up="top-k", error_feedback=True)),
    ("fl-gan", 5, "mlp", dict(compress_down="int16", compress_up="int8", error_feedback=True)),
    ("fl-gan", 6, "dcgan", dict(compress_up="int16", fraction=0.5, local_norms=True)),
    ("fl-gan", 6, "dcgan", dict(sync_optimizer="average", local_norms=True, ema=0.9)),
    ("class-parallel", 5, "mlp", dict(loss="wasserstein", discriminator_steps=2, **SCHEDULE)),
    ("class-parallel", 5, "resnet", dict(**SPECTRAL, **SHARED, **SCHEDULE)),
    ("class-parallel", 6, "dcgan", dict(**SHARED, **FAMILIES, ema=0.9)),
    ("class-parallel", 6, "dcgan", dict(**SHARED, **FAMILIES, share_every=2)),
    ("cellular", 6, "mlp", dict(neighbourhood="moore", population=2, mixture_samples=8)),
]


def toy_data():
    """Return six classes of unequal sizes, with images of 8x8."""
    labels = torch.repeat_interleave(torch.arange(6), torch.tensor([9, 5, 4, 7, 3, 6]))
    noise = torch.randint(0, 40, (len(labels), 1, 8, 8), generator=torch.Generator().manual_seed(0))
    images = (noise + 40 * labels[:, None, None, None]).to(torch.uint8)
    return Dataset("toy", images, labels, tuple("abcdef"))


def train(name, make_engine, size, networks, rounds=2, orders=None, members=0, **settings):
    """Train a strategy on an engine.

    Return its whole state, all members' metrics, some images, and the order of the arrivals in
    every round, all at rank 0. ``orders`` repeats an earlier order of arrivals. If ``members`` is
    given, the population has another size than ``run.members``.
    """
    if name.startswith("cellular"):
        height, width = GRIDS[size]
        settings = {"height": height, "width": width, "mixture_samples": 8, **settings}
    data = toy_data()
    strategy = STRATEGIES[name](batch_size=4, steps_per_round=2, **settings)
    config = DataConfig(partition=strategy.partitions[0])
    groups = strategy.share_groups(size, members)
    shares = partition(data.labels, groups[-1].stop, config, 6, 3)
    images = [torch.cat([shares[number] for number in group]) for group in groups]
    counts = [data.labels[own].bincount(minlength=6).tolist() for own in images]
    context = strategy.prepare(
        NETWORKS[networks], data.shape, 6, 3, list(map(len, images)), class_counts=counts
    )
    engine = make_engine(size, strategy.grid)
    batches = Batches(data, shares, members=engine.members, groups=groups, batch_size=4, seed=3)
    count = strategy.batches_per_round(6)
    state, reports, found = strategy.init(context, engine), [], []
    for t in range(1, rounds + 1):
        real = strategy.draw(batches, t, count)
        rows = trees.map(torch.clone, strategy.rows(state))
        if orders is not None:
            engine.follow(orders[t - 1])
        after, metrics = strategy.round(context, engine, state, real, t)
        assert trees.equal(rows, strategy.rows(state)), "a round does not change its arguments"
        found.append(engine.arrivals)
        if t == 1 and not strategy.is_asynchronous:
            again, _ = strategy.round(context, engine, state, real, t)
            assert trees.equal(after, again), "a round can run again"
        state = after
        both = dict(metrics), facts_of(metrics)
        reports.append(engine.gather(lambda _, rows: rows, (), both))
    images = generate(strategy, context, engine, state)
    rows = engine.gather(lambda _, rows: rows, (), strategy.rows(state))
    return strategy.with_rows(state, rows), reports, images, found


def generate(strategy, context, engine, state):
    """Generate 30 images at rank 0; each rank generates those of its own members."""
    model = Model(
        strategy=strategy,
        context=context,
        state=state,
        engine=engine,
        communicator=getattr(engine.engine, "communicator", SingleProcess()),
        facts=DataFacts(name="toy", shape=(1, 8, 8), classes=list("abcdef"), counts=[1] * 6),
        num_labels=strategy.num_labels(context.gan, engine.size),
        round=2,
    )
    if not model.communicator.is_root:
        return model.assist()
    images = model.generate(torch.arange(30) % max(1, model.num_labels), seed=4)
    model.dismiss()
    return images


def check_strategy(communicator, name, size, networks, **settings):
    def mpi_engine(size, grid):
        return Metered(MPIEngine(communicator, size, grid=grid))

    state, reports, images, orders = train(name, mpi_engine, size, networks, **settings)
    if not communicator.is_root:
        assert all(report == () for report in reports)
        return
    if not any(orders):
        orders = None
    expected, lines, pictures, _ = train(
        name, lambda size, _: Metered(Stacked(size)), size, networks, orders=orders, **settings
    )
    difference = (images.int() - pictures.int()).abs().max()
    assert difference <= 1, (name, size, networks, difference)  # rounding of the states
    for (leaf, a), (_, b) in zip(*map(trees.named_leaves, (expected, state)), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype, leaf
        if any(word in leaf for word in SIMULATED.get(name, ())):
            continue
        assert torch.allclose(a.double(), b.double(), atol=2e-3), (name, size, networks, leaf)
    for one, other in zip(lines, reports, strict=True):
        for (key, a), (_, b) in zip(*map(trees.named_leaves, (one, other)), strict=True):
            close = torch.allclose(a.double(), b.double(), atol=1e-3)
            assert close, (name, size, networks, key)


def check_strategies(communicator):
    for name in STRATEGIES:
        for size in (1,) if name == "standalone" else (5, 6):
            if size < communicator.num_ranks:
                check_that_too_many_ranks_are_refused(communicator, size)
            else:
                check_strategy(communicator, name, size, "mlp")
    for name, size, networks, settings in MORE:
        check_strategy(communicator, name, size, networks, **settings)


def check_that_too_many_ranks_are_refused(communicator, size):
    try:
        MPIEngine(communicator, size)
    except UserError as error:
        assert "more than the" in str(error)
    else:
        raise AssertionError("more ranks than members were accepted")


# Verbs


class Point(NamedTuple):
    x: torch.Tensor
    marks: dict


def numbers(size):
    """Return rows of many types; every row has different numbers."""
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


def check_verbs(communicator, size):
    engine, reference, whole = MPIEngine(communicator, size), Stacked(size), numbers(size)
    span = slice(engine.members[0], engine.members[-1] + 1)
    mine = trees.map(lambda leaf: leaf[span].clone(), whole)
    before = trees.map(torch.clone, mine)

    def same(rows, expected, tolerance=0.0):
        expected = trees.map(lambda leaf: leaf[span], expected)
        for (name, a), (_, b) in zip(*map(trees.named_leaves, (rows, expected)), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape, name
            assert torch.allclose(a.double(), b.double(), rtol=tolerance, atol=0), name
        assert isinstance(rows, Point)

    n = torch.arange(size)
    neighbours = torch.stack([n, n.roll(1), n.roll(-1), n.roll(1)], 1)
    drawn = torch.randint(size, (size, 3), generator=torch.Generator().manual_seed(size))
    for table in (n.roll(1), n.flip(0), torch.zeros_like(n), n, neighbours, drawn):
        same(engine.take(mine, table), reference.take(whole, table))
    groups = (n % 3)[:, None] == n % 3
    for weights in (torch.ones(size), n + 1.0, (n == size - 1).double(), groups.double()):
        same(engine.mean(mine, weights), reference.mean(whole, weights), 1e-6)
        single = reference.mean(whole, weights, torch.float32)
        same(engine.mean(mine, weights, torch.float32), single, 1e-2)  # half precision sums differ
    table = torch.arange(size * 2.0).view(size, 2)
    for repeat in range(3):  # descriptions travel only once
        server = (whole, repeat) if communicator.is_root else ((), None)
        same(engine.scatter(lambda rows: rows, server[0]), whole)
        scattered = engine.scatter(lambda k: table + k, server[1])
        assert torch.equal(scattered, table[span] + repeat)
    got = engine.gather(lambda server, *rows: (server, *rows), torch.tensor(5.0), mine, mine.x)
    if communicator.is_root:
        assert got[0] == 5 and trees.equal(got[1], whole) and torch.equal(got[2], whole.x)
    else:
        assert got == ()
    assert engine.take((), n) == ()
    assert trees.leaves(engine.mean({"count": mine.marks["count"]}, torch.ones(size)))
    assert trees.equal(mine, before), "verbs do not change their arguments"
    twice = engine.map(lambda row: row.x * 2, mine)
    assert torch.equal(twice, whole.x[span] * 2)
    assert communicator.max_over_ranks(communicator.rank * 3) == 3 * (communicator.num_ranks - 1)


# Traffic


def check_traffic_of_shared_layers(communicator):
    """Every update sends one gradient of each shared parameter and member, and nothing else."""
    size = communicator.num_ranks
    if size == 1 or size > 6:
        return
    data, bare = toy_data(), MPIEngine(communicator, size)
    engine = Metered(bare)
    strategy = STRATEGIES["class-parallel"](
        batch_size=4, shared_generator=("body",), shared_discriminator=("input", "body")
    )
    context = strategy.prepare(NETWORKS["mlp"], data.shape, 6, 3)
    shares = partition(data.labels, size, DataConfig(partition="class"), 6, 3)
    real = Batches(data, shares, members=engine.members, batch_size=4, seed=3).draw(0, 3)
    state, _ = strategy.round(context, engine, strategy.init(context, engine), real, 1)
    shared = state.common.generator.params, state.common.discriminator.params
    num_bytes = 3 * trees.num_bytes(shared)  # three updates of each player
    assert num_bytes > 0 and engine.bytes["mean", "up"] == size * num_bytes
    assert bare.sent["mean"] == num_bytes


def check_traffic(communicator):
    """Compare the bytes sent with those of Metered, if every rank hosts one member.

    Metered also counts the rows that rank 0 keeps for itself.
    """
    size = communicator.num_ranks
    if size == 1:
        return
    bare = MPIEngine(communicator, size)
    engine = Metered(bare)
    rows = {
        "w": torch.full((1, 5), float(communicator.rank)),
        "count": torch.tensor([communicator.rank]),
    }
    row, floats = 5 * 4 + 8, 5 * 4
    n = torch.arange(size)
    engine.take(rows, n.roll(1))
    engine.take(rows, torch.stack([n, n.roll(1)], 1))
    engine.mean(rows, torch.ones(size))
    engine.mean(rows, torch.ones(size), torch.float32)
    engine.scatter(lambda: {"x": torch.zeros(size, 3)})
    engine.gather(lambda server, got: server, (), rows)
    by_rank = communicator.all_gather(dict(bare.sent))
    sent = {verb: sum(one.get(verb, 0) for one in by_rank) for verb in bare.sent}
    assert sent["take"] == engine.bytes["take", "across"] == 2 * size * row
    assert engine.bytes["mean", "up"] == engine.bytes["mean", "down"] == 2 * size * floats
    assert sent["mean"] == (2 + 1) * size * floats  # in double and in single precision
    assert engine.bytes["scatter", "down"] == size * 12 and sent["scatter"] == (size - 1) * 12
    assert engine.bytes["gather", "up"] == size * row and sent["gather"] == (size - 1) * row


def check_traffic_of_compressed_rows(communicator):
    """Compare the bytes sent with those of Metered, with every codec and one member per rank."""
    size = communicator.num_ranks
    if size == 1:
        return
    numbers, row = torch.randn(1, 3, 700), 3 * 700
    for codec in CODECS:
        bare = MPIEngine(communicator, size)
        engine, compressor = Metered(bare), Compressor(codec, 0.05)
        engine.scatter(lambda c=compressor: c.encode(torch.zeros(size, 3, 700)))
        engine.gather(lambda server, got: server, (), compressor.encode(numbers))
        engine.take(compressor.encode(numbers), torch.arange(size).roll(1))
        by_rank = communicator.all_gather(dict(bare.sent))
        sent = {verb: sum(one.get(verb, 0) for one in by_rank) for verb in bare.sent}
        num_bytes = compressor.row_bytes([row])
        assert engine.bytes["scatter", "down"] == engine.bytes["gather", "up"] == size * num_bytes
        assert sent["scatter"] == sent["gather"] == (size - 1) * num_bytes, codec
        assert sent["take"] == engine.bytes["take", "across"] == size * num_bytes, codec


def check_traffic_with_several_members_per_rank(communicator):
    """A row that several members of a rank take is sent once, and never to its own rank."""
    if communicator.num_ranks != 2:
        return
    engine = MPIEngine(communicator, 5)  # rank 0 hosts members 0, 1 and 2, rank 1 hosts 3 and 4
    rows = torch.zeros(len(engine.members), 4)
    engine.take(rows, torch.zeros(5, dtype=torch.int64))
    assert engine.sent["take"] == (16 if communicator.is_root else 0)
    engine.take(rows, torch.tensor([1, 0, 3, 4, 3]))
    assert engine.sent["take"] == 16
    engine.scatter(lambda: torch.zeros(5, 4))
    assert engine.sent["scatter"] == (32 if communicator.is_root else 0)


def check_torus(communicator):
    """With one rank per cell, the communicator knows the torus."""
    if communicator.num_ranks not in (2, 5):
        return
    MPIEngine(communicator, communicator.num_ranks, grid=(1, communicator.num_ranks))
    dims, periods, coords = communicator.comm.Get_topo()
    assert (dims, periods, coords) == ([1, communicator.num_ranks], [1, 1], [0, communicator.rank])
    check_verbs(communicator, communicator.num_ranks)


def check_large_messages(communicator):
    if communicator.num_ranks != 2:
        return
    from remuda.engines.mpi import communicator as mpi

    before, mpi.CHUNK = mpi.CHUNK, 1000  # bytes, so that a message has several pieces
    engine, row = MPIEngine(communicator, 2), torch.arange(777.0)[None]
    taken = engine.take(row + 1000 * communicator.rank, torch.tensor([1, 0]))
    assert torch.equal(taken, row + 1000 * (1 - communicator.rank))
    mpi.CHUNK = before


def check_families(communicator):
    """All ranks find the same families."""
    values = {
        "networks": {"name": "mlp", "latent": 4, "hidden": 8},
        "strategy": {
            "name": "class-parallel",
            "num_families": 3,
            "family_generator": ["head"],
        },
        "engine": {"name": "mpi", "device": "cpu"},
    }
    herd = assemble(from_dict(values), communicator)
    found = communicator.all_gather(herd.strategy.families)
    assert len(found[0]) == 3 and all(families == found[0] for families in found)


def main():
    torch.set_num_threads(1)
    with join(EngineConfig(name="mpi")) as communicator:
        for size in (5, 6, 9):
            check_verbs(communicator, size)
        check_traffic(communicator)
        check_traffic_of_shared_layers(communicator)
        check_traffic_of_compressed_rows(communicator)
        check_traffic_with_several_members_per_rank(communicator)
        check_large_messages(communicator)
        check_strategies(communicator)
        check_torus(communicator)
        check_families(communicator)
        if communicator.is_root:
            print(f"all checks passed on {communicator.num_ranks} ranks", flush=True)


if __name__ == "__main__":
    main()

"""Compressed messages: verbs on hand-made numbers, memories, swaps, means and wrong settings."""

import pytest
import torch

import remuda
from remuda.data.batches import Batch
from remuda.engines import Metered, Stacked
from remuda.errors import UserError
from remuda.networks import MLP
from remuda.record import Record, shards
from remuda.strategies import FLGAN, MDGAN
from remuda.strategies.compression import take
from remuda.tensors import trees
from remuda.tensors.codecs import Compressor
from remuda.tensors.functions import Partial

SHAPE = (1, 8, 8)
NAN = float("nan")
EVERYTHING = dict(compress_down="int4", compress_up="top-k", compress_across="int8")


def make(kind=MDGAN, **options):
    strategy = kind(batch_size=4, **options)
    return strategy, strategy.prepare(MLP(latent=5, hidden=12), SHAPE, 3, seed=7)


def real(size, steps=2, seed=0):
    torch.manual_seed(seed)
    return Batch(
        torch.randint(0, 256, (size, steps, 4, *SHAPE), dtype=torch.uint8),
        torch.randint(0, 3, (size, steps, 4)),
    )


def receive(server, rows):
    return rows


def rounded(rows):
    return rows.mul(1000).round().div(1000).tolist()


# Messages to the server


def test_members_add_what_was_removed_to_their_next_message():
    strategy = MDGAN(compress_up="top-k", top_k=0.25, error_feedback=True)
    rows = torch.tensor([[4.0, 1.0, 2.0, 0.0], [0.0, 0.0, -8.0, 1.0]]).repeat(1, 2)
    rows[:, 4:] = 0
    engine, memory = Stacked(2), strategy.new_memory(rows)
    assert not memory.any()
    got, memory = strategy.gather(engine, receive, (), rows, memory)
    assert rounded(got) == [[4, 0, 2, 0, 0, 0, 0, 0], [0, 0, -8, 1, 0, 0, 0, 0]]
    assert rounded(memory) == [[0, 1, 0, 0, 0, 0, 0, 0], [0] * 8]
    rows[0, 1] = 1.5
    got, memory = strategy.gather(engine, receive, (), rows, memory)
    assert rounded(got)[0] == [4, 2.5, 0, 0, 0, 0, 0, 0]
    assert rounded(memory)[0] == [0, 0, 2, 0, 0, 0, 0, 0]


def test_over_time_the_server_receives_everything():
    strategy = MDGAN(compress_up="top-k", top_k=0.1, error_feedback=True)
    rows, engine = torch.rand(2, 40) + 0.5, Stacked(2)
    memory, total = strategy.new_memory(rows), torch.zeros(2, 40)
    for _ in range(60):
        got, memory = strategy.gather(engine, receive, (), rows, memory)
        total += got
    assert torch.allclose(total + memory, 60 * rows, rtol=1e-4)
    assert memory.max() < 30, "every number is sent again and again"


def test_a_diverged_message_reaches_the_server_but_not_the_memory():
    strategy = MDGAN(compress_up="int8", error_feedback=True)
    rows = torch.randn(2, 50)
    rows[0, 3] = NAN
    got, memory = strategy.gather(Stacked(2), receive, (), rows, torch.zeros(2, 50))
    assert got[0].isnan().all() and got[1].isfinite().all() and memory.isfinite().all()


def test_without_error_feedback_there_is_no_memory():
    strategy = MDGAN(compress_up="int8")
    assert strategy.new_memory(torch.randn(2, 50)) == ()
    assert strategy.gather(Stacked(2), receive, (), torch.randn(2, 50), ())[1] == ()


def test_workers_of_md_gan_remember_from_one_iteration_to_the_next():
    strategy, context = make(compress_up="int4", error_feedback=True, num_fake_batches=1)
    engine, batch = Stacked(3), real(3, steps=1)
    start = strategy.init(context, engine)
    first, _ = strategy.round(context, engine, start, batch, 1)
    assert first.memory.flatten(1).any(1).all() and not start.memory.any()
    forgotten = first._replace(memory=torch.zeros_like(first.memory))
    ends = [strategy.round(context, engine, each, batch, 2)[0] for each in (first, forgotten)]
    assert not trees.equal(ends[0].server, ends[1].server)


# Means


def test_the_mean_of_compressed_rows_is_weighted_and_skips_members_without_weight():
    strategy, engine = FLGAN(compress_up="int8", compress_down="int8"), Metered(Stacked(3))
    rows = {"w": torch.tensor([[1.27, -0.01], [NAN, 5.0], [2.54, 0.02]]).repeat(1, 20)}
    means, _ = strategy.mean(engine, rows, torch.tensor([1.0, 0.0, 3.0]), ())
    expected = torch.tensor([(1.27 + 3 * 2.54) / 4, (-0.01 + 3 * 0.02) / 4]).repeat(20)
    largest = (1.27 + 3 * 2.54) / 4
    for row in means["w"]:
        assert torch.allclose(row, expected, atol=0.5 * largest / 127 + 1e-6)
    assert all(torch.equal(row, means["w"][0]) for row in means["w"])
    assert set(engine.bytes) == {("gather", "up"), ("scatter", "down")}
    assert engine.bytes["gather", "up"] == engine.bytes["scatter", "down"] == 3 * (40 + 4)


def test_a_mean_that_is_compressed_one_way_is_exact_the_other_way():
    strategy, engine = FLGAN(compress_down="int8"), Stacked(3)
    rows = torch.randn(3, 40)
    exact = engine.mean(rows, torch.ones(3))
    means, _ = strategy.mean(engine, rows, torch.ones(3), ())
    compressor = Compressor("int8")
    assert torch.equal(means, compressor.decode(compressor.encode(exact)))
    means, _ = FLGAN(compress_up="int16").mean(engine, rows, torch.ones(3), ())
    assert torch.allclose(means, exact, atol=2e-3) and means.is_contiguous()


def test_inactive_members_keep_their_memory():
    strategy, context = make(FLGAN, compress_up="int4", error_feedback=True, fraction=0.4)
    engine = Stacked(5)
    start = strategy.init(context, engine)
    assert set(start.memory) == {"generator", "discriminator", "average"}
    after, _ = strategy.round(context, engine, start, real(5), 1)
    active = strategy.weigh(context, 5, t=1) > 0
    changed = torch.stack([leaf.flatten(1).any(1) for leaf in trees.leaves(after.memory)]).any(0)
    assert torch.equal(changed, active)


def test_small_updates_are_not_lost_if_members_remember():
    """Rounded to int8, 1 + 0.001 is 1 again; the memory adds up until a step is reached."""
    ends = {}
    for remembers in (False, True):
        strategy = FLGAN(compress_up="int8", error_feedback=remembers)
        weight = torch.ones(2, 10) * torch.tensor([2.0] + [1.0] * 9)
        memory = strategy.new_memory(weight)
        for _ in range(100):
            trained = weight + 0.001 * torch.tensor([0.0] + [1.0] * 9)
            weight, memory = strategy.mean(Stacked(2), trained, torch.ones(2), memory)
        ends[remembers] = weight[0, 1].item()
    assert abs(ends[False] - 1) < 0.01 and abs(ends[True] - 1.1) < 0.01


# Swaps


@pytest.mark.parametrize("codec", ["none", "int16", "int8", "int4"])
def test_a_member_that_keeps_its_row_keeps_exact_numbers(codec):
    engine, rows = Metered(Stacked(4)), {"w": torch.randn(4, 3, 20)}
    others = {"n": torch.arange(4), "w": torch.randn(4, 50)}
    source = torch.tensor([0, 2, 3, 1])
    compressor = Compressor(codec)
    taken, exact = take(engine, compressor, rows, others, source)
    assert trees.equal(exact, engine.engine.take(others, source))
    assert torch.equal(taken["w"][0], rows["w"][0])
    through = compressor.decode(compressor.encode(rows))
    assert torch.equal(taken["w"][1:], through["w"][source[1:]])
    assert engine.bytes["take", "across"] == 3 * (compressor.row_bytes([60]) + 8 + 200)


@pytest.mark.parametrize("moments", ["keep", "carry", "reset"])
def test_only_weights_are_compressed_in_a_swap(moments):
    strategy, context = make(compress_across="int4", swap_optimizer=moments)
    engine, source = Stacked(3), torch.tensor([1, 2, 0])
    state, _ = strategy.round(context, engine, strategy.init(context, engine), real(3), 1)
    swapped = strategy.swap(engine, state.workers, source)
    exact, _ = make(swap_optimizer=moments)
    expected = exact.swap(engine, state.workers, source)
    assert trees.equal(swapped.moments, expected.moments)
    assert trees.equal(swapped.buffers, expected.buffers)
    for name, leaf in swapped.params.items():
        worst = expected.params[name].abs().max() / 14 * 1.01
        assert torch.allclose(leaf, expected.params[name], atol=worst.item()), name


# Whole rounds


def test_counted_bytes_are_those_of_compressed_messages():
    strategy, context = make(**EVERYTHING, num_fake_batches=2)
    engine = Metered(Stacked(3))
    state = strategy.init(context, engine)
    strategy.round(context, engine, state, real(3), 1)
    batch = 4 * 64
    assert engine.bytes["scatter", "down"] == 2 * 3 * strategy.down.row_bytes([2 * batch])
    assert engine.bytes["gather", "up"] == 2 * 3 * strategy.up.row_bytes([batch])
    sizes = [leaf[0].numel() for leaf in state.workers.params.values()]
    assert engine.bytes["take", "across"] == 3 * strategy.across.row_bytes(sizes)
    assert sum(engine.bytes.values()) < sum(sizes) * 3 + 2 * 3 * batch * 4


def exchange(strategies, engine, state, now):
    """Send numbers down and up, with the codecs of several strategies."""
    server, memories = state
    sums = []
    for i, strategy in enumerate(strategies):
        rows = strategy.scatter(engine, lambda server: server + torch.zeros(3, 1), server)
        rows = rows * now
        total, memory = strategy.gather(
            engine, lambda server, rows: server + rows.sum(0), server, rows, memories[i]
        )
        memories = (*memories[:i], memory, *memories[i + 1 :])
        sums.append(total)
    return (torch.stack(sums).mean(0), memories), {"mean": server.mean()}


def test_a_compiled_loop_equals_the_eager_one_and_is_counted():
    strategies = (
        MDGAN(compress_down="int4", compress_up="top-k", error_feedback=True),
        MDGAN(compress_down="int8", compress_up="int16", error_feedback=True),
    )
    torch.manual_seed(0)
    now, ends = torch.rand(2, 3, 700), []
    start = torch.randn(700), tuple(each.new_memory(torch.zeros(3, 700)) for each in strategies)
    for compiled in (True, False):
        engine = Metered(Stacked(3, layout="vmap", compile=compiled))
        ends.append(engine.loop(Partial(exchange, strategies), start, now))
        up = sum(strategy.up.row_bytes([700]) for strategy in strategies)
        assert engine.bytes["gather", "up"] == 2 * 3 * up
        assert len(engine.engine.programs) == compiled
    for (name, a), (_, b) in zip(*map(trees.named_leaves, ends), strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-3), name


@pytest.mark.parametrize("name", ["md-gan", "fl-gan"])
def test_resuming_is_exact_and_checkpoints_hold_the_memory(tmp_path, name):
    settings = [
        "strategy.compress_up=int8", "strategy.error_feedback=true", "strategy.steps_per_round=2",
        "strategy.batch_size=4", "networks.name=mlp", "networks.hidden=12", "networks.latent=6",
        "run.members=3", "engine.device=cpu", "engine.threads=1", "data.limit=60", "scores.every=0",
    ]  # fmt: skip
    whole, half = (
        remuda.run(remuda.recipe(f"{name}-digits", *settings, f"run.rounds={rounds}"), tmp_path / f)
        for f, rounds in (("whole", 2), ("half", 1))
    )
    remuda.resume(half, rounds=2)
    contents = []
    for folder in (whole, half):
        checkpoint, _ = Record.open(folder).newest()
        assert checkpoint.round == 2
        path = checkpoint.files[0]
        header = shards.read_header(path)
        assert any(leaf.startswith("memory") for leaf in header.tensors)
        contents.append((sorted(header.tensors), path.read_bytes()[header.start :]))
    assert contents[0] == contents[1]
    assert remuda.load(half).sample(2).shape[0] == 2


def test_defaults_have_the_leaves_of_old_checkpoints():
    for kind in (MDGAN, FLGAN):
        strategy, context = make(kind)
        names = [name for name, _ in trees.named_leaves(strategy.init(context, Stacked(2)))]
        assert not any(name.startswith("memory") for name in names)


# Wrong settings


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (MDGAN, dict(top_k=0.0, compress_up="top-k"), "above 0 and below 1, not 0.0"),
        (MDGAN, dict(top_k=1.0, compress_up="top-k"), "above 0 and below 1, not 1.0"),
        (MDGAN, dict(top_k=0.1), "strategy.top_k has no effect: set strategy.compress_up"),
        (MDGAN, dict(error_feedback=True), "error_feedback needs compressed messages"),
        (FLGAN, dict(error_feedback=True, compress_down="int8"), "error_feedback needs"),
        (MDGAN, dict(compress_down="sign"), "compress_down=sign would destroy most"),
        (MDGAN, dict(compress_down="top-k"), "compress_down=top-k would destroy most"),
        (MDGAN, dict(compress_across="top-k"), "compress_across=top-k would destroy most"),
        (FLGAN, dict(compress_up="top-k"), "compress_up=top-k would destroy most"),
        (MDGAN, dict(compress_across="int8", swap_every=0), "no effect without swaps"),
    ],
)
def test_wrong_settings_are_refused(kind, options, message):
    with pytest.raises(UserError, match=message):
        kind(**options)


@pytest.mark.parametrize("name", ["md-gan-async", "standalone"])
def test_other_strategies_do_not_have_the_settings(name):
    with pytest.raises(UserError, match="compress_up does not exist for"):
        remuda.recipe(f"{name}-digits", "strategy.compress_up=int8")
    with pytest.raises(UserError, match="compress_across does not exist"):
        remuda.recipe("fl-gan-digits", "strategy.compress_across=int8")

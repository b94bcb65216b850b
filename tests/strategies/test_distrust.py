"""Lying workers, robust aggregates and forgiving weights in MD-GAN and FL-GAN."""

from dataclasses import replace

import pytest
import torch

from remuda.data.batches import Batch
from remuda.engines import Metered, Stacked
from remuda.errors import UserError
from remuda.networks import ACGANMLP, MLP
from remuda.population.aggregates import AGGREGATES
from remuda.population.lies import LIES, draw_liars
from remuda.population.reputation import reputations
from remuda.strategies import FLGAN, MDGAN, fl_gan_messages
from remuda.strategies.md_gan_feedback import (
    Message,
    forgiving_feedback,
    mean_feedback,
    reputable_feedback,
    robust_feedback,
)
from remuda.strategies.md_gan_inputs import Iteration
from remuda.tensors import trees

SHAPE = (1, 8, 8)
NETWORKS = MLP(latent=5, hidden=12)
LABELLED = ACGANMLP(latent=5, hidden=12)
ROBUST = [name for name in AGGREGATES if name != "mean"]


def make(kind, networks=NETWORKS, **options):
    strategy = kind(batch_size=4, **options)
    return strategy, strategy.prepare(networks, SHAPE, 3, seed=7)


def real(size, steps=2, seed=0):
    torch.manual_seed(seed)
    return Batch(
        torch.randint(0, 256, (size, steps, 4, *SHAPE), dtype=torch.uint8),
        torch.randint(0, 3, (size, steps, 4)),
    )


def after_a_round(kind, size=5, networks=NETWORKS, **options):
    (strategy, context), engine = make(kind, networks, **options), Stacked(size)
    start = strategy.init(context, engine)
    return start, *strategy.round(context, engine, start, real(size), 1)


def now_for(places, weights, k):
    """Return inputs in which the workers give feedback on these batches."""
    nothing = torch.zeros(0)
    return Iteration(
        images=nothing, labels=nothing, keys=nothing, fake_labels=nothing,
        noise=torch.zeros(k, 1, 1), classes=nothing,
        places=torch.tensor([[place, (place + 1) % k] for place in places]),
        weights=torch.tensor(weights), scheduled={},
    )  # fmt: skip


# The server of MD-GAN


def test_the_mean_is_a_special_case_of_the_rules():
    """With unequal groups and a lost worker, all rules agree if all workers of a group do."""
    now = now_for([0, 1, 0, 1, 0], [0.25, 0.25, 0.25, 0.25, 0.0], k=2)
    by_batch = torch.randn(2, 4, 3)
    feedback = by_batch[now.places[:, 0]].clone()
    feedback[4] = torch.nan
    expected = mean_feedback(feedback, now)
    assert torch.allclose(expected, by_batch / 2)
    for name in AGGREGATES:
        gradients, kept = robust_feedback(feedback, now, name, 0)
        assert torch.allclose(gradients, expected, atol=1e-6), name
        assert kept[4] == 0 and kept[:4].sum() > 0
    gradients, kept, agreement = reputable_feedback(feedback, now, torch.full((5, 5), 0.5))
    assert torch.allclose(gradients, expected, atol=1e-6)
    assert kept[4] == 0 and kept[:4].sum() > 0 and (agreement[4] == 0.5).all()
    feedback = torch.randn(5, 4, 3)
    found, kept = robust_feedback(feedback, now, "mean", 0)
    assert torch.allclose(found, mean_feedback(feedback, now), atol=1e-6)
    for rule in ("f2u", "f2a"):
        same = forgiving_feedback(feedback, torch.full((5, 4), 0.3), now, rule, 10.0)
        assert torch.allclose(same, mean_feedback(feedback, now), atol=1e-6), rule


def test_each_batch_has_its_own_aggregate():
    now = now_for([0, 1, 0, 1, 0, 1], [1 / 6] * 6, k=2)
    feedback = torch.tensor([1.0, 10.0, 2.0, 20.0, 900.0, -900.0])[:, None]
    gradients, kept = robust_feedback(feedback, now, "median", 1)
    assert gradients.flatten().tolist() == pytest.approx([1.0, 5.0])  # 2 / 2 and 10 / 2
    assert kept.tolist() == [0, 1, 1, 0, 0, 0]


def test_a_batch_without_workers_has_no_gradient():
    now = now_for([0, 1], [1.0, 0.0], k=2)
    feedback, outputs = torch.tensor([[4.0], [9.0]]), torch.zeros(2, 1)
    assert robust_feedback(feedback, now, "median", 0)[0].tolist() == [[4.0], [0.0]]
    assert forgiving_feedback(feedback, outputs, now, "f2a", 1.0).tolist() == [[4.0], [0.0]]


def test_the_most_forgiving_worker_counts_for_each_image():
    now = now_for([0, 0, 0], [1 / 3] * 3, k=1)
    feedback = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    outputs = torch.tensor([[0.9, -2.0], [0.1, -1.0], [torch.nan, -3.0]])
    assert forgiving_feedback(feedback, outputs, now, "f2u", 1.0).tolist() == [[1.0, 4.0]]
    weights = torch.tensor([[0.9, -2.0], [0.1, -1.0]]).sigmoid().mul(3.0).softmax(0)
    expected = (weights[:, 0] * feedback[:2, 0]).sum()
    found = forgiving_feedback(feedback, outputs, now, "f2a", 3.0)
    assert torch.isclose(found[0, 0], expected)


def test_settings_choose_how_the_server_combines_feedback():
    """With forgiving rules, the fourth worker has diverged: it is as if it were absent."""
    now = now_for([0] * 4, [0.25] * 4, k=1)
    feedback = torch.tensor([0.0, 1.0, 5.0, 90.0])[:, None]
    outputs = torch.tensor([0.0, 2.0, -1.0, torch.inf])[:, None]

    def combine(**settings):
        return MDGAN(**settings).combine(Message(feedback, outputs), now, ())[0].item()

    assert combine() == 24
    assert combine(aggregate="trimmed-mean") == combine(aggregate="median") == 3
    now, feedback = now_for([0] * 5, [0.2] * 5, k=1), torch.cat([feedback, torch.tensor([[3.0]])])
    assert combine(aggregate="trimmed-mean", withstand=1) == 3
    feedback[1] = 2.5
    assert combine(aggregate="trimmed-mean", withstand=1) == 3.5
    now, feedback = now_for([0] * 4, [0.25] * 4, k=1), feedback[:4]
    feedback[3] = torch.nan
    assert combine(forgive="f2u") == 2.5
    weights = torch.tensor([0.0, 2.0, -1.0]).sigmoid().mul(4.0).softmax(0)
    expected = float(weights @ feedback[:3, 0])
    assert combine(forgive="f2a", forgive_sharpness=4.0) == pytest.approx(expected)


def test_kept_is_a_mean_over_the_iterations_of_a_round():
    """Krum keeps n - f - 2 = 2 of five messages, and a mean of 2 / 5 over members."""
    for steps in (1, 3):
        (strategy, context), engine = make(MDGAN, aggregate="krum", num_fake_batches=1), Stacked(5)
        start = strategy.init(context, engine)
        _, metrics = strategy.round(context, engine, start, real(5, steps=steps), 1)
        assert metrics["kept"].sum() == pytest.approx(2)


def test_outputs_travel_with_the_feedback():
    (strategy, context), engine = make(MDGAN, forgive="f2u"), Metered(Stacked(4))
    start = strategy.init(context, engine)
    strategy.round(context, engine, start, real(4, steps=3), 1)
    assert engine.bytes["gather", "up"] == 3 * 4 * 4 * (4 * 64 + 4)  # b images and b outputs


def test_the_outputs_are_those_of_the_discriminator():
    (strategy, context), engine = make(MDGAN, LABELLED), Stacked(1)
    worker = trees.row(strategy.init(context, engine).workers, 0)
    images, labels = torch.rand(4, *SHAPE), torch.tensor([0, 1, 2, 0])
    both = context.gan.feedback_and_outputs(worker, images, labels)
    (expected,) = context.gan.critic(worker.params, worker.buffers)((images, labels))
    assert torch.allclose(both[3], expected[:, 0])
    assert trees.equal(both[:3], context.gan.feedback(worker, images, labels))


# Liars


@pytest.mark.parametrize("lie", LIES)
def test_only_liars_lie(lie):
    """Lies change the generator, and only free-riders do not train."""
    options = dict(swap_every=0, num_fake_batches=1)
    _, honest, _ = after_a_round(MDGAN, networks=LABELLED, **options)
    start, state, _ = after_a_round(MDGAN, networks=LABELLED, liars=2, lie=lie, **options)
    assert not trees.equal(honest.server, state.server)
    liars = draw_liars(7, 5, 2)
    name = next(iter(state.workers.params))
    new, old = (tree.workers.params[name] for tree in (state, start))
    still = (new == old).flatten(1).all(1)
    assert torch.equal(still, liars if lie == "constant" else torch.zeros(5, dtype=torch.bool))


def test_a_liar_stays_a_liar_when_others_are_lost():
    (strategy, context), liars = make(MDGAN, liars=2), draw_liars(7, 5, 2)
    for gone in range(5):
        left = [member for member in range(5) if member != gone]
        after = replace(context, lost=(gone,))
        assert torch.equal(strategy.liars_here(after, Stacked(4)), liars[left])


def test_feedback_of_liars():
    """Every lie has its definition; keys change with the iteration unless the lie is constant."""
    for lie in ("sign", "scaled", "noise", "collude", "constant"):
        (strategy, context), engine = make(MDGAN, liars=2, lie=lie), Stacked(5)
        flags, keys = strategy.lies(context, engine, 1, 3)
        liars = draw_liars(7, 5, 2)
        assert flags.shape == keys.shape == (3, 5) and torch.equal(flags[0], liars)
        message = torch.randn(5, 4, 8)
        sent = [
            torch.stack([strategy.falsify(flags[s][n], keys[s][n], message[n]) for n in range(5)])
            for s in (0, 1)
        ]
        assert torch.equal(sent[0][~liars], message[~liars])
        first, second = sent[0][liars]
        if lie in ("sign", "scaled"):
            assert torch.equal(sent[0][liars], {"sign": -1, "scaled": 10}[lie] * message[liars])
            continue
        assert torch.equal(sent[0][liars], sent[1][liars]) == (lie == "constant")
        is_same = torch.allclose(first / first.norm(), second / second.norm(), atol=1e-6)
        assert is_same == (lie == "collude")


@pytest.mark.parametrize("kind", [MDGAN, FLGAN])
def test_false_labels(kind):
    strategy, context = make(kind, LABELLED, liars=1, lie="labels")
    batch, liars = real(4), draw_liars(7, 4, 1)
    found = strategy.with_false_labels(context, Stacked(4), batch)
    assert torch.equal(found.labels[liars], 2 - batch.labels[liars])
    assert torch.equal(found.labels[~liars], batch.labels[~liars])
    with pytest.raises(UserError, match=r"ignore labels.*acgan-mlp"):
        make(kind, liars=1, lie="labels")


@pytest.mark.parametrize("aggregate", ROBUST)
def test_the_record_shows_who_was_ignored(aggregate):
    _, state, metrics = after_a_round(
        MDGAN, aggregate=aggregate, num_fake_batches=1, liars=1, lie="scaled", lie_scale=1e4
    )
    liars = draw_liars(7, 5, 1)
    assert metrics["kept"].shape == (5,) and state.server.kept == ()
    assert metrics["kept"][liars].max() < 0.01 < metrics["kept"][~liars].max()
    _, _, metrics = after_a_round(FLGAN, aggregate=aggregate, liars=1, lie="scaled", lie_scale=1e4)
    assert metrics["kept"][liars].max() < 0.01 < metrics["kept"][~liars].max()


def test_the_server_remembers_reputations():
    options = dict(aggregate="reputation", num_fake_batches=1, liars=1, lie="sign")
    (strategy, context), engine = make(MDGAN, **options), Stacked(5)
    state, liars = strategy.init(context, engine), draw_liars(7, 5, 1)
    for t in (1, 2, 3):
        state, metrics = strategy.round(context, engine, state, real(5, steps=4), t)
    assert torch.equal(metrics["reputation"], reputations(state.server.agreement))
    assert metrics["reputation"][liars].max() < 0 < metrics["reputation"][~liars].min()
    assert metrics["kept"][liars].max() == 0 < metrics["kept"][~liars].min()
    assert state.server.kept == ()


def test_reputations_start_again_after_workers_were_lost():
    (strategy, context), engine = make(MDGAN, aggregate="reputation"), Stacked(5)
    server = strategy.init(context, engine).server._replace(agreement=torch.full((6, 6), 0.5))
    assert torch.equal(strategy.start_counting(engine, server).agreement, torch.zeros(5, 5))
    server = server._replace(agreement=torch.full((5, 5), 0.5))
    assert torch.equal(strategy.start_counting(engine, server).agreement, server.agreement)


def test_reputations_need_a_server_that_remembers():
    with pytest.raises(UserError, match=r"needs the server of md-gan.*for instance median"):
        FLGAN(aggregate="reputation")


def test_the_mean_reports_nothing_and_saves_nothing():
    for kind in (MDGAN, FLGAN):
        _, state, metrics = after_a_round(kind, liars=1)
        assert "kept" not in metrics
        names = [name for name, _ in trees.named_leaves(state)]
        assert not any("kept" in name or "agreement" in name for name in names)


# FL-GAN


def weights_only(rows):
    return fl_gan_messages.Message({"generator": {"w": rows}}, {})


def lied(lie, **options):
    """Return the weights before a round, after honest training, and as they are sent."""
    (strategy, context), engine = make(FLGAN, liars=2, lie=lie, **options), Stacked(5)
    start = strategy.init(context, engine)
    trained, _ = strategy.train_pairs(context, engine, start.pairs, real(5), 1)
    before, honest = (strategy.message(context, pair) for pair in (start.pairs, trained))
    sent = strategy.falsify_weights(context, engine, honest, before, 1)
    name, liars = next(iter(start.generator.params)), draw_liars(7, 5, 2)
    return liars, *(message.weights["generator"][name] for message in (before, honest, sent))


def test_weights_of_liars():
    liars, before, honest, sent = lied("sign")
    assert torch.equal(sent[~liars], honest[~liars])
    assert torch.allclose(sent[liars], (2 * before - honest)[liars], atol=1e-6)
    _, before, honest, sent = lied("scaled")
    assert torch.allclose(sent[liars], (10 * honest - 9 * before)[liars], atol=1e-5)
    _, before, honest, sent = lied("noise")
    made_up, real_change = (sent - before)[liars], (honest - before)[liars]
    assert made_up.norm() == pytest.approx(float(real_change.norm()), rel=0.5)
    assert (made_up - real_change).norm() > 0.5 * made_up.norm()


def test_free_riders_send_what_they_received():
    """The mean of one trained member and a free-rider is half the change."""
    options = dict(steps_per_round=2)
    (honest, context), engine = make(FLGAN, **options), Stacked(2)
    start = honest.init(context, engine)
    trained, _ = honest.train_pairs(context, engine, start.pairs, real(2), 1)
    strategy, _ = make(FLGAN, liars=1, lie="constant", **options)
    state, _ = strategy.round(context, engine, start, real(2), 1)
    worker = int((~draw_liars(7, 2, 1)).nonzero())
    for name, leaf in state.generator.params.items():
        old, new = start.generator.params[name][0], trained.generator.params[name][worker]
        assert torch.allclose(leaf[0], (old + new) / 2, atol=1e-6), name
    assert state.generator.moments.steps.sum() == 2


def test_liars_lie_only_in_what_they_send():
    """Everybody continues from the aggregate, and local tensors stay as they are."""
    _, state, _ = after_a_round(FLGAN, liars=2, aggregate="median", steps_per_round=2)
    for part in (state.generator, state.discriminator):
        assert all(torch.equal(leaf[0], row) for leaf in part.params.values() for row in leaf)
    _, state, _ = after_a_round(FLGAN, liars=2, sync="generator")
    _, honest, _ = after_a_round(FLGAN, sync="generator")
    assert trees.equal(state.discriminator, honest.discriminator)


def test_the_median_of_weights_in_fl_gan():
    (strategy, context), engine = make(FLGAN, aggregate="median", ema=0.5), Metered(Stacked(3))
    start = strategy.init(context, engine)
    trained, _ = strategy.train_pairs(context, engine, start.pairs, real(3), 1)
    engine.reset()
    state, metrics = strategy.round(context, engine, start, real(3), 1)
    for name, leaf in state.generator.params.items():
        middle = trained.generator.params[name].median(0).values
        assert torch.allclose(leaf[1], middle, atol=1e-6), name
    row = trees.flatten_rows(strategy.message(context, state.pairs)).shape[1] * 4
    assert engine.bytes["gather", "up"] == 3 * row
    assert engine.bytes["scatter", "down"] == 3 * (row + 4)  # and how much was used
    assert torch.isfinite(metrics["kept"]).all()


def test_the_server_of_fl_gan_combines_changes_and_withstands_as_many_liars_as_set():
    before = weights_only(torch.full((5, 1), 10.0))
    sent = weights_only(10 + torch.tensor([0.0, 1.0, 2.0, 6.0, 90.0])[:, None])
    for withstand, change in ((0, 2.0), (1, 3.0), (2, 2.0)):
        strategy = FLGAN(aggregate="trimmed-mean", withstand=withstand)
        received, _ = strategy.combine(Stacked(5), sent, before, torch.ones(5))
        assert received.weights["generator"]["w"].flatten().tolist() == [10 + change] * 5


def test_inactive_members_are_absent():
    _, _, metrics = after_a_round(FLGAN, aggregate="median", fraction=0.6)
    assert (metrics["kept"] > 0).sum() == 3


# Settings


@pytest.mark.parametrize("kind", [MDGAN, FLGAN])
@pytest.mark.parametrize(
    ("settings", "size", "message"),
    [
        (dict(liars=-1), 5, "strategy.liars must be at least 0"),
        (dict(liars=5), 5, r"no honest member among 5 members: set it to 4 or less"),
        (dict(withstand=1), 5, r"withstand has no effect.*set strategy\.aggregate"),
        (dict(lie_scale=0.0), 5, "lie_scale must be a finite number above 0"),
        (dict(aggregate="krum"), 4, r"needs 5 messages to withstand 1 liar.*run\.members=5"),
        (dict(aggregate="median", withstand=2), 4, r"set strategy\.withstand=1"),
        (dict(aggregate="median"), 2, r"set run\.members=3"),
    ],
)
def test_wrong_settings(kind, settings, size, message):
    if kind is MDGAN:
        settings = settings | dict(num_fake_batches=1)
    with pytest.raises(UserError, match=message):
        kind(**settings).num_members(size, 10)


@pytest.mark.parametrize(
    ("settings", "size", "remedy", "changed"),
    [
        (dict(aggregate="krum"), 10, "set strategy.num_fake_batches=1", dict(num_fake_batches=1)),
        (
            dict(aggregate="median", withstand=4),
            10,
            "set strategy.num_fake_batches=1",
            dict(num_fake_batches=1),
        ),
        (
            dict(aggregate="median", withstand=9),
            10,
            "set strategy.withstand=1",
            dict(withstand=1),
        ),
    ],
)
def test_remedies_for_batches_with_few_workers_work(settings, size, remedy, changed):
    """With ten workers and three batches, three workers give feedback on a batch."""
    with pytest.raises(UserError, match=remedy):
        MDGAN(**settings).num_members(size, 10)
    assert MDGAN(**(settings | changed)).num_members(size, 10) == size
    for few in (3, 4):  # three workers have one batch, but five have two
        with pytest.raises(UserError, match=r"run\.members=5 and strategy\.num_fake_batches=1"):
            MDGAN(aggregate="krum").num_members(few, 10)
    assert MDGAN(aggregate="krum", num_fake_batches=1).num_members(5, 10) == 5


@pytest.mark.parametrize(
    ("settings", "workers", "remedy", "changed", "enough"),
    [
        (
            dict(aggregate="median", num_fake_batches=1),
            7,
            "strategy.discriminators=3",
            dict(discriminators=3),
            7,
        ),
        (
            dict(aggregate="krum"),
            3,
            "strategy.discriminators=5 and run.members=5 and strategy.num_fake_batches=1",
            dict(discriminators=5, num_fake_batches=1),
            5,
        ),
        (
            dict(num_fake_batches=3),
            7,
            "strategy.num_fake_batches=2, or strategy.discriminators=3",
            dict(discriminators=3),
            7,
        ),
    ],
)
def test_remedies_for_few_discriminators_work(settings, workers, remedy, changed, enough):
    """More workers do not help: only discriminators give feedback."""
    settings = settings | dict(discriminators=2)
    with pytest.raises(UserError, match=f"set {remedy}$"):
        MDGAN(**settings).num_members(workers, 10)
    assert MDGAN(**(settings | changed)).num_members(enough, 10) == changed["discriminators"]


def test_reputations_withstand_less_than_half():
    rule = dict(aggregate="reputation", num_fake_batches=1)
    with pytest.raises(UserError, match=r"set strategy\.withstand=1"):
        MDGAN(withstand=2, **rule).num_members(4, 10)
    assert MDGAN(withstand=2, **rule).num_members(5, 10) == 5


def test_the_remedy_for_few_active_members_works():
    with pytest.raises(UserError, match=r"compares only 2: set strategy\.fraction=1\.0"):
        FLGAN(aggregate="krum", fraction=0.2).num_members(10, 10)
    assert FLGAN(aggregate="krum", fraction=1.0).num_members(10, 10) == 10
    with pytest.raises(UserError, match=r"set run\.members=5 and strategy\.fraction=1\.0"):
        FLGAN(aggregate="krum", fraction=0.3).num_members(1, 10)
    assert FLGAN(aggregate="krum", fraction=1.0).num_members(5, 10) == 5


def test_forgiving_rules_need_the_mean():
    with pytest.raises(UserError, match=r"both decide which workers count: set strategy\.forgive"):
        MDGAN(forgive="f2u", aggregate="median")
    with pytest.raises(UserError, match="forgive_sharpness must be at least 0"):
        MDGAN(forgive="f2a", forgive_sharpness=-1.0)

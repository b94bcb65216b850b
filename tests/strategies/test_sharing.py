"""Members that share layers: equality with one pair, averages, families, and wrong settings."""

import pytest
import torch
from torch.overrides import TorchFunctionMode

from remuda.data.batches import Batch
from remuda.data.images import to_unit
from remuda.engines import Metered, Stacked
from remuda.errors import UserError
from remuda.gan.parts import merge, split
from remuda.networks import DCGAN, MLP, ResNet
from remuda.strategies import ClassParallel
from remuda.strategies.pairs import StepInputs
from remuda.strategies.sharing_settings import kinship
from remuda.tensors import trees

SHAPE, MEMBERS, STEPS, UPDATES, BATCH = (1, 8, 8), 3, 4, 2, 5
EVERYTHING = ("input", "body", "head")
MLPS = MLP(latent=4, hidden=8, conditional=True)


def make(networks=MLPS, **settings):
    settings = dict(batch_size=BATCH, discriminator_steps=UPDATES) | settings
    strategy = ClassParallel(**settings)
    return strategy, strategy.prepare(networks, SHAPE, MEMBERS, 3)


def batches(steps=STEPS):
    random = torch.Generator().manual_seed(0)
    size = MEMBERS, steps * UPDATES, BATCH
    images = torch.randint(0, 256, (*size, *SHAPE), dtype=torch.uint8, generator=random)
    return Batch(images, torch.arange(MEMBERS)[:, None, None].expand(size))


def train(strategy, context, engine=None, rounds=2, real=None):
    engine = engine or Stacked(MEMBERS)
    state = strategy.init(context, engine)
    for t in range(1, rounds + 1):
        state, metrics = strategy.round(context, engine, state, real or batches(), t)
    return state, metrics


def assert_close(a, b, tolerance=1e-5):
    left, right = dict(trees.named_leaves(a)), dict(trees.named_leaves(b))
    assert left.keys() == right.keys()
    for name in left:
        assert torch.allclose(left[name], right[name], atol=tolerance), name


@pytest.mark.parametrize(
    "settings",
    [
        dict(loss="hinge", r1=0.5),
        dict(loss="hinge", r1=0.5, penalty_every=BATCH),  # one image of each member's batch
        dict(loss="relativistic", r1=0.5, r2=0.2, penalty_every=BATCH, final_penalty=0.5),
    ],
    ids=str,
)
@pytest.mark.parametrize("layout", ["loop", "vmap"])
def test_with_everything_shared_the_members_are_one_conditional_pair(layout, settings):
    """Its batches contain the batches of all members."""
    schedule = dict(annealing="linear", annealing_rounds=3, final_lr=0.1, ema_images=50.0)
    shared = dict(shared_generator=EVERYTHING, shared_discriminator=EVERYTHING)
    strategy, context = make(**shared, **schedule, **settings)
    engine = Stacked(MEMBERS, layout=layout)
    state, metrics = train(strategy, context, engine)
    pair, real = strategy.first_pair(context), batches()
    for t in (1, 2):
        inputs = strategy.step_inputs(context, engine, real, t)
        for s in range(STEPS):
            now = trees.map(lambda leaf, s=s: leaf[:, s], inputs)
            pair, _ = strategy.train_pair(context, pair, joined(now))
    assert not trees.leaves(state.own.generator.params)
    assert_close(merge(state.common, trees.row(state.own, 0)), pair)
    assert metrics["generator_loss"].shape == (MEMBERS,)


def joined(now):
    """Join the batches of all members; the first 1/k of the images are the first 1/k of each."""
    # (members, updates, b, ...) -> (updates, b * members, ...)
    images, labels, noise = (
        leaf.movedim(0, 2).flatten(1, 2) for leaf in (now.images, now.labels, now.noise)
    )
    keys, scheduled = trees.row((now.keys, now.scheduled), 0)
    return StepInputs(images, labels, noise, keys, scheduled)


def test_a_shared_update_uses_the_mean_of_all_gradients_and_own_layers_their_own():
    """After one update from equal weights, compare with gradients of separate pairs."""
    settings = dict(discriminator_steps=1, loss="least-squares", generator_betas=(0.0, 0.9))
    settings |= dict(discriminator_betas=(0.0, 0.9))  # Adam's first moments are the gradients
    strategy, context = make(shared_discriminator=("input", "body"), **settings)
    gan, engine, real = context.gan, Stacked(MEMBERS), batches(1)
    real = trees.map(lambda leaf: leaf[:, :1], real)
    state, _ = strategy.round(context, engine, strategy.init(context, engine), real, 1)
    inputs = trees.map(lambda leaf: leaf[:, 0, 0], strategy.step_inputs(context, engine, real, 1))
    pair, found = strategy.first_pair(context), []
    for i in range(MEMBERS):
        labels, images = inputs.labels[i], to_unit(inputs.images[i])
        fakes, _, _ = gan.generate(pair.generator, inputs.noise[i], labels)
        gradients, _, _ = gan.discriminator_gradients(
            pair.discriminator, (images, labels), (fakes, labels), inputs.keys[i]
        )
        found.append(gradients)
    moments = state.common.discriminator.moments.first
    assert set(moments) == {f"layers.{i}.{part}" for i in (0, 2) for part in ("weight", "bias")}
    for name, mean in moments.items():
        expected = torch.stack([gradients[name] for gradients in found]).mean(0)
        assert torch.allclose(mean, expected, atol=1e-7), name
    for name, own in state.own.discriminator.moments.first.items():
        expected = torch.stack([gradients[name] for gradients in found])
        assert torch.allclose(own, expected, atol=1e-7), name


@pytest.mark.parametrize("every", [2, 3, 100])  # 3: the last average of a round comes early
def test_tensors_are_averaged_after_every_k_updates_and_at_the_end_of_a_round(every):
    networks = DCGAN(latent=4, width=8)
    shared = dict(shared_generator=("body",), shared_discriminator=("input", "body"))
    strategy, context = make(networks, share_every=every, ema=0.9, **shared)
    engine = Stacked(MEMBERS)
    state, metrics = train(strategy, context, engine, rounds=1)
    # The same with separate pairs and explicit means.
    first, names = strategy.first_pair(context), strategy.common_names(context)
    pairs = engine.create(lambda member: strategy.copy_pair(context, first, member))
    inputs = strategy.step_inputs(context, engine, batches(), 1)
    for start in range(0, STEPS, every):
        part = trees.map(lambda leaf, a=start: leaf[:, a : a + every], inputs)
        pairs, _ = strategy.train_steps(context, engine, pairs, part)
        common, own = split(pairs, names)
        common = trees.map(lambda leaf: leaf.mean(0, keepdim=True).expand_as(leaf), common)
        pairs = merge(common, own)
    assert_close(strategy.whole_pairs(engine, state), pairs)
    assert metrics["discriminator_loss"].shape == (MEMBERS,)


def test_the_bytes_of_an_update_are_those_of_the_shared_gradients():
    strategy, context = make(shared_generator=("head",))
    engine = Metered(Stacked(MEMBERS))
    state, _ = train(strategy, context, engine, rounds=1)
    shared = trees.num_bytes(state.common.generator.params)
    assert shared == 4 * (8 + 1) * 64  # the last layer has 8 inputs and 64 outputs
    assert engine.bytes["mean", "up"] == MEMBERS * STEPS * shared
    assert engine.bytes["mean", "down"] == engine.bytes["mean", "up"]


@pytest.mark.parametrize("every", [1, 2])
def test_families_share_more(every):
    strategy, context = make(
        ResNet(latent=4, width=4, discriminator_width=4),
        shared_generator=("body",), share_every=every, families=((0, 2),),
        family_generator=("normalisation",), family_discriminator=("head",),
        loss="hinge", lipschitz="spectral",
    )  # fmt: skip
    state, _ = train(strategy, context)
    heads = state.own.discriminator.params["network.output.weight"]
    norms = state.own.generator.buffers["norm.running_mean"]
    for rows in (heads, norms):
        assert torch.allclose(rows[0], rows[2]) and not torch.allclose(rows[0], rows[1])
    bodies = state.own.discriminator.params["network.blocks.1.conv1.weight"]
    assert not torch.allclose(bodies[0], bodies[2])


def test_kinship_is_one_within_a_family():
    strategy, _ = make(families=((0, 2),), family_generator=("head",))
    expected = [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    assert kinship(strategy.family_numbers(Stacked(MEMBERS))).tolist() == expected


def test_families_start_with_the_same_singular_vectors():
    """The signs of such vectors are arbitrary, so the mean of different ones could be 0."""
    strategy, context = make(
        families=((0, 2),), family_discriminator=("body",), lipschitz="spectral"
    )
    buffers = strategy.init(context, Stacked(MEMBERS)).own.discriminator.buffers
    shared, own = (buffers[f"left_layers_{i}_weight"] for i in (2, 0))
    assert torch.equal(shared[0], shared[2]) and not torch.equal(own[0], own[2])


def test_a_step_that_a_gpu_replays_copies_nothing_from_the_host():
    """CUDA refuses such copies while it captures a step."""

    class Refuse(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            assert func not in (torch.tensor, torch.as_tensor, torch.from_numpy), func
            return func(*args, **(kwargs or {}))

    class Captured(Stacked):
        def loop(self, *arguments, **settings):
            with Refuse():
                return super().loop(*arguments, **settings)

    strategy, context = make(families=((0, 2),), family_discriminator=("head",))
    train(strategy, context, Captured(MEMBERS, layout="vmap"), rounds=1)


def test_running_statistics_of_shared_norms_are_averaged():
    networks = DCGAN(latent=4, width=8)
    strategy, context = make(networks, shared_generator=("normalisation",))
    start = strategy.init(context, Stacked(MEMBERS))
    state, _ = train(strategy, context)
    name = "body.0.running_mean"
    assert name in state.common.generator.buffers and name not in state.own.generator.buffers
    before, after = (s.common.generator.buffers[name] for s in (start, state))
    assert not torch.equal(before, after)


def test_every_member_keeps_its_own_random_streams():
    strategy, context = make(DCGAN(latent=4, width=8), shared_discriminator=("body",))
    state = strategy.init(context, Stacked(MEMBERS))
    keys = state.own.discriminator.buffers["dropout.key"]
    assert len(set(keys.tolist())) == MEMBERS


def test_a_state_that_is_not_shared_stays_a_pair():
    strategy, context = make()
    assert type(strategy.init(context, Stacked(MEMBERS))).__name__ == "Pair"


@pytest.mark.parametrize(
    "settings, words",
    [
        (dict(shared_generator=("bdy",)), "did you mean body?"),
        (dict(shared_generator=("xyz",)), "known are input, body, normalisation, head"),
        (dict(share_every=0), "must be at least 1"),
        (dict(share_every=2), "share nothing"),
        (dict(families=((0, 1),)), "share no layers"),
        (dict(num_families=2), "share no layers"),
        (dict(family_generator=("head",)), "need families"),
        (dict(families=((),), family_generator=("head",)), "an empty family"),
        (
            dict(shared_generator=("body",), families=((0, 1),), family_generator=("body",)),
            "both contain body",
        ),
        (
            dict(families=((0, 1), (1, 2)), family_generator=("body",)),
            "member 1 in two families",
        ),
        (dict(shared_discriminator=("normalisation",)), "choose from input, body, head"),
    ],
)
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(UserError, match=words.replace("?", r"\?")):
        make(**settings)


def test_a_family_with_an_unknown_member_is_refused():
    strategy, context = make(families=((0, 7),), family_generator=("head",))
    with pytest.raises(UserError, match="remove 7 from"):
        strategy.num_members(3, 10)
    assert strategy.num_members(0, 8) == 8
    with pytest.raises(UserError, match="member 7"):
        train(strategy, context)

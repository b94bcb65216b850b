"""One step of a pair against the same step written out in plain PyTorch."""

import math

import pytest
import torch

from remuda.data import DataConfig
from remuda.data.datasets import load
from remuda.data.images import to_unit
from remuda.gan import GAN, LOSSES, Adam, Overrides
from remuda.gan.losses import class_loss, gradient_penalty
from remuda.gan.players import apply
from remuda.networks import ACGANMLP, DCGAN, MLP, ACGANMnist
from remuda.tensors import calculus, random, trees

LABELS = torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0]])
KEY = torch.tensor(11)
EPSILON = 1e-2  # Adam would blow the rounding of tiny gradients up to whole steps


def make(networks=None, loss="non-saturating", **options):
    return GAN(
        networks=networks or MLP(latent=5, hidden=8),
        shape=(1, 8, 8),
        num_classes=3,
        loss=LOSSES[loss],
        generator_optimizer=Adam(1e-2, 0.5, 0.999, EPSILON),
        discriminator_optimizer=Adam(2e-2, 0.3, 0.99, EPSILON),
        **options,
    )


def inputs(gan, num_steps):
    torch.manual_seed(1)
    real = torch.rand(num_steps, 4, 1, 8, 8) * 2 - 1
    return (
        real,
        LABELS[:num_steps],
        torch.randn(num_steps, 4, gan.networks.latent),
        KEY + torch.arange(num_steps),
    )


def split(gan, outputs, labels):
    """Return the outputs for real or fake, and half the classes' cross-entropy if there are any."""
    if not gan.networks.auxiliary:
        return outputs, 0.0
    return outputs[:, 0], 0.5 * torch.nn.functional.cross_entropy(outputs[:, 1:], labels)


def by_hand(gan, real, labels, noise, keys):
    """What GAN.step promises, with modules, backward() and torch.optim."""
    generator, discriminator = gan.build_networks(7)
    g_optimizer = torch.optim.Adam(generator.parameters(), 1e-2, (0.5, 0.999), EPSILON)
    d_optimizer = torch.optim.Adam(discriminator.parameters(), 2e-2, (0.3, 0.99), EPSILON)
    d_losses = []
    for k in range(len(real)):
        fakes = generator(noise[k], labels[k])
        d_optimizer.zero_grad()
        vectors = {n: b.clone() for n, b in discriminator.named_buffers() if "left_" in n}
        on_real, names_of_real = split(gan, discriminator(real[k], labels[k]), labels[k])
        # Both batches see the same weights: an update runs one power iteration.
        discriminator.load_state_dict(vectors, strict=False)
        on_fakes, names_of_fakes = split(gan, discriminator(fakes.detach(), labels[k]), labels[k])
        loss = (
            gan.loss.discriminator(on_real, on_fakes, gan.real_target)
            + names_of_real
            + names_of_fakes
        )
        for weight, images in ((gan.r1, real[k]), (gan.r2, fakes.detach())):
            if weight:
                some = images[: math.ceil(4 / gan.penalty_every)].clone().requires_grad_()
                names = labels[k][: len(some)]
                on_some, _ = split(gan, discriminator(some, names), names)
                (gradients,) = torch.autograd.grad(on_some.sum(), some, create_graph=True)
                loss = loss + weight / 2 * gradients.flatten(1).norm(dim=1).square().mean()
        if gan.lipschitz == "penalty":
            place = random.uniform(random.fold(keys[k], 0), (4, 1, 1, 1))
            between = (real[k] + place * (fakes.detach() - real[k])).requires_grad_()
            on_between, _ = split(gan, discriminator(between, labels[k]), labels[k])
            (gradients,) = torch.autograd.grad(on_between.sum(), between, create_graph=True)
            loss = loss + gan.penalty * gradient_penalty(gradients)
        loss.backward()
        d_optimizer.step()
        if gan.lipschitz == "clip":
            with torch.no_grad():
                for param in discriminator.parameters():
                    param.clamp_(-gan.clip, gan.clip)
        d_losses.append(loss.item())
    g_optimizer.zero_grad()
    opponents = []
    if gan.loss.pairs:
        opponents = [split(gan, discriminator(real[-1], labels[-1]), labels[-1])[0].detach()]
    source, names = split(gan, discriminator(fakes, labels[-1]), labels[-1])
    g_loss = gan.loss.generator(source, *opponents) + names
    g_loss.backward()
    g_optimizer.step()
    return generator, discriminator, sum(d_losses) / len(d_losses), g_loss.item()


CASES = [
    dict(),
    dict(networks=DCGAN(width=8, latent=5)),
    dict(networks=DCGAN(width=8, latent=5, conditional=True)),
    dict(networks=MLP(latent=5, hidden=8, conditional=True), loss="least-squares", real_target=0.9),
    dict(loss="wasserstein", lipschitz="clip"),
    dict(loss="wasserstein", lipschitz="penalty"),
    dict(networks=DCGAN(width=8, latent=5, dropout=0.0), loss="wasserstein", lipschitz="penalty"),
    dict(loss="hinge", lipschitz="spectral"),
    dict(networks=DCGAN(width=8, latent=5), loss="minimax", lipschitz="spectral"),
    dict(networks=ACGANMLP(latent=5, hidden=8)),
    dict(networks=ACGANMLP(latent=5, hidden=8), loss="wasserstein", lipschitz="penalty"),
    dict(
        networks=ACGANMLP(latent=5, hidden=8), loss="minimax", lipschitz="spectral", real_target=0.9
    ),
    dict(networks=ACGANMnist(latent=5)),
    dict(
        networks=ACGANMnist(latent=5, minibatch_kernels=3, minibatch_dims=2, batch_norm="both"),
        loss="hinge",
    ),
    dict(loss="relativistic", r1=0.5, r2=0.25),
    dict(networks=DCGAN(width=8, latent=5), loss="relativistic"),
    dict(networks=DCGAN(width=8, latent=5, dropout=0.0, conditional=True), r1=0.5, penalty_every=3),
    dict(networks=ACGANMLP(latent=5, hidden=8), loss="relativistic", r2=0.5, penalty_every=2),
    dict(networks=DCGAN(width=8, latent=5), loss="hinge", lipschitz="spectral-both"),
]


@pytest.mark.parametrize("num_steps", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_step_equals_plain_pytorch(case, num_steps):
    gan = make(**case)
    arguments = inputs(gan, num_steps)
    pair, losses = gan.step(gan.init(7), *arguments)
    generator, discriminator, d_loss, g_loss = by_hand(gan, *arguments)
    assert losses["discriminator_loss"].item() == pytest.approx(d_loss, rel=1e-4)
    assert losses["generator_loss"].item() == pytest.approx(g_loss, rel=1e-4)
    for module, player in ((generator, pair.generator), (discriminator, pair.discriminator)):
        for name, param in module.named_parameters():
            assert torch.allclose(param, player.params[name], atol=2e-5), name
        # With penalties, the modules' statistics have seen the images of the penalties as well.
        if not gan.objective.has_penalties:
            for name, buffer in module.named_buffers():
                assert torch.allclose(buffer, player.buffers[name], atol=1e-5), name


@pytest.mark.parametrize("case", CASES)
def test_step_is_the_same_under_vmap(case):
    gan = make(**case, ema=0.9)
    pairs = trees.stack([gan.init(7), gan.init(8)])
    arguments = [torch.stack([x, x.flip(0)]) for x in inputs(gan, 2)]
    together, _ = torch.func.vmap(gan.step)(pairs, *arguments)
    for i in range(2):
        single, _ = gan.step(trees.row(pairs, i), *trees.row(tuple(arguments), i))
        for (name, a), (_, b) in zip(
            trees.named_leaves(trees.row(together, i)), trees.named_leaves(single), strict=True
        ):
            assert torch.allclose(a.double(), b.double(), atol=2e-4), name


def test_step_leaves_its_arguments_alone():
    gan = make(DCGAN(width=8, latent=5), ema=0.5)
    pair = gan.init(7)
    before = trees.map(torch.clone, pair)
    gan.step(pair, *inputs(gan, 1))
    assert trees.equal(pair, before)


def test_feedback_equals_the_gradient_end_to_end():
    gan = make()
    generator, discriminator, _ = gan.init(7)
    _, labels, noise, _ = inputs(gan, 1)
    fakes, _, pull = gan.generate(generator, noise[0], labels[0])
    _, feedback, _ = gan.feedback(discriminator, fakes, labels[0])
    through_images = pull(feedback)
    g_module, d_module = gan.build_networks(7)
    gan.loss.generator(d_module(g_module(noise[0], labels[0]), labels[0])).backward()
    for name, param in g_module.named_parameters():
        assert torch.allclose(param.grad, through_images[name], atol=1e-7), name


def test_fakes_may_have_labels_of_their_own():
    gan = make(ACGANMLP(latent=5, hidden=8))
    start = gan.init(7).discriminator
    real, labels, noise, _ = inputs(gan, 2)
    fakes, _, _ = gan.generate(gan.init(7).generator, noise[0], labels[1])
    _, value = gan.update_discriminator(start, real[0], fakes, labels[0], KEY, labels[1])
    module = gan.build_networks(7)[1]
    (on_real, of_real), (on_fakes, of_fakes) = (
        split(gan, module(images, None), own)
        for images, own in ((real[0], labels[0]), (fakes, labels[1]))
    )
    expected = gan.loss.discriminator(on_real, on_fakes, 1.0) + of_real + of_fakes
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    assert value.item() != pytest.approx(
        gan.update_discriminator(start, real[0], fakes, labels[0], KEY)[1].item(), rel=1e-4
    )


@pytest.mark.parametrize("part", ["update_discriminator", "feedback"])
def test_a_compiler_takes_pairs_and_penalties_as_one_graph(part):
    options = dict(r1=0.5, r2=0.25, penalty_every=3, shift=0.25)
    gan = make(MLP(latent=5, hidden=8), "relativistic", **options)
    players = trees.stack([gan.init(7), gan.init(8)]).discriminator
    real, labels, _, keys = (torch.stack([x, x]) for x in inputs(gan, 2))
    batches = real[:, 0], real[:, 1], labels[:, 0]

    def run(player, real, fakes, labels, key):
        if part == "feedback":
            return gan.feedback(player, fakes, labels, real=(real, labels))
        return gan.update_discriminator(player, real, fakes, labels, key)

    expected = torch.func.vmap(run)(players, *batches, keys[:, 0])
    compiled = torch.compile(calculus.stacked(run), fullgraph=True, backend="aot_eager")
    found = compiled(players, *batches, keys[:, 0])
    for (name, a), (_, b) in zip(*map(trees.named_leaves, (expected, found)), strict=True):
        assert torch.allclose(a.double(), b.double(), atol=1e-5), name


@pytest.mark.parametrize("part", ["update_discriminator", "feedback"])
def test_a_compiler_takes_an_acgan_as_one_graph(part):
    """The compiler's last stage is left out: it takes minutes on a CPU."""
    gan = make(ACGANMnist(latent=5) if part == "feedback" else ACGANMLP(latent=5, hidden=8))
    players = trees.stack([gan.init(7), gan.init(8)]).discriminator
    real, labels, _, keys = (torch.stack([x, x]) for x in inputs(gan, 2))
    arguments = (players, real[:, 0], labels[:, 0])
    if part == "update_discriminator":
        arguments = (players, real[:, 0], real[:, 1], labels[:, 0], keys[:, 0], labels[:, 1])
    expected = torch.func.vmap(getattr(gan, part))(*arguments)
    compiled = torch.compile(
        calculus.stacked(getattr(gan, part)), fullgraph=True, backend="aot_eager"
    )
    for (name, a), (_, b) in zip(
        trees.named_leaves(expected), trees.named_leaves(compiled(*arguments)), strict=True
    ):
        assert torch.allclose(a.double(), b.double(), atol=1e-5), name


def test_an_acgan_learns_its_classes():
    data = load(DataConfig(name="digits"))
    gan = GAN(
        networks=ACGANMLP(hidden=128),
        shape=data.shape,
        num_classes=10,
        loss=LOSSES["non-saturating"],
        generator_optimizer=Adam(1e-3, 0.5, 0.999),
        discriminator_optimizer=Adam(1e-3, 0.5, 0.999),
    )
    pair = gan.init(7)

    def mistakes(pair):
        outputs, _ = apply(
            gan.discriminator, pair.discriminator.params, {}, to_unit(data.images), data.labels
        )
        fakes = gan.sample(pair, torch.randn(200, 100), torch.arange(200) % 10)
        on_fakes, _ = apply(gan.discriminator, pair.discriminator.params, {}, fakes, data.labels)
        return class_loss(outputs[:, 1:], data.labels), class_loss(
            on_fakes[:, 1:], torch.arange(200) % 10
        )

    torch.manual_seed(1)
    before = mistakes(pair)
    for step in range(200):
        chosen = torch.randint(len(data.labels), (1, 50))
        batch = to_unit(data.images[chosen[0]])[None], data.labels[chosen]
        pair, losses = gan.step(pair, *batch, torch.randn(1, 50, 100), KEY[None] + step)
        assert all(value.isfinite() for value in losses.values())
    after = mistakes(pair)
    assert after[0] < 0.2 * before[0] and after[1] < 0.5 * before[1], (before, after)


def test_moving_average_by_hand_and_in_samples():
    gan = make(ema=0.75)
    start = gan.init(7)
    pair, _ = gan.step(start, *inputs(gan, 1))
    for name, average in pair.average.items():
        expected = 0.75 * start.generator.params[name] + 0.25 * pair.generator.params[name]
        assert torch.allclose(average, expected, atol=1e-6)
    noise, labels = torch.randn(2, 5), torch.zeros(2, dtype=torch.int64)
    averaged = pair._replace(generator=pair.generator._replace(params=pair.average), average={})
    assert torch.equal(gan.sample(pair, noise, labels), gan.sample(averaged, noise, labels))
    assert not torch.equal(
        gan.sample(pair, noise, labels), gan.sample(pair._replace(average={}), noise, labels)
    )


def test_samples_come_from_the_generator_in_evaluation_mode():
    """An image does not depend on the others of its batch."""
    gan = make(DCGAN(latent=5, width=8))
    pair, noise, labels = gan.init(0), torch.randn(3, 5), LABELS[0, :3]
    alone = gan.sample(pair, noise[:1], labels[:1])
    torch.testing.assert_close(gan.sample(pair, noise, labels)[:1], alone)
    assert not torch.allclose(gan.generate(pair.generator, noise, labels)[0][:1], alone, atol=0.01)


def test_scheduled_values_replace_the_settings():
    """A step with overrides equals the step of a GAN with these settings."""
    gan = make(loss="wasserstein", lipschitz="penalty", penalty=4.0, ema=0.5)
    expected = make(loss="wasserstein", lipschitz="penalty", penalty=1.0, ema=0.9)
    expected.generator_optimizer = Adam(5e-3, 0.1, 0.6, EPSILON)
    expected.discriminator_optimizer = Adam(1e-2, 0.2, 0.7, EPSILON)
    overrides = Overrides(
        lr_factor=torch.tensor(0.5),
        generator_betas=torch.tensor([0.1, 0.6]),
        discriminator_betas=torch.tensor([0.2, 0.7]),
        penalty_factor=torch.tensor(0.25),
        ema_weight=torch.tensor(0.1),
    )
    ends = [
        gan.step(gan.init(7), *inputs(gan, 2), overrides),
        expected.step(expected.init(7), *inputs(gan, 2)),
    ]
    for (name, one), (_, other) in zip(*map(trees.named_leaves, ends), strict=True):
        assert torch.allclose(one, other, atol=1e-6), name


def test_a_factor_scales_a_pairs_own_learning_rate():
    gan = make()
    own = Overrides(generator_lr=torch.tensor(0.3), discriminator_lr=torch.tensor(0.2))
    half = Overrides(torch.tensor(0.6), torch.tensor(0.4), lr_factor=torch.tensor(0.5))
    ends = [gan.step(gan.init(7), *inputs(gan, 1), overrides) for overrides in (own, half)]
    assert trees.equal(*ends)


def test_weights_are_a_function_of_the_key():
    gan = make(DCGAN(width=8, latent=5))
    assert trees.equal(gan.init(7), gan.init(7))
    assert not trees.equal(gan.init(7).generator.params, gan.init(8).generator.params)

"""One step of a pair against the same step written out in plain PyTorch."""

import pytest
import torch

from remuda import seeds, trees
from remuda.gan import GAN, LOSSES, Adam
from remuda.gan.losses import gradient_penalty
from remuda.networks import DCGAN, MLP

LABELS = torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0]])
KEY = torch.tensor(11)
EPSILON = 1e-2  # Adam would blow the rounding of tiny slopes up to whole steps


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
    return real, LABELS[:num_steps], torch.randn(num_steps, 4, gan.networks.latent), KEY + torch.arange(num_steps)


def by_hand(gan, real, labels, noise, keys):
    """What GAN.step promises, with modules, backward() and torch.optim."""
    generator, discriminator = gan._build(7)
    g_optimizer = torch.optim.Adam(generator.parameters(), 1e-2, (0.5, 0.999), EPSILON)
    d_optimizer = torch.optim.Adam(discriminator.parameters(), 2e-2, (0.3, 0.99), EPSILON)
    d_losses = []
    for k in range(len(real)):
        fakes = generator(noise[k], labels[k])
        d_optimizer.zero_grad()
        on_real, on_fakes = discriminator(real[k], labels[k]), discriminator(fakes.detach(), labels[k])
        loss = gan.loss.discriminator(on_real, on_fakes, gan.real_target)
        if gan.lipschitz == "penalty":
            place = seeds.uniform(seeds.fold(keys[k], 0), (4, 1, 1, 1))
            between = (real[k] + place * (fakes.detach() - real[k])).requires_grad_()
            (slopes,) = torch.autograd.grad(discriminator(between, labels[k]).sum(), between, create_graph=True)
            loss = loss + gan.penalty * gradient_penalty(slopes)
        loss.backward()
        d_optimizer.step()
        if gan.lipschitz == "clip":
            with torch.no_grad():
                for param in discriminator.parameters():
                    param.clamp_(-gan.clip, gan.clip)
        d_losses.append(loss.item())
    g_optimizer.zero_grad()
    g_loss = gan.loss.generator(discriminator(fakes, labels[-1]))
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
        if gan.lipschitz != "penalty":  # there the modules' statistics have seen the points in between as well
            for name, buffer in module.named_buffers():
                assert torch.allclose(buffer, player.buffers[name], atol=1e-5), name


@pytest.mark.parametrize("case", CASES)
def test_step_is_the_same_under_vmap(case):
    gan = make(**case, ema=0.9)
    pairs = trees.stack([gan.init(7), gan.init(8)])
    arguments = [torch.stack([x, x.flip(0)]) for x in inputs(gan, 2)]
    together, _ = torch.func.vmap(gan.step)(pairs, *arguments)
    for i in range(2):
        alone, _ = gan.step(trees.row(pairs, i), *trees.row(tuple(arguments), i))
        for (name, a), (_, b) in zip(
            trees.named_leaves(trees.row(together, i)), trees.named_leaves(alone), strict=True
        ):
            assert torch.allclose(a.double(), b.double(), atol=2e-4), name


def test_step_leaves_its_arguments_alone():
    gan = make(DCGAN(width=8, latent=5), ema=0.5)
    pair = gan.init(7)
    before = trees.map(torch.clone, pair)
    gan.step(pair, *inputs(gan, 1))
    assert trees.equal(pair, before)


def test_feedback_equals_the_slope_end_to_end():
    gan = make()
    generator, discriminator, _ = gan.init(7)
    _, labels, noise, _ = inputs(gan, 1)
    fakes, _, pull = gan.imagine(generator, noise[0], labels[0])
    _, feedback, _ = gan.judge(discriminator, fakes, labels[0])
    through_images = pull(feedback)
    g_module, d_module = gan._build(7)
    gan.loss.generator(d_module(g_module(noise[0], labels[0]), labels[0])).backward()
    for name, param in g_module.named_parameters():
        assert torch.allclose(param.grad, through_images[name], atol=1e-7), name


def test_moving_average_by_hand_and_in_samples():
    gan = make(ema=0.75)
    start = gan.init(7)
    pair, _ = gan.step(start, *inputs(gan, 1))
    for name, average in pair.average.items():
        expected = 0.75 * start.generator.params[name] + 0.25 * pair.generator.params[name]
        assert torch.allclose(average, expected, atol=1e-6)
    noise, labels = torch.randn(2, 5), torch.zeros(2, dtype=torch.int64)
    averaged = pair._replace(generator=pair.generator._replace(params=pair.average), average={})
    assert torch.equal(gan.generate(pair, noise, labels), gan.generate(averaged, noise, labels))
    assert not torch.equal(gan.generate(pair, noise, labels), gan.generate(pair._replace(average={}), noise, labels))


def test_weights_are_a_function_of_the_key():
    gan = make(DCGAN(width=8, latent=5))
    assert trees.equal(gan.init(7), gan.init(7))
    assert not trees.equal(gan.init(7).generator.params, gan.init(8).generator.params)

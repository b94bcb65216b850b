"""Measure an iteration of MD-GAN and an update of FL-GAN and class-parallel, in milliseconds.

    python benchmarks/iteration.py [--networks acgan-mlp] [--shape 1 28 28] [--members 10]
                                   [--batch 10] [--steps 200] [--rounds 5] [--eager]
                                   [--strategies md-gan fl-gan class-parallel]

The strategies alternate in one process. An iteration of MD-GAN updates the server's generator and
all discriminators once. Images are random, because the time does not depend on them. With the
defaults, expect 0.37 to 0.42 ms on an H200.

The floor is the time of the arithmetic: 2 operations per multiplication, at the 790 T/s measured on
an H200. It counts three passes through the generator for each batch: one forward, one backward to
the data and one backward to the weights. MD-GAN needs a fourth, because it generates its k batches
twice. Each discriminator counts with eight passes.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import Module

from remuda.data.batches import Batches
from remuda.data.datasets import Dataset
from remuda.engines import Metered, Stacked
from remuda.gan import GAN
from remuda.networks import NETWORKS
from remuda.strategies import STRATEGIES, Strategy

FLOPS = 790e12  # operations per second
IMAGES = 1000  # per member


def multiplications(module: Module, *inputs: Tensor) -> int:
    """Count the multiplications of a forward pass.

    A dense layer uses each weight once per image, a convolution once per pixel of its output, and
    a transposed convolution once per pixel of its input.
    """
    total = 0

    def count(layer: Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        nonlocal total
        if isinstance(layer, torch.nn.ConvTranspose2d):
            total += given[0].numel() * layer.weight[0].numel()
        elif isinstance(layer, torch.nn.Conv2d):
            total += out.numel() * layer.weight[0].numel()
        elif isinstance(layer, torch.nn.Linear):
            total += out.numel() * layer.in_features

    hooks = [layer.register_forward_hook(count) for layer in module.modules()]
    module(*inputs)
    for hook in hooks:
        hook.remove()
    return total


def floor(strategy: Strategy, gan: GAN, members: int, batch: int) -> float:
    """Return the minimum milliseconds for the arithmetic of an update."""
    labels = torch.zeros(batch, dtype=torch.int64)
    noise, images = torch.zeros(batch, gan.networks.latent), torch.zeros(batch, *gan.shape)
    generator = multiplications(gan.generator, noise, labels)
    discriminator = multiplications(gan.discriminator, images, labels)
    num_batches = getattr(strategy, "num_batches", None)
    generated = 4 * num_batches(members) if num_batches else 3 * members
    products = generated * generator + 8 * members * discriminator
    return 2 * products / FLOPS * 1e3


def prepare(
    name: str, options: argparse.Namespace, device: str
) -> tuple[Callable[[int], None], float]:
    """Return a function that trains one round, and the floor of an update in milliseconds."""
    shape, members = tuple(options.shape), options.members
    strategy = STRATEGIES[name](batch_size=options.batch, steps_per_round=options.steps)
    context = strategy.prepare(NETWORKS[options.networks](), shape, 10, seed=0)
    compiled = device == "cuda" and not options.eager
    engine = Metered(Stacked(members, device, compile=compiled))
    images = torch.randint(0, 256, (members * IMAGES, *shape), dtype=torch.uint8)
    labels = torch.arange(members * IMAGES) % 10
    data = Dataset("noise", images, labels, tuple(map(str, range(10))))
    shares = list(torch.arange(members * IMAGES).reshape(members, IMAGES))
    batches = Batches(
        data, shares, members=engine.members, batch_size=options.batch, seed=0, device=device
    )
    state = strategy.init(context, engine)

    def train(t: int) -> None:
        nonlocal state
        real = batches.draw((t - 1) * options.steps, options.steps)
        state, losses = strategy.round(context, engine, state, real, t)
        assert all(values.isfinite().all() for values in losses.values())

    return train, floor(strategy, context.gan, members, options.batch)


def main() -> None:
    """Time the strategies in turn, and print the best time per update and its floor."""
    names = ["md-gan", "fl-gan", "class-parallel"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", default="acgan-mlp", choices=NETWORKS)
    parser.add_argument("--shape", type=int, nargs=3, default=[1, 28, 28])
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--strategies", nargs="+", default=names, choices=STRATEGIES)
    parser.add_argument("--eager", action="store_true")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    prepared = {name: prepare(name, options, device) for name in options.strategies}
    times: dict[str, list[float]] = {name: [] for name in prepared}
    for t in range(1, options.rounds + 2):
        for name, (train, _) in prepared.items():
            started = time.perf_counter()
            train(t)
            if t > 1:  # the first round compiles
                times[name].append(time.perf_counter() - started)
    for name, (_, least) in prepared.items():
        best = min(times[name]) / options.steps * 1e3
        print(
            f"{name}, {options.networks}, {options.members} members, batch {options.batch}: "
            f"{best:.3f} ms per update; floor of the arithmetic {least:.4f} ms"
        )


if __name__ == "__main__":
    main()

"""One iteration of MD-GAN, and one update of FL-GAN beside class-parallel's: milliseconds, alternating in one run.

    python benchmarks/iteration.py [--networks acgan-mlp] [--shape 1 28 28] [--members 10] [--batch 10]
                                   [--steps 200] [--rounds 5] [--strategies md-gan fl-gan class-parallel] [--eager]

An iteration of MD-GAN is one update of the server's generator and of all discriminators. Images are random, the time
does not depend on them. The arithmetic's floor is 2 operations a multiplication at the H200's measured 790 T/s: three
passes (forwards, and back to data and to weights) through the generator for k batches, which is made twice, and eight
through each discriminator.
"""

import argparse
import time

import torch

from remuda.data.batches import Batches
from remuda.data.datasets import Dataset
from remuda.engines import Metered, Stacked
from remuda.networks import NETWORKS
from remuda.strategies import STRATEGIES

FLOPS = 790e12


def multiplications(module, *inputs) -> int:
    """Of a forward pass: every weight of a dense layer once an image, of a convolution once a pixel put out or in."""
    total = 0

    def count(layer, given, out):
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


def floor(strategy, gan, shape, members, batch) -> float:
    """Milliseconds that the arithmetic of an update takes at least."""
    labels = torch.zeros(batch, dtype=torch.int64)
    generator = multiplications(gan.generator, torch.zeros(batch, gan.networks.latent), labels)
    discriminator = multiplications(gan.discriminator, torch.zeros(batch, *shape), labels)
    num_batches = getattr(strategy, "num_batches", None)
    made = 4 * num_batches(members) * generator if num_batches else 3 * members * generator
    return 2 * (made + 8 * members * discriminator) / FLOPS * 1e3


def prepare(name, options, device):
    """A function that trains one round, and the floor of an update."""
    shape, members = tuple(options.shape), options.members
    strategy = STRATEGIES[name](batch_size=options.batch, steps_per_round=options.steps)
    context = strategy.prepare(NETWORKS[options.networks](), shape, 10, seed=0)
    compiled = device == "cuda" and not options.eager
    engine = Metered(Stacked(members, device, compile=compiled))
    count = 1000
    images = torch.randint(0, 256, (members * count, *shape), dtype=torch.uint8)
    data = Dataset("noise", images, torch.arange(members * count) % 10, tuple(map(str, range(10))))
    shares = list(torch.arange(members * count).reshape(members, count))
    batches = Batches(
        data, shares, members=engine.members, batch_size=options.batch, seed=0, device=device
    )
    state = strategy.init(context, engine)

    def train(t: int) -> None:
        nonlocal state
        state, losses = strategy.round(
            context, engine, state, batches.draw((t - 1) * options.steps, options.steps), t
        )
        assert all(values.isfinite().all() for values in losses.values())

    return train, floor(strategy, context.gan, shape, members, options.batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", default="acgan-mlp", choices=NETWORKS)
    parser.add_argument("--shape", type=int, nargs=3, default=[1, 28, 28])
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--strategies",
        nargs="+",
        default=["md-gan", "fl-gan", "class-parallel"],
        choices=STRATEGIES,
    )
    parser.add_argument("--eager", action="store_true")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    prepared = {name: prepare(name, options, device) for name in options.strategies}
    times: dict[str, list[float]] = {name: [] for name in prepared}
    for t in range(1, options.rounds + 2):
        for name, (train, _) in prepared.items():
            began = time.perf_counter()
            train(t)
            if t > 1:  # the first one compiles
                times[name].append(time.perf_counter() - began)
    for name, (_, least) in prepared.items():
        best = min(times[name]) / options.steps * 1e3
        print(
            f"{name}, {options.networks}, {options.members} members, batch {options.batch}: {best:.3f} ms an update; "
            f"floor of the arithmetic {least:.4f} ms"
        )


if __name__ == "__main__":
    main()

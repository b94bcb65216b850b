"""Cells on a CPU beside a bare PyTorch loop that makes the same updates: cell-minibatches a second, alternating.

    python benchmarks/cellular.py [--height 2] [--width 2] [--batch 100] [--batches 600] [--rounds 5]

Networks are the paper's perceptrons, a round is its iteration of 600 batches, and a discriminator learns from every
second of these. The bare loop holds one pair a cell with torch.optim.Adam, images in memory, and nothing else: no
selection, no exchange, no mixture, no record. The round has all of these. Images are random; the
time does not depend on them.
"""

import argparse
import time

import torch
from torch.nn.functional import softplus

from remuda.data.batches import Batches
from remuda.data.datasets import Dataset
from remuda.engines import Stacked
from remuda.networks import MLP
from remuda.strategies import Cellular

SHAPE = (1, 28, 28)


def bare_loop(images: torch.Tensor, cells: int, batch: int):
    """A function that trains every cell's pair over so many batches."""
    networks = MLP()
    pairs = []
    for cell in range(cells):
        torch.manual_seed(cell)
        generator, discriminator = networks.generator(SHAPE, 10), networks.discriminator(SHAPE, 10)
        players = [
            (net, torch.optim.Adam(net.parameters(), 2e-4, (0.5, 0.999)))
            for net in (generator, discriminator)
        ]
        pairs.append(players)
    labels = torch.zeros(batch, dtype=torch.int64)

    def train(num_batches: int) -> None:
        for (generator, g_optimizer), (discriminator, d_optimizer) in pairs:
            for n in range(num_batches):
                index = torch.randint(0, len(images), (batch,))
                fakes = generator(torch.randn(batch, 64), labels)
                if n % 2 == 0:
                    real = images[index].float() / 127.5 - 1
                    on_fakes = discriminator(fakes.detach(), labels)
                    loss = 0.5 * (
                        softplus(-discriminator(real, labels)).mean() + softplus(on_fakes).mean()
                    )
                    d_optimizer.zero_grad()
                    loss.backward()
                    d_optimizer.step()
                g_optimizer.zero_grad()
                (0.5 * softplus(-discriminator(fakes, labels)).mean()).backward()
                g_optimizer.step()

    return train


def cellular(dataset: Dataset, options: argparse.Namespace):
    """A function that trains one whole round."""
    strategy = Cellular(
        height=options.height, width=options.width, batch_size=options.batch, skip_discriminator=1
    )
    context = strategy.prepare(MLP(), SHAPE, 10, seed=0)
    size = options.height * options.width
    engine = Stacked(size)
    shares = [torch.arange(len(dataset.images))] * size
    batches = Batches(dataset, shares, members=engine.members, batch_size=options.batch, seed=0)
    state = strategy.init(context, engine)
    t = 0

    def train(num_batches: int) -> None:
        nonlocal state, t
        t += 1
        state, losses = strategy.round(
            context, engine, state, batches.draw((t - 1) * num_batches, num_batches), t
        )
        assert all(values.isfinite().all() for values in losses.values())

    return train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in {
        "height": 2,
        "width": 2,
        "batch": 100,
        "batches": 600,
        "rounds": 5,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    images = torch.randint(0, 256, (20_000, *SHAPE), dtype=torch.uint8)
    dataset = Dataset("noise", images, torch.arange(20_000) % 10, tuple(map(str, range(10))))
    cells = options.height * options.width
    contenders = {
        "bare loop": bare_loop(images, cells, options.batch),
        "remuda": cellular(dataset, options),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(options.rounds + 1):
        for name, train in contenders.items():
            began = time.perf_counter()
            train(options.batches)
            if turn:  # the first is for warming up
                seconds[name].append(time.perf_counter() - began)
    for name, values in seconds.items():
        print(
            f"{name}: {cells * options.batches / min(values):.0f} cell-minibatches a second (best of {len(values)})"
        )
    ratios = sorted(bare / ours for bare, ours in zip(*seconds.values(), strict=True))
    best = min(seconds["bare loop"]) / min(seconds["remuda"])
    print(
        f"remuda over bare loop: {best:.2f} (best), {ratios[len(ratios) // 2]:.2f} (median); aim 0.95"
    )


if __name__ == "__main__":
    main()

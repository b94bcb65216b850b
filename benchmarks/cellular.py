"""Compare the speed of a cellular round on a CPU with a bare PyTorch loop.

    python benchmarks/cellular.py [--height 2] [--width 2] [--batch 100] [--batches 600]
                                  [--rounds 5]

Both loops make the same updates of the paper's perceptrons, and they alternate in one process. A
round is the paper's iteration of 600 batches. Discriminators learn from every second batch. The
bare loop trains one pair per cell with torch.optim.Adam on images in memory. It has no selection,
exchange, mixture or record; a round of remuda has everything except the record. Images are random,
because the time does not depend on them.

The script prints the cell-minibatches per second of both loops, and remuda's speed divided by the
bare loop's. Expect a ratio of about 0.98; the goal is at least 0.95.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch.nn.functional import softplus

from remuda.data.batches import Batches
from remuda.data.datasets import Dataset
from remuda.engines import Stacked
from remuda.networks import MLP
from remuda.strategies import Cellular

SHAPE = (1, 28, 28)  # channels, height, width


def bare_loop(images: torch.Tensor, cells: int, batch: int) -> Callable[[int], None]:
    """Return a function that trains each cell's pair on a given number of batches."""
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
                    on_real = softplus(-discriminator(real, labels)).mean()
                    on_fakes = softplus(discriminator(fakes.detach(), labels)).mean()
                    d_optimizer.zero_grad()
                    (0.5 * (on_real + on_fakes)).backward()
                    d_optimizer.step()
                g_optimizer.zero_grad()
                (0.5 * softplus(-discriminator(fakes, labels)).mean()).backward()
                g_optimizer.step()

    return train


def remuda_loop(dataset: Dataset, options: argparse.Namespace) -> Callable[[int], None]:
    """Return a function that trains one complete round of the cellular strategy."""
    strategy = Cellular(
        height=options.height, width=options.width, batch_size=options.batch, skip_discriminator=1
    )
    context = strategy.prepare(MLP(), SHAPE, 10, seed=0)
    size = options.height * options.width
    engine = Stacked(size)
    shares = [torch.arange(len(dataset.images))] * size
    batches = Batches(dataset, shares, members=engine.members, batch_size=options.batch, seed=0)
    state, t = strategy.init(context, engine), 0

    def train(num_batches: int) -> None:
        nonlocal state, t
        real = batches.draw(t * num_batches, num_batches)
        t += 1
        state, losses = strategy.round(context, engine, state, real, t)
        assert all(values.isfinite().all() for values in losses.values())

    return train


def main() -> None:
    """Time both loops and print their speeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    defaults = {"height": 2, "width": 2, "batch": 100, "batches": 600, "rounds": 5}
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    images = torch.randint(0, 256, (20_000, *SHAPE), dtype=torch.uint8)
    dataset = Dataset("noise", images, torch.arange(20_000) % 10, tuple(map(str, range(10))))
    cells = options.height * options.width
    loops = {
        "bare loop": bare_loop(images, cells, options.batch),
        "remuda": remuda_loop(dataset, options),
    }
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(options.rounds + 1):
        for name, train in loops.items():
            started = time.perf_counter()
            train(options.batches)
            if turn:  # the first turn warms up
                seconds[name].append(time.perf_counter() - started)
    for name, values in seconds.items():
        pace = cells * options.batches / min(values)
        print(f"{name}: {pace:.0f} cell-minibatches per second (best of {len(values)})")
    best = min(seconds["bare loop"]) / min(seconds["remuda"])
    median = statistics.median(bare / ours for bare, ours in zip(*seconds.values(), strict=True))
    print(f"remuda over bare loop: {best:.2f} (best), {median:.2f} (median); goal 0.95")


if __name__ == "__main__":
    main()

"""Measure the overhead of remuda's loop over a bare PyTorch loop, for one member on a CPU.

    python benchmarks/overhead.py [--repeats 15] [--threads 1]

Both loops make the same updates of the same networks. They alternate in one process, because the
speed of a machine varies. For each network, the script prints remuda's time per step divided by the
bare loop's: first for the fastest repeats, then the median over all repeats. Expect 0.99 to 1.02 on
idle cores; the goal is at most 1.05.

The bare loop is efficient: both updates use the same forward pass of the generator, and the
discriminator's parameters are frozen during the generator's update.
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
from remuda.networks import DCGAN, MLP, Networks
from remuda.strategies import Standalone

CASES = {  # name: (networks, image shape, batch size, steps per round)
    "cellular MLP, 28x28, batch 100": (MLP(), (1, 28, 28), 100, 30),
    "DC-GAN, 8x8, batch 32": (DCGAN(), (1, 8, 8), 32, 10),
    "DC-GAN, 28x28, batch 32": (DCGAN(), (1, 28, 28), 32, 4),
    "DC-GAN, 32x32x3, batch 32": (DCGAN(), (3, 32, 32), 32, 3),
}


def remuda_loop(
    networks: Networks, data: Dataset, batch_size: int, num_steps: int
) -> Callable[[], object]:
    """Return a function that trains one round of standalone without writing files."""
    strategy = Standalone(batch_size=batch_size, steps_per_round=num_steps)
    context = strategy.prepare(networks, data.shape, 10, seed=0)
    engine = Stacked(1)
    shares = [torch.arange(len(data.labels))]
    batches = Batches(data, shares, members=engine.members, batch_size=batch_size, seed=0)
    state, t = strategy.init(context, engine), 0

    def train_round() -> list[float]:
        nonlocal state, t
        real = batches.draw(t * num_steps, num_steps)
        t += 1
        state, losses = strategy.round(context, engine, state, real, t)
        return losses["generator_loss"].tolist()

    return train_round


def bare_loop(
    networks: Networks, data: Dataset, batch_size: int, num_steps: int
) -> Callable[[], object]:
    """Return a function that makes the same updates in plain PyTorch."""
    generator = networks.generator(data.shape, 10)
    discriminator = networks.discriminator(data.shape, 10)
    g_optimizer = torch.optim.Adam(generator.parameters(), 2e-4, (0.5, 0.999))
    d_optimizer = torch.optim.Adam(discriminator.parameters(), 2e-4, (0.5, 0.999))

    def train_round() -> float:
        total = 0.0
        order = torch.randperm(len(data.labels))[: num_steps * batch_size]
        for index in order.reshape(num_steps, batch_size):
            real, labels = data.images[index].float() / 127.5 - 1, data.labels[index]
            fakes = generator(torch.randn(batch_size, networks.latent), labels)
            d_optimizer.zero_grad()
            on_real, on_fakes = discriminator(real, labels), discriminator(fakes.detach(), labels)
            (0.5 * (softplus(-on_real).mean() + softplus(on_fakes).mean())).backward()
            d_optimizer.step()
            discriminator.requires_grad_(False)
            g_optimizer.zero_grad()
            loss = 0.5 * softplus(-discriminator(fakes, labels)).mean()
            loss.backward()
            g_optimizer.step()
            discriminator.requires_grad_(True)
            total += loss.item()
        return total

    return train_round


def noise(count: int, shape: tuple[int, ...]) -> Dataset:
    """Return random images; the time does not depend on them."""
    images = torch.randint(0, 256, (count, *shape), dtype=torch.uint8)
    return Dataset("noise", images, torch.zeros(count).long(), ("0",))


def seconds(action: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def main() -> None:
    """Time both loops for each case and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name, (networks, shape, batch_size, num_steps) in CASES.items():
        data = noise(2 * num_steps * batch_size, shape)
        loops = [make(networks, data, batch_size, num_steps) for make in (remuda_loop, bare_loop)]
        times = [
            [seconds(loop) / num_steps * 1e3 for loop in loops] for _ in range(options.repeats + 1)
        ][1:]  # the first turn warms up
        ours, bare = zip(*times, strict=True)
        median = statistics.median(a / b for a, b in times)
        print(
            f"{name:32} remuda {min(ours):7.2f} ms  bare {min(bare):7.2f} ms  "
            f"ratio of best {min(ours) / min(bare):.3f}  median ratio {median:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""Measure one update of every discriminator and generator of a herd, in milliseconds per step.

    python benchmarks/herd_step.py [--members 10] [--batch 100] [--networks dcgan]
                                   [--shape 3 32 32] [--steps 50] [--eager] [--precision bf16]
                                   [--loss wasserstein --critic-steps 2 --networks wcgan]
                                   [--shift 0.125 --cutout 0.5 --colour 1]
                                   [--samples 50000] [--profile FILE] [--times]

Without options, the script trains class-parallel with images of CIFAR-10's shape; expect 3.2 ms on
an H200. Images are random, because the time does not depend on them. With a recipe, the networks
and the strategy are those of the recipe, and the options for them have no effect.

The floor is the least time that an H200 needs for the arithmetic or for moving the bytes, whichever
is longer. It assumes that parameters and moments are read and written once, and that activations
are written once and read twice. It leaves out gradient penalties, spectral normalisation and the
products of self-attention.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Conv2d, ConvTranspose2d, Linear, Module

import remuda
from remuda.data.batches import Batches
from remuda.data.datasets import Dataset
from remuda.engines import Stacked
from remuda.gan import GAN
from remuda.model.model import Model
from remuda.networks import NETWORKS, Networks
from remuda.networks.layers import Dropout, UpsampledConv2d
from remuda.networks.residual import PooledConv2d
from remuda.record import DataFacts
from remuda.strategies import ClassParallel, Strategy
from remuda.tensors import trees

FLOPS = 790e12  # operations per second, measured with matrix products in bf16
BYTES = 4.8e12  # bytes per second, from the memory's data sheet
IMAGES = 1000  # per member
CLASSES = 10  # at least


def floor(gan: GAN, members: int, batch: int, critic_steps: int) -> tuple[float, float]:
    """Return the milliseconds that one step needs for arithmetic and for moving bytes."""
    labels = torch.zeros(batch, dtype=torch.int64)
    generator = forward(gan.generator, torch.zeros(batch, gan.networks.latent), labels)
    discriminator = forward(gan.discriminator, torch.zeros(batch, *gan.shape), labels)
    pair = gan.init(0)
    sizes = [trees.num_bytes(tree) for tree in ((pair.generator, pair.average), pair.discriminator)]
    # An update takes one forward and two backward passes (data and weights), for a discriminator on
    # two batches. The generator's update uses the last forward pass, and needs only one backward
    # pass (data) through the discriminator.
    products = critic_steps * (generator[0] + 6 * discriminator[0])
    products += 2 * generator[0] + 2 * discriminator[0]
    activations = critic_steps * (generator[1] + 2 * discriminator[1]) + discriminator[1]
    moved = 2 * (sizes[0] + critic_steps * sizes[1]) + 3 * 2 * activations
    return 2 * products * members / FLOPS * 1e3, moved * members / BYTES * 1e3


def forward(module: Module, *inputs: Tensor) -> tuple[int, int]:
    """Count the multiplications of a forward pass and the activations of its layers."""
    totals = [0, 0]

    def count(layer: Module, _: Any, out: Tensor) -> None:
        if isinstance(layer, Dropout):
            return  # masks are computed when they are used, and never stored
        totals[0] += out.numel() * fan_in(layer)
        totals[1] += out.numel()

    leaves = [layer for layer in module.modules() if not list(layer.children())]
    hooks = [layer.register_forward_hook(count) for layer in leaves]
    module(*inputs)
    for hook in hooks:
        hook.remove()
    return totals[0], totals[1]


def fan_in(layer: Module) -> int:
    """Return how many products each output of a layer is the sum of."""
    if isinstance(layer, Linear):
        return layer.in_features
    if not isinstance(layer, Conv2d | ConvTranspose2d):
        return 0
    taps = layer.kernel_size[0] * layer.kernel_size[1]
    if isinstance(layer, UpsampledConv2d):
        taps = 4
    elif isinstance(layer, PooledConv2d):
        taps = 16
    elif isinstance(layer, ConvTranspose2d):
        taps = taps / (layer.stride[0] * layer.stride[1])
    return round(taps * layer.in_channels / layer.groups)


def chosen(options: argparse.Namespace) -> tuple[Strategy, Networks]:
    """Return the strategy and the networks of the recipe, or those of the options."""
    if options.recipe:
        config = remuda.recipe(options.recipe, *options.set)
        return replace(config.strategy, steps_per_round=options.steps), config.networks
    strategy = ClassParallel(
        batch_size=options.batch,
        steps_per_round=options.steps,
        loss=options.loss,
        discriminator_steps=options.critic_steps,
        shift=options.shift,
        cutout=options.cutout,
        colour=options.colour,
    )
    return strategy, NETWORKS[options.networks]()


class Training:
    """Training of members on random images."""

    def __init__(self, options: argparse.Namespace, device: str):
        members, shape = options.members, tuple(options.shape)
        self.strategy, networks = chosen(options)
        num_classes = max(members, CLASSES)
        self.context = self.strategy.prepare(networks, shape, num_classes, seed=0)
        self.engine = Stacked(
            members,
            device,
            compile=device == "cuda" and not options.eager,
            precision=options.precision,
            chunk=options.chunk,
        )
        images = torch.randint(0, 256, (members * IMAGES, *shape), dtype=torch.uint8)
        labels = torch.arange(num_classes).repeat(len(images) // num_classes + 1)[: len(images)]
        data = Dataset("noise", images, labels, tuple(map(str, range(num_classes))))
        shares = list(torch.arange(members * IMAGES).reshape(members, IMAGES))
        hosted = self.engine.members
        self.batches = Batches(
            data, shares, members=hosted, batch_size=self.strategy.batch_size, seed=0, device=device
        )
        self.num_batches = self.strategy.batches_for(options.steps)
        self.state = self.strategy.init(self.context, self.engine)

    def round(self, t: int) -> None:
        """Train round t."""
        real = self.batches.draw((t - 1) * self.num_batches, self.num_batches)
        self.state, losses = self.strategy.round(self.context, self.engine, self.state, real, t)
        assert all(values.isfinite().all() for values in losses.values())

    def sample(self, members: int, count: int) -> None:
        """Time how long ``count`` images take, drawn as ``remuda sample`` draws them."""
        classes, shape = [str(label) for label in range(members)], self.context.gan.shape
        facts = DataFacts(name="noise", shape=shape, classes=classes, counts=[1] * members)
        model = Model(
            strategy=self.strategy,
            context=self.context,
            state=self.state,
            engine=self.engine,
            facts=facts,
            num_labels=members,
            round=0,
        )
        started = time.perf_counter()
        images = model.sample(count)
        print(f"{len(images):,} images in {time.perf_counter() - started:.2f} s", flush=True)

    def profile(self, path: Path) -> None:
        """Write a table of the kernels that a round runs."""
        with torch.profiler.profile() as profile:
            self.round(1)
            torch.cuda.synchronize()
        rows = profile.key_averages()
        path.write_text(
            rows.table(sort_by="cuda_time_total", row_limit=45, max_name_column_width=90)
        )


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--members", type=int, default=10)
    add("--batch", type=int, default=100)
    add("--networks", default="dcgan", choices=NETWORKS)
    add("--shape", type=int, nargs=3, default=[3, 32, 32])
    add("--steps", type=int, default=50)
    add("--rounds", type=int, default=4)
    add("--precision", default="auto")
    add("--chunk", type=int, default=0)
    add("--loss", default="non-saturating")
    add("--critic-steps", type=int, default=1, help="updates of the discriminator per step")
    add("--shift", type=float, default=0.0, help="as strategy.shift")
    add("--cutout", type=float, default=0.0, help="as strategy.cutout")
    add("--colour", type=float, default=0.0, help="as strategy.colour")
    add("--recipe", help="use the networks and the strategy of this recipe")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="change the recipe")
    add("--samples", type=int, default=0, help="also time this many images from all generators")
    add("--eager", action="store_true")
    add("--profile", type=Path, metavar="FILE", help="write a table of kernels")
    add("--times", action="store_true", help="print where compilation spends its time")
    return parser.parse_args()


def main() -> None:
    """Time the rounds, and print the time of a step and its floor."""
    options = parse()
    began = time.perf_counter()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    training, times = Training(options, device), []
    for t in range(1, options.rounds + 1):
        started = time.perf_counter()
        training.round(t)
        times.append(time.perf_counter() - started)
        if t == 1:
            elapsed = time.perf_counter() - began
            print(f"start to the end of the first round: {elapsed:.1f} s", flush=True)
    batch, critic_steps = training.strategy.batch_size, training.strategy.discriminator_steps
    arithmetic, moves = floor(training.context.gan, options.members, batch, critic_steps)
    best = min(times[1:]) / options.steps * 1e3
    memory = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0
    print(
        f"{options.recipe or options.networks} {options.members} members, batch {batch}: "
        f"{best:.2f} ms per step; floor {max(arithmetic, moves):.2f} ms "
        f"(arithmetic {arithmetic:.2f}, bytes {moves:.2f}); peak memory {memory:.2f} GiB",
        flush=True,
    )
    if options.samples:
        training.sample(options.members, options.samples)
    if options.times:
        print(torch._dynamo.utils.compile_times())
    if options.profile:
        training.profile(options.profile)


if __name__ == "__main__":
    main()

"""One update of every discriminator and generator of a herd: milliseconds a step, and the floor beside it.

    python benchmarks/herd_step.py [--members 10] [--batch 100] [--networks dcgan] [--shape 3 32 32]
                                   [--steps 50] [--eager] [--precision bf16] [--profile FILE] [--times]
                                   [--loss wasserstein --critic-steps 2 --networks wcgan] [--samples 50000]

Without options it is class-parallel CIFAR-10. Images are random, the time does not depend on them. The floor is what
the hardware needs for the arithmetic or for the bytes that must move (parameters and moments read
and written once, activations written once and read twice), whichever is more, at the H200's rates; it knows one update
of the discriminator, without a gradient penalty.
"""

import argparse
import time

import torch

from remuda.data.batches import Batches
from remuda.data.datasets import Dataset
from remuda.engines import Stacked
from remuda.model.model import Model
from remuda.networks import NETWORKS
from remuda.networks.layers import Dropout, UpsampledConv2d
from remuda.record.record import DataFacts
from remuda.strategies import ClassParallel
from remuda.tensors import trees

FLOPS, BYTES = (
    790e12,
    4.8e12,
)  # a second: measured matrix products in bf16, and the memory's data sheet


def floor(gan, shape, members, batch) -> tuple[float, float]:
    """Milliseconds for the arithmetic and for the bytes of one step."""
    labels = torch.zeros(batch, dtype=torch.int64)
    generator = forward(gan.generator, torch.zeros(batch, gan.networks.latent), labels)
    discriminator = forward(gan.discriminator, torch.zeros(batch, *shape), labels)
    # Passes: forward and two backwards (data and weights), but only one backward where the generator is judged.
    products = 3 * generator[0] + (3 + 3 + 2) * discriminator[0]
    activations = generator[1] + 3 * discriminator[1]
    moved = 2 * trees.num_bytes(gan.init(0)) + 3 * 2 * activations
    return 2 * products * members / FLOPS * 1e3, moved * members / BYTES * 1e3


def forward(module, *inputs) -> tuple[int, int]:
    """Multiplications of a forward pass, and how many numbers its layers put out."""
    totals = [0, 0]

    def count(layer, _, out):
        if isinstance(layer, Dropout):
            return  # its masks are hashes, made where they are used
        taps = 4 if isinstance(layer, UpsampledConv2d) else 9
        fan_in = getattr(layer, "in_features", 0) or getattr(layer, "in_channels", 0) * taps
        totals[0] += out.numel() * fan_in
        totals[1] += out.numel()

    hooks = [
        layer.register_forward_hook(count)
        for layer in module.modules()
        if not list(layer.children())
    ]
    module(*inputs)
    for hook in hooks:
        hook.remove()
    return totals[0], totals[1]


def sample(strategy, context, state, members, count) -> None:
    """Images of all classes in turn, as ``remuda sample`` makes them."""
    classes = [str(label) for label in range(members)]
    facts = DataFacts(name="noise", shape=context.gan.shape, classes=classes, counts=[1] * members)
    model = Model(strategy, context, state, facts, members, round=0)
    began = time.perf_counter()
    images = model.sample(count)
    print(f"{len(images):,} images in {time.perf_counter() - began:.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--networks", default="dcgan", choices=NETWORKS)
    parser.add_argument("--shape", type=int, nargs=3, default=[3, 32, 32])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--chunk", type=int, default=0)
    parser.add_argument("--loss", default="non-saturating")
    parser.add_argument(
        "--critic-steps", type=int, default=1, help="updates of the discriminator in a step"
    )
    parser.add_argument(
        "--samples", type=int, default=0, help="time so many images from all generators too"
    )
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--profile", metavar="FILE", help="write a table of kernels")
    parser.add_argument(
        "--times", action="store_true", help="print where compilation spends its time"
    )
    options = parser.parse_args()
    began = time.perf_counter()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shape, members = tuple(options.shape), options.members
    strategy = ClassParallel(
        batch_size=options.batch,
        steps_per_round=options.steps,
        loss=options.loss,
        discriminator_steps=options.critic_steps,
    )
    context = strategy.prepare(NETWORKS[options.networks](), shape, members, seed=0)
    compiled = device == "cuda" and not options.eager
    engine = Stacked(
        members, device, compile=compiled, precision=options.precision, chunk=options.chunk
    )
    count = 1000
    images = torch.randint(0, 256, (members * count, *shape), dtype=torch.uint8)
    data = Dataset(
        "noise",
        images,
        torch.arange(members).repeat_interleave(count),
        tuple(map(str, range(members))),
    )
    shares = list(torch.arange(members * count).reshape(members, count))
    batches = Batches(
        data, shares, members=engine.members, batch_size=options.batch, seed=0, device=device
    )
    state, times, num_batches = (
        strategy.init(context, engine),
        [],
        options.steps * options.critic_steps,
    )
    for t in range(1, options.rounds + 1):
        start = time.perf_counter()
        state, losses = strategy.round(
            context, engine, state, batches.draw((t - 1) * num_batches, num_batches), t
        )
        assert all(values.isfinite().all() for values in losses.values())
        times.append(time.perf_counter() - start)
        if t == 1:
            print(
                f"start to the end of the first round: {time.perf_counter() - began:.1f} s",
                flush=True,
            )
    arithmetic, bytes_ = floor(context.gan, shape, members, options.batch)
    best = min(times[1:]) / options.steps * 1e3
    memory = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0
    print(
        f"{options.networks} {members} members, batch {options.batch}: {best:.2f} ms a step; "
        f"floor {max(arithmetic, bytes_):.2f} ms (arithmetic {arithmetic:.2f}, bytes {bytes_:.2f}); "
        f"{memory:.2f} GiB at most",
        flush=True,
    )
    if options.samples:
        sample(strategy, context, state, members, options.samples)
    if options.times:
        print(torch._dynamo.utils.compile_times())
    if options.profile:
        with torch.profiler.profile() as profile:
            strategy.round(context, engine, state, batches.draw(0, num_batches), 1)
            torch.cuda.synchronize()
        with open(options.profile, "w") as file:  # noqa: PTH123
            file.write(
                profile.key_averages().table(
                    sort_by="cuda_time_total", row_limit=45, max_name_column_width=90
                )
            )


if __name__ == "__main__":
    main()

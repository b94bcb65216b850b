"""Compare convolutions of a herd on a GPU: our kernels and the library.

For every layer of the DC-GAN and of the W-CGAN's critic, this measures the forward pass, the input
gradient and the weight gradient with several tiles. The first phase compiles all kernels in
parallel processes; the second phase measures them one after another.

    python benchmarks/convolutions.py [--members 10] [--batch 100] [--layers up critic]
"""

import argparse
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import triton
from torch import Tensor
from torch.nn import functional as F

from remuda.networks import kernels
from remuda.networks.tiles import Tile, power

DEVICE, DTYPE = "cuda", torch.bfloat16
CALLS, REPLAYS = 5, 4
TOLERANCE = 2e-2  # relative to the largest number of the result, in bf16


class Layer(NamedTuple):
    name: str
    size: int  # height and width of the input
    num_in: int
    num_out: int
    stride: int  # 0: up-sampling by two

    @property
    def is_up(self) -> bool:
        return self.stride == 0


LAYERS = [
    Layer("up1 8x8 128->128", 8, 128, 128, 0),
    Layer("up2 16x16 128->64", 16, 128, 64, 0),
    Layer("last 32x32 64->3", 32, 64, 3, 1),
    Layer("d1 32x32 3->16", 32, 3, 16, 2),
    Layer("d2 16x16 16->32", 16, 16, 32, 2),
    Layer("d3 8x8 32->64", 8, 32, 64, 2),
    Layer("d4 4x4 64->128", 4, 64, 128, 2),
    Layer("critic1 32x32 3->64", 32, 3, 64, 2),
    Layer("critic2 16x16 64->128", 16, 64, 128, 2),
    Layer("critic3 8x8 128->256", 8, 128, 256, 2),
    Layer("critic4 4x4 256->512", 4, 256, 512, 2),
]


class Case:
    """One layer with its tensors, and the three operations in all versions."""

    def __init__(self, layer: Layer, members: int, batch: int):
        self.layer = layer
        generator = torch.Generator(DEVICE).manual_seed(0)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, device=DEVICE, generator=generator).to(DTYPE)

        size = layer.size
        self.k = 4 if layer.is_up else 3
        self.stride = 2 if layer.is_up else layer.stride
        after = 2 * size if layer.is_up else -(-size // self.stride)
        self.x = draw(members, batch, size, size, layer.num_in)
        self.g = draw(members, batch, after, after, layer.num_out)
        # the channels of the larger image come first
        channels = (layer.num_out, layer.num_in) if layer.is_up else (layer.num_in, layer.num_out)
        self.weight = draw(members, self.k, self.k, *channels) * 0.1

    def kernel(self, what: str, tile: Tile | None, parts: int = 0) -> Callable[[], Tensor]:
        x, g, weight, geometry = self.x, self.g, self.weight, (self.stride, 1, 1)
        big, small = (g, x) if self.layer.is_up else (x, g)
        sides = big.shape[2:4]
        if what == "weight":
            run = kernels.weight_gradient
            options = {"tile": tile, "parts": parts}
            return lambda: run(big, small, self.k, *geometry, **options).permute(0, 3, 4, 2, 1)
        if (what == "forward") == self.layer.is_up:
            source = x if self.layer.is_up else g
            return lambda: kernels.input_gradient(source, weight, *sides, *geometry, tile=tile)
        source = g if self.layer.is_up else x
        return lambda: kernels.convolution(source, weight, *geometry, tile=tile)

    def tiles(self, what: str) -> Iterator[tuple[Tile | None, int]]:
        """Propose tiles, and numbers of parts for weight gradients."""
        yield None, 0
        big, small = self.weight.shape[3:]
        if what == "weight":
            swapped = self.stride == 1 and small < big
            rows, columns = (9 * small, big) if swapped else (self.k**2 * big, small)
            for r, c, p, warps, stages in WEIGHT_TILES:
                if r <= max(16, power(rows)) and c <= max(16, power(columns)):
                    yield Tile(r, c, p, warps, stages), 0
            for parts in (1, 2, 4, 8, 16):
                yield None, parts
            return
        transposed = (what == "forward") == self.layer.is_up
        depth, outputs = (small, self.stride**2 * big) if transposed else (big, small)
        for p, n, k, warps, stages in GATHER_TILES:
            if n <= max(16, power(outputs)) and k <= max(16, power(self.k**2 * depth)):
                yield Tile(p, n, k, warps, stages), 0
        if not transposed and outputs <= 4:
            yield Tile(256, 16, 64, 4, 3, 2), 0
            yield Tile(64, 16, 64, 4, 4, 2), 0
            yield Tile(128, 64, 64, 4, 3, 4), 0
            yield Tile(64, 64, 64, 4, 3, 4), 0

    def reference(self, what: str, member: int) -> Tensor:
        """Compute one member's result in fp32."""
        x, g, weight = (t[member].float() for t in (self.x, self.g, self.weight))
        x, g = (t.permute(0, 3, 1, 2).contiguous().requires_grad_() for t in (x, g))
        w = weight.permute(3, 2, 0, 1).contiguous().requires_grad_()
        y = (
            F.conv_transpose2d(x, w, stride=2, padding=1)
            if self.layer.is_up
            else F.conv2d(x, w, stride=self.stride, padding=1)
        )
        if what == "forward":
            return y.detach().permute(0, 2, 3, 1)
        gx, gw = torch.autograd.grad(y, (x, w), g.detach())
        return gx.permute(0, 2, 3, 1) if what == "input" else gw.permute(2, 3, 1, 0)

    def error(self, what: str, result: Tensor) -> float:
        """Return the largest relative error of two members; infinity if any number is not finite.

        Python's max would skip NaN, so that a broken kernel would look exact.
        """
        errors = []
        for member in (0, len(result) - 1):
            wanted = self.reference(what, member)
            found = result[member].float()
            errors.append((found - wanted).abs().max() / wanted.abs().max())
        worst = torch.stack(errors).max().item()
        return worst if math.isfinite(worst) else math.inf

    def library(self) -> dict[str, Callable[[], object]]:
        def one(x: Tensor, weight: Tensor) -> Tensor:
            image, matrix = x.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1)
            if self.layer.is_up:
                y = F.conv_transpose2d(image, matrix, stride=2, padding=1)
            else:
                y = F.conv2d(image, matrix, stride=self.stride, padding=1)
            return y.permute(0, 2, 3, 1)

        fn = torch.func.vmap(one)

        def gradient(of: int) -> Callable[[], object]:
            tensors = self.x, self.weight
            varied = (lambda t: fn(t, self.weight)) if of == 0 else (lambda t: fn(self.x, t))
            return lambda: torch.func.vjp(varied, tensors[of])[1](self.g)[0].contiguous()

        return {
            "forward": lambda: fn(self.x, self.weight).contiguous(),
            "input": gradient(0),
            "weight": gradient(1),
        }


WEIGHT_TILES = [
    (256, 128, 64, 8, 3),
    (128, 256, 64, 8, 3),
    (128, 128, 64, 8, 4),
    (128, 128, 128, 8, 2),
    (128, 128, 64, 4, 3),
    (128, 64, 64, 4, 4),
    (64, 128, 64, 4, 4),
    (64, 64, 128, 4, 3),
    (32, 64, 128, 4, 3),
    (32, 32, 128, 4, 3),
    (32, 16, 128, 4, 3),
]
GATHER_TILES = [
    (128, 256, 64, 8, 3),
    (256, 128, 64, 8, 3),
    (128, 128, 64, 8, 4),
    (128, 128, 64, 4, 3),
    (64, 128, 64, 4, 3),
    (256, 64, 64, 8, 3),
    (256, 64, 64, 4, 3),
    (128, 64, 64, 4, 4),
    (64, 64, 64, 4, 4),
    (256, 32, 32, 4, 3),
    (128, 32, 32, 4, 3),
    (128, 64, 32, 4, 3),
    (256, 16, 32, 4, 3),
    (128, 16, 64, 4, 4),
]


def milliseconds(fn: Callable[[], object]) -> float:
    """Measure the time of one call within a CUDA graph of several."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        fn()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            fn()
    graph.replay()
    times = []
    for _ in range(REPLAYS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / CALLS)
    return min(times)


def attempt(fn: Callable[[], object]) -> str | None:
    try:
        fn()
        torch.cuda.synchronize()
    except triton.runtime.errors.OutOfResources as error:
        return str(error)[:60]
    return None


def warm(case: Case) -> None:
    """Fill the compiler's cache."""
    for what in ("forward", "input", "weight"):
        for tile, parts in case.tiles(what):
            attempt(case.kernel(what, tile, parts))


def measure(case: Case) -> None:
    """Print the times in us. Leave out tiles whose results are wrong."""
    library = case.library()
    print(f"\n== {case.layer.name}", flush=True)
    for what in ("forward", "input", "weight"):
        times: list[tuple[float, str, float]] = []
        for tile, parts in case.tiles(what):
            run = case.kernel(what, tile, parts)
            if attempt(run) is None:
                label = ",".join(map(str, tile)) if tile else "default"
                label += f"/{parts}" * (parts > 0)
                error = case.error(what, run())
                if error > TOLERANCE:
                    print(f"WRONG: {what} with {label}: error {error:.1e}", flush=True)
                    continue
                times.append((1000 * milliseconds(run), label, error))
        ours, plain = sorted(times), 1000 * milliseconds(library[what])
        if not ours:
            print(f"{what:8} no tile is right; library {plain:8.1f} us", flush=True)
            continue
        default = next((t for t in ours if t[1] == "default"), (math.nan, "", 0.0))
        tried = "  ".join(f"{label}: {t:.0f}" for t, label, _ in ours[:6])
        print(
            f"{what:8} kernel {ours[0][0]:6.1f} (default {default[0]:6.1f}) "
            f"library {plain:8.1f} us | error {max(t[2] for t in ours):.1e} | {tried}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--layers", nargs="*", default=[""], help="beginnings of layers' names")
    parser.add_argument("--warm", action="store_true", help="only compile")
    options = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    chosen = [layer for layer in LAYERS if layer.name.startswith(tuple(options.layers))]
    if options.warm:
        for layer in chosen:
            warm(Case(layer, options.members, options.batch))
        return
    size = ["--members", str(options.members), "--batch", str(options.batch)]
    command = [sys.executable, __file__, "--warm", *size, "--layers"]
    workers = [subprocess.Popen([*command, layer.name]) for layer in chosen]
    failed = [worker.args for worker in workers if worker.wait()]
    if failed:
        sys.exit(f"could not compile {failed}")
    for layer in chosen:
        measure(Case(layer, options.members, options.batch))


if __name__ == "__main__":
    main()

"""Compiled programs, on whatever device there is; the logic is the same on a CPU, less the graph."""

import re
import tomllib
from pathlib import Path

import pytest
import torch

from remuda.data.batches import Batch
from remuda.engines import Scan, Stacked, programs
from remuda.engines.programs import Piece
from remuda.errors import UserError
from remuda.gan import GAN, LOSSES, Adam
from remuda.networks import DCGAN, MLP, WCGAN
from remuda.strategies import Cellular, ClassParallel
from remuda.tensors import random, trees

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LONG_ON_A_CPU = pytest.mark.soak if DEVICE == "cpu" else pytest.mark.filterwarnings("default")


def gan():
    """A pair with everything that a compiler has to digest, small enough to compile in seconds."""
    return GAN(
        networks=MLP(latent=3, hidden=4, num_hidden=1),
        shape=(1, 2, 2),
        num_classes=2,
        loss=LOSSES["non-saturating"],
        generator_optimizer=Adam(1e-2, 0.5, 0.999, 1e-2),
        discriminator_optimizer=Adam(1e-2, 0.5, 0.999, 1e-2),
    )


@pytest.fixture(scope="module")
def compiled_and_eager():
    """The same two rounds of three steps by both."""
    game = gan()
    states, outs = [], []
    for compiled in (True, False):
        engine = Stacked(3, DEVICE, "vmap", compile=compiled, precision="fp32")
        said: list[str] = []
        engine.notify = said.append
        pairs = engine.create(game.init)
        for t in range(2):
            key = torch.tensor(random.key(0, "test", t), device=DEVICE)
            real = random.uniform(random.fold(key, 1), (3, 3, 1, 4, 1, 2, 2))
            noise = random.normal(random.fold(key, 2), (3, 3, 1, 4, 3))
            labels = torch.zeros(3, 3, 1, 4, dtype=torch.int64, device=DEVICE)
            keys = torch.zeros(3, 3, 1, dtype=torch.int64, device=DEVICE)
            before = trees.map(torch.clone, pairs)
            after, losses = engine.map(Scan(game.step), pairs, real, labels, noise, keys)
            assert trees.equal(pairs, before), "the arguments are left alone"
            pairs = after
        states.append(pairs)
        outs.append(losses)
        assert len(said) == compiled, "compiled once, and the user told of it"
    return states, outs


def test_a_compiled_round_equals_the_eager_one(compiled_and_eager):
    states, outs = compiled_and_eager
    for (name, a), (_, b) in zip(*map(trees.named_leaves, states), strict=True):
        assert torch.allclose(a.double(), b.double(), atol=1e-5), name
    for name in outs[0]:
        assert outs[0][name].shape == (3, 3)
        assert torch.allclose(outs[0][name], outs[1][name], atol=1e-5), name


def test_a_step_in_pieces_equals_the_whole_step():
    """Three updates of the critic with a gradient penalty, then one of the generator: compiled as two pieces."""
    options = dict(loss="wasserstein", generator_lr=1e-2, ema=0.5, shift=0.5, cutout=0.5)
    strategy = ClassParallel(batch_size=4, discriminator_steps=3, **options)
    context = strategy.prepare(MLP(latent=3, hidden=4, num_hidden=1), (1, 2, 2), 2, seed=0)
    real = Batch(
        torch.randint(0, 256, (2, 6, 4, 1, 2, 2), dtype=torch.uint8),
        torch.zeros(2, 6, 4, dtype=torch.int64),
    )
    real = Batch(*(leaf.to(DEVICE) for leaf in real))
    ends = []
    for compiled in (True, False):
        engine = Stacked(2, DEVICE, "vmap", compile=compiled, precision="fp32")
        state = strategy.init(context, engine)
        for t in (1, 2):
            state, losses = strategy.round(context, engine, state, real, t)
        assert all(values.shape == (2,) for values in losses.values())
        assert len(engine.programs) == compiled, "the second round finds the program of the first"
        ends.append((state, losses))
    for (name, a), (_, b) in zip(*map(trees.named_leaves, ends), strict=True):
        assert torch.allclose(a.double(), b.double(), atol=1e-5), name


def test_many_programs_in_one_process(monkeypatch):
    """The compiler gives up after compiling a code object eight times; so every piece has one of its own."""
    compile_ = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda fn, **options: compile_(fn, backend="eager", **options)
    )
    position = torch.zeros(1, dtype=torch.int64)
    for factor in range(10):
        piece = Piece(lambda carry, x, factor=factor: (carry, factor * x), 1, torch.float32)
        piece.run({"unused": torch.zeros(1)}, (torch.ones(1, 1),), position)
        assert piece.outs.tolist() == [[factor]]


def test_chunks_change_nothing():
    rows = {"x": torch.arange(5.0)}
    inputs = torch.arange(10.0).reshape(5, 2)

    def step(state, x):
        return {"x": state["x"] * 2 + x}, state["x"]

    whole = Stacked(5, layout="vmap").map(Scan(step), rows, inputs)
    for chunk in (1, 2, 3, 5):
        assert trees.equal(
            Stacked(5, layout="vmap", chunk=chunk).map(Scan(step), rows, inputs), whole
        )


def test_a_full_memory_halves_the_chunk(monkeypatch):
    engine = Stacked(5, layout="vmap")
    said: list[str] = []
    engine.notify = said.append
    stacked = engine._map_stacked

    def small_memory(fn, rows):
        if len(rows[0]["x"]) > 2:
            raise torch.OutOfMemoryError
        return stacked(fn, rows)

    monkeypatch.setattr(engine, "_map_stacked", small_memory)
    assert engine.map(lambda row: row["x"] + 1, {"x": torch.arange(5.0)}).tolist() == [
        1,
        2,
        3,
        4,
        5,
    ]
    assert engine.chunk == 2 and len(said) == 2

    monkeypatch.setattr(
        engine, "_map_stacked", lambda fn, rows: (_ for _ in ()).throw(torch.OutOfMemoryError())
    )
    with pytest.raises(torch.OutOfMemoryError):
        engine.map(lambda row: row["x"], {"x": torch.arange(5.0)})


@pytest.mark.skipif(
    DEVICE == "cuda", reason="breaks the C++ compiler, which a GPU's programs do not use"
)
def test_a_compiler_that_fails_is_named_with_the_remedy():
    engine = Stacked(2, layout="vmap", compile=True)
    with (
        torch._inductor.config.patch({"cpp.cxx": (None, "no-such-compiler")}),
        pytest.raises(UserError, match=r"cannot compile the training step .*engine\.compile=false"),
    ):
        engine.map(Scan(lambda state, x: (state * 3.25 + x, x)), torch.zeros(2), torch.zeros(2, 3))


@LONG_ON_A_CPU
@pytest.mark.parametrize("loss", ["non-saturating", "wasserstein"])
def test_a_compiled_convolutional_step_equals_the_eager_one(loss):
    """On a GPU in the sizes of CIFAR-10, where a compiler's padding of strides once gave wrong gradients."""
    members, batch, shape, width = (
        (4, 32, (3, 32, 32), 64) if DEVICE == "cuda" else (2, 3, (3, 16, 16), 8)
    )
    networks = (
        WCGAN(width=width, critic_width=width) if loss == "wasserstein" else DCGAN(width=width)
    )
    changes = dict(shift=0.125, cutout=0.5) if loss == "wasserstein" else {}
    betas = dict(discriminator_betas=(0.0, 0.9), generator_betas=(0.0, 0.9))
    strategy = ClassParallel(batch_size=batch, loss=loss, **betas, **changes)
    context = strategy.prepare(networks, shape, members, seed=0)
    pixels = torch.randint(0, 256, (members, 1, batch, *shape), dtype=torch.uint8, device=DEVICE)
    real = Batch(pixels, torch.zeros(members, 1, batch, dtype=torch.int64, device=DEVICE))
    gradients = []
    for compiled in (True, False):
        engine = Stacked(members, DEVICE, "vmap", compile=compiled, precision="fp32")
        pairs, _ = strategy.round(context, engine, strategy.init(context, engine), real, 1)
        # With beta1 = 0 the first moments are the gradients themselves.
        gradients.append((pairs.discriminator.moments.first, pairs.generator.moments.first))
    for (name, a), (_, b) in zip(*map(trees.named_leaves, gradients), strict=True):
        assert (a - b).norm() <= 0.02 * b.norm() + 1e-6, name


@pytest.mark.parametrize(
    "options",
    [
        dict(skip_discriminator=1, mustangs="update"),
        pytest.param(
            dict(selection="none", population=2, mustangs="creation"), marks=LONG_ON_A_CPU
        ),
    ],
    ids=str,
)
def test_a_round_of_cells_compiled_equals_eager(options):
    strategy = Cellular(batch_size=4, mixture_samples=6, **options)
    context = strategy.prepare(MLP(latent=3, hidden=4, num_hidden=1), (1, 2, 2), 2, seed=0)
    states = []
    for compiled in (True, False):
        engine = Stacked(4, DEVICE, "vmap", compile=compiled, precision="fp32")
        state = strategy.init(context, engine)
        for t in (1, 2):
            images = torch.randint(
                0, 256, (4, 4, 4, 1, 2, 2), generator=torch.Generator().manual_seed(t)
            )
            batch = Batch(
                images.to(torch.uint8).to(DEVICE),
                torch.zeros(4, 4, 4, dtype=torch.int64, device=DEVICE),
            )
            state, _ = strategy.round(context, engine, state, batch, t)
        states.append(state)
    for (name, one), (_, other) in zip(*map(trees.named_leaves, states), strict=True):
        assert torch.allclose(one.double(), other.double(), atol=2e-3), name


def test_the_patch_of_the_compiler_is_still_needed():
    """Remove ``patch_compiler`` when this test fails."""
    from torch._inductor.codegen import simd

    raises = re.findall(r"raise CantSplit\b(\(?)", Path(simd.__file__).read_text())
    has_bug = "" in raises
    assert programs.compiler_needs_patch() == has_bug, "this PyTorch and COMPILER_FIXED_IN disagree"
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    (torch_range,) = [d for d in project["project"]["dependencies"] if d.startswith("torch>=")]
    oldest = tuple(map(int, re.findall(r"\d+", torch_range)[:2]))
    assert oldest < programs.COMPILER_FIXED_IN, "no supported PyTorch needs the patch any more"


def test_the_patch_is_gated_by_version(monkeypatch):
    for version, is_needed in (
        ("2.11.0+cu130", True),
        ("2.12.1", True),
        ("2.13.0", False),
        ("3.0.0a0", False),
    ):
        monkeypatch.setattr(torch, "__version__", version)
        assert programs.compiler_needs_patch() == is_needed

"""Compiled programs, on a GPU if there is one; a CPU runs the same logic without CUDA graphs."""

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
from remuda.networks import MLP
from remuda.strategies import Cellular, ClassParallel
from remuda.tensors import random, trees

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LONG_ON_A_CPU = pytest.mark.soak if DEVICE == "cpu" else pytest.mark.filterwarnings("default")


def gan():
    """Return a GAN with all kinds of operations, small enough to compile in seconds."""
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
    """Run the same two rounds of three steps with and without compilation."""
    game = gan()
    states, outs = [], []
    for compiled in (True, False):
        engine = Stacked(3, DEVICE, "vmap", compile=compiled, precision="fp32")
        messages: list[str] = []
        engine.notify = messages.append
        pairs = engine.create(game.init)
        for t in range(2):
            key = torch.tensor(random.key(0, "test", t), device=DEVICE)
            real = random.uniform(random.fold(key, 1), (3, 3, 1, 4, 1, 2, 2))
            noise = random.normal(random.fold(key, 2), (3, 3, 1, 4, 3))
            labels = torch.zeros(3, 3, 1, 4, dtype=torch.int64, device=DEVICE)
            keys = torch.zeros(3, 3, 1, dtype=torch.int64, device=DEVICE)
            before = trees.map(torch.clone, pairs)
            after, losses = engine.map(Scan(game.step), pairs, real, labels, noise, keys)
            assert trees.equal(pairs, before), "the arguments do not change"
            pairs = after
        states.append(pairs)
        outs.append(losses)
        assert len(messages) == compiled, "the engine tells the user that it compiles, once"
    return states, outs


def test_a_compiled_round_equals_the_eager_one(compiled_and_eager):
    states, outs = compiled_and_eager
    for (name, a), (_, b) in zip(*map(trees.named_leaves, states), strict=True):
        assert torch.allclose(a.double(), b.double(), atol=1e-5), name
    for name in outs[0]:
        assert outs[0][name].shape == (3, 3)
        assert torch.allclose(outs[0][name], outs[1][name], atol=1e-5), name


SCHEDULE = dict(
    annealing="cosine",
    annealing_rounds=1.5,
    final_lr=0.5,
    final_betas=(0.3, 0.9),
    final_penalty=0.1,
    warmup_rounds=0.5,
    ema_images=8.0,
    ema_rampup=0.5,
)


WASSERSTEIN = dict(loss="wasserstein")
RELATIVISTIC = dict(loss="relativistic", r1=0.5, r2=0.25, penalty_every=2)
ADAPTIVE = dict(shift=0.5, cutout=0.5, colour=0.5, ada_target=0.4, ada_images=32.0)


@pytest.mark.parametrize(
    "options",
    [
        WASSERSTEIN,
        pytest.param(WASSERSTEIN | ADAPTIVE, marks=LONG_ON_A_CPU),
        pytest.param(RELATIVISTIC | ADAPTIVE, marks=LONG_ON_A_CPU),
    ],
    ids=str,
)
def test_a_step_in_pieces_equals_the_whole_step(options):
    """Compile three critic updates with penalties and a generator update as two pieces."""
    options = dict(generator_lr=1e-2, discriminator_steps=3) | SCHEDULE | options
    strategy = ClassParallel(batch_size=4, **options)
    # With a LeakyReLU, a neuron that has the same sign for all images has a gradient of 0 up to
    # rounding, and Adam would turn the rounding into whole steps.
    networks = MLP(latent=3, hidden=4, num_hidden=1, activation="tanh")
    context = strategy.prepare(networks, (1, 2, 2), 2, seed=0)
    seeded = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (2, 6, 4, 1, 2, 2), dtype=torch.uint8, generator=seeded)
    labels = torch.zeros(2, 6, 4, dtype=torch.int64)
    real = Batch(images.to(DEVICE), labels.to(DEVICE))
    ends = []
    for compiled in (True, False):
        engine = Stacked(2, DEVICE, "vmap", compile=compiled, precision="fp32")
        state = strategy.init(context, engine)
        for t in (1, 2):
            state, losses = strategy.round(context, engine, state, real, t)
        assert all(values.shape == (2,) for values in losses.values())
        assert len(engine.programs) == compiled, "both rounds use the same program"
        ends.append((state, losses))
    for (name, a), (_, b) in zip(*map(trees.named_leaves, ends), strict=True):
        # In the relativistic loss, the last bias cancels (see tests/gan/test_losses.py). Its
        # gradient is rounding, which Adam turns into steps as long as some learning rates.
        cancels = options["loss"] == "relativistic" and name.endswith("network.layers.2.bias")
        if not cancels:
            assert torch.allclose(a.double(), b.double(), atol=1e-5), name
        elif "/params/" in name:
            assert (a - b).abs().max() <= 50 * strategy.discriminator_lr
        else:
            assert max(a.abs().max(), b.abs().max()) <= 1e-6, name


def test_many_programs_in_one_process(monkeypatch):
    """The compiler accepts a code object only eight times, so every piece needs its own."""
    compile_ = torch.compile

    def compile_quickly(fn, **options):
        return compile_(fn, backend="eager", **options)

    monkeypatch.setattr(torch, "compile", compile_quickly)
    position = torch.zeros(1, dtype=torch.int64)
    for factor in range(10):
        piece = Piece(
            lambda carry, x, factor=factor: (carry, factor * x), 1, torch.float32, is_compiled=True
        )
        piece.run({"unused": torch.zeros(1)}, (torch.ones(1, 1),), position)
        assert piece.outs.tolist() == [[factor]]


def test_chunks_do_not_change_the_result():
    rows = {"x": torch.arange(5.0)}
    inputs = torch.arange(10.0).reshape(5, 2)

    def step(state, x):
        return {"x": state["x"] * 2 + x}, state["x"]

    whole = Stacked(5, layout="vmap").map(Scan(step), rows, inputs)
    for chunk in (1, 2, 3, 5):
        engine = Stacked(5, layout="vmap", chunk=chunk)
        assert trees.equal(engine.map(Scan(step), rows, inputs), whole)


def test_full_device_memory_halves_the_chunk(monkeypatch):
    engine = Stacked(5, layout="vmap")
    messages: list[str] = []
    engine.notify = messages.append
    stacked = engine._map_stacked

    def small_memory(fn, rows):
        if len(rows[0]["x"]) > 2:
            raise torch.OutOfMemoryError
        return stacked(fn, rows)

    monkeypatch.setattr(engine, "_map_stacked", small_memory)
    rows = {"x": torch.arange(5.0)}
    assert engine.map(lambda row: row["x"] + 1, rows).tolist() == [1, 2, 3, 4, 5]
    assert engine.chunk == 2 and len(messages) == 2

    def no_memory(fn, rows):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(engine, "_map_stacked", no_memory)
    with pytest.raises(torch.OutOfMemoryError):
        engine.map(lambda row: row["x"], rows)


def test_full_device_memory_in_a_loop_halves_the_chunk(monkeypatch):
    def step(engine, state, x):
        return engine.map(lambda row, x: row + x, state, x.expand_as(state)), x

    def no_memory(*_):
        raise torch.OutOfMemoryError

    engine = Stacked(5, layout="vmap", compile="never")
    messages: list[str] = []
    engine.notify = messages.append
    monkeypatch.setattr(engine, "_run_program", no_memory)
    state, outs = engine.loop(step, torch.arange(5.0), torch.ones(2))
    assert state.tolist() == [2, 3, 4, 5, 6] and outs.tolist() == [1, 1]
    assert engine.chunk == 3 and len(messages) == 1


@pytest.mark.skipif(DEVICE == "cuda", reason="a GPU's programs do not use the C++ compiler")
def test_a_failing_compiler_is_reported_with_a_remedy():
    engine = Stacked(2, layout="vmap", compile=True)
    with (
        torch._inductor.config.patch({"cpp.cxx": (None, "no-such-compiler")}),
        pytest.raises(UserError, match=r"cannot compile the training step .*engine\.compile=false"),
    ):
        engine.map(Scan(lambda state, x: (state * 3.25 + x, x)), torch.zeros(2), torch.zeros(2, 3))


CELLS = dict(skip_discriminator=1, mustangs="update", warmup_rounds=1.5)
POPULATIONS = dict(selection="none", population=2, mustangs="creation")


@pytest.mark.parametrize(
    "options", [CELLS, pytest.param(POPULATIONS, marks=LONG_ON_A_CPU)], ids=str
)
def test_a_compiled_cellular_round_equals_the_eager_one(options):
    strategy = Cellular(batch_size=4, mixture_samples=6, **options)
    context = strategy.prepare(MLP(latent=3, hidden=4, num_hidden=1), (1, 2, 2), 2, seed=0)
    states = []
    for compiled in (True, False):
        engine = Stacked(4, DEVICE, "vmap", compile=compiled, precision="fp32")
        state = strategy.init(context, engine)
        for t in (1, 2):
            generator = torch.Generator().manual_seed(t)
            images = torch.randint(0, 256, (4, 4, 4, 1, 2, 2), generator=generator)
            labels = torch.zeros(4, 4, 4, dtype=torch.int64, device=DEVICE)
            batch = Batch(images.to(torch.uint8).to(DEVICE), labels)
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


def test_only_old_versions_are_patched(monkeypatch):
    versions = {"2.11.0+cu130": True, "2.12.1": True, "2.13.0": False, "3.0.0a0": False}
    for version, is_needed in versions.items():
        monkeypatch.setattr(torch, "__version__", version)
        assert programs.compiler_needs_patch() == is_needed

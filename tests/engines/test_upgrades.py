"""Uncompiled programs that compiled ones replace during training."""

import subprocess
import sys
import threading
import time
from contextlib import nullcontext

import pytest
import torch

from remuda.data.batches import Batch
from remuda.engines import Stacked, upgrades
from remuda.engines.programs import Program
from remuda.engines.upgrades import Upgrade
from remuda.networks import MLP
from remuda.strategies import ClassParallel
from remuda.tensors import trees

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
STATE = (torch.zeros(2), torch.zeros(1, 2))


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("REMUDA_CACHE", str(tmp_path))


class Builder:
    """Builds programs that return their kind; compiling waits for a signal."""

    def __init__(self, error: Exception | None = None, seconds: float = 1.0):
        self.may_finish, self.error, self.built = threading.Event(), error, []
        self.seconds = seconds  # that a round is predicted to take

    def __call__(self, carry, inputs, *, is_compiled):
        self.built.append(is_compiled)
        if is_compiled:
            while not self.may_finish.wait(0.01):
                pass
            if self.error is not None:
                raise self.error
        return FakeProgram("compiled" if is_compiled else "captured", self.seconds)


class FakeProgram:
    """Returns its kind instead of a state."""

    def __init__(self, kind: str, seconds: float):
        self.kind, self.seconds, self.is_yielding = kind, seconds, False

    def predicted_seconds(self) -> float:
        return self.seconds

    def __call__(self, carry, inputs):
        return self.kind, inputs


def upgrade(builder, rounds_left, messages):
    return Upgrade(builder, lambda: rounds_left, nullcontext, messages.append)


def kind(program):
    return program(*STATE)[0]


def wait_for(program):
    while program.compilation is not None and program.compilation.is_running:
        time.sleep(0.01)


def test_a_compiled_program_takes_over_between_two_rounds(monkeypatch):
    monkeypatch.setattr(upgrades, "WORTH", 0.0)
    builder, messages = Builder(), []
    program = upgrade(builder, 100, messages)
    assert [kind(program) for _ in range(3)] == ["captured"] * 3
    assert messages == ["compiling the training step while training continues"]
    builder.may_finish.set()
    wait_for(program)
    assert [kind(program) for _ in range(2)] == ["compiled"] * 2
    assert "takes over" in messages[1] and len(messages) == 2
    assert builder.built == [False, True]


def test_training_waits_at_once_for_a_step_that_was_compiled_before(monkeypatch):
    monkeypatch.setattr(upgrades, "WORTH", 0.0)
    monkeypatch.setattr(upgrades, "WORTH_AGAIN", 0.0)
    builder, messages = Builder(), []
    first, second = (upgrade(builder, 100, messages) for _ in range(2))
    assert [kind(first), kind(first)] == ["captured", "captured"]
    builder.may_finish.set()
    wait_for(first)
    assert kind(first) == "compiled"
    assert kind(second) == "compiled"
    assert "while training continues" in messages[0] and "from the cache" in messages[2]


def test_steps_of_other_shapes_were_not_compiled_before():
    builder = Builder(seconds=0.0)
    programs = [upgrade(builder, 100, []) for _ in range(2)]
    kind(programs[0])
    programs[0]._mark()
    programs[1](torch.zeros(3), torch.zeros(1, 3))
    assert [program.is_known for program in programs] == [True, False]


def test_short_runs_are_never_compiled():
    """A round takes 50 ms, so that 100 take 5 s: much less than a minute."""
    builder, messages = Builder(seconds=0.05), []
    program = upgrade(builder, 100, messages)
    for _ in range(3):
        kind(program)
        time.sleep(0.05)
    assert builder.built == [False] and not messages


def test_compiling_pays_if_the_rest_of_the_run_takes_more_than_a_minute(monkeypatch):
    builder = Builder(seconds=0.5)
    program = upgrade(builder, 120, [])
    monkeypatch.setattr(time, "perf_counter", lambda: 10.0)
    kind(program)
    assert builder.built == [False], "120 rounds of 0.5 s are predicted to take a minute, not more"
    monkeypatch.setattr(time, "perf_counter", lambda: 10.5)
    kind(program)
    assert program.compilation is None, "the last round took 0.5 s, too"
    monkeypatch.setattr(time, "perf_counter", lambda: 11.1)
    kind(program)
    assert program.compilation is not None, "the last round took 0.6 s"
    builder.may_finish.set()


def test_a_slow_first_round_waits_for_the_compiler():
    """A round of 31 s would end after the 30 s for which uncompiled rounds may run."""
    builder, messages = Builder(seconds=31.0), []
    program = upgrade(builder, 2, messages)
    threading.Timer(0.1, builder.may_finish.set).start()
    assert kind(program) == "compiled"
    assert messages[1] == "waiting for the compiler" and "takes over" in messages[2]


def test_a_program_predicts_its_first_call_without_changing_it():
    def step(carry, x):
        time.sleep(0.01)
        return carry + x, 2 * carry

    inputs = (torch.ones(5, 2),)
    program = Program([step], torch.zeros(2), inputs, torch.float32, is_compiled=False)
    assert 0.05 <= program.predicted_seconds() < 5
    carry, outs = program(torch.zeros(2), inputs)
    assert carry.tolist() == [5, 5] and outs[:, 0].tolist() == [0, 2, 4, 6, 8]


def test_a_failed_compilation_is_reported_and_training_continues(monkeypatch):
    monkeypatch.setattr(upgrades, "WORTH", 0.0)
    builder, messages = Builder(RuntimeError("no compiler\nand more")), []
    builder.may_finish.set()
    program = upgrade(builder, 100, messages)
    kind(program)
    kind(program)
    wait_for(program)
    assert [kind(program) for _ in range(3)] == ["captured"] * 3
    assert not program.program.is_yielding
    assert messages[1:] == [
        "cannot compile the training step (no compiler); continuing without compilation, which is "
        "slower"
    ]


def test_training_waits_for_a_slow_compiler(monkeypatch):
    """The compiler finishes when training waits for it, and not before."""
    monkeypatch.setattr(upgrades, "WORTH", 0.0)
    builder, messages = Builder(), []
    program = upgrade(builder, 100, messages)
    assert [kind(program) for _ in range(3)] == ["captured"] * 3
    assert program.program.is_yielding, "the compiler can load kernels between two steps"
    monkeypatch.setattr(upgrades, "PATIENCE", 0.0)
    threading.Timer(0.1, builder.may_finish.set).start()
    assert kind(program) == "compiled"
    assert messages[1] == "waiting for the compiler" and "takes over" in messages[2]


def test_cancelling_ends_the_thread(monkeypatch):
    monkeypatch.setattr(upgrades, "WORTH", 0.0)
    interval = sys.getswitchinterval()
    program = upgrade(Builder(), 100, [])
    kind(program)
    kind(program)
    compilation = program.compilation
    program.cancel()
    assert not compilation.is_running and isinstance(compilation.error, SystemExit)
    assert sys.getswitchinterval() == interval
    assert kind(program) == "captured"


def test_a_process_ends_at_once_while_a_thread_compiles():
    code = """
import sys, time
sys.path.insert(0, "tests/engines")
from remuda.engines import upgrades
from test_upgrades import Builder, kind, upgrade
upgrades.WORTH = 0.0
program = upgrade(Builder(), 100, [])
kind(program), kind(program)
assert program.compilation.is_running
sys.exit(3)
"""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, "")
    assert time.perf_counter() - start < 40


@pytest.mark.parametrize("compile", ["auto", "never"])
def test_programs_of_all_kinds_give_the_same_results(compile, monkeypatch):
    """Four rounds: uncompiled, then compiled as soon as that is ready, equal eager ones."""
    monkeypatch.setattr(upgrades, "WORTH", 0.0)
    strategy = ClassParallel(batch_size=4, discriminator_steps=2, generator_lr=1e-2, ema=0.5)
    context = strategy.prepare(MLP(latent=3, hidden=4, num_hidden=1), (1, 2, 2), 2, seed=0)
    images = torch.randint(0, 256, (2, 4, 4, 1, 2, 2), dtype=torch.uint8)
    real = Batch(images.to(DEVICE), torch.zeros(2, 4, 4, dtype=torch.int64, device=DEVICE))
    ends, messages = [], []
    for kind in (compile, False):
        engine = Stacked(2, DEVICE, "vmap", compile=kind, precision="fp32", notify=messages.append)
        state = strategy.init(context, engine)
        for t in (1, 2, 3, 4):
            engine.expect(5 - t)
            # This thread must not compile again what another thread has compiled.
            with torch._dynamo.config.patch(error_on_recompile=True):
                state, _ = strategy.round(context, engine, state, real, t)
            for program in engine.programs.values():
                if isinstance(program, Upgrade):
                    wait_for(program)
        ends.append(state)
    assert len(messages) == (2 if compile == "auto" else 0)
    for (name, a), (_, b) in zip(*map(trees.named_leaves, ends), strict=True):
        assert torch.allclose(a.double(), b.double(), atol=1e-5), name

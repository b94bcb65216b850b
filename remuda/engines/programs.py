"""Turn the steps of a population into a program, compiled or not.

On a GPU the program is replayed from a CUDA graph over static buffers.
"""

import time
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from remuda.system.pytorch import keep_compiled_code
from remuda.tensors import calculus, trees
from remuda.tensors.trees import Tree

# Calls before a capture: they compile, and create library handles and workspaces.
WARM_UP = {True: 3, False: 1}  # by whether the program is compiled
# A compiled program also has a graph of this many steps: Python then launches fewer graphs, which
# matters for steps of less than a millisecond.
UNROLLED = 10

# On a GPU, PyTorch 2.11's compiler pads the strides of intermediate results. It then misreads some
# results that are cropped by negative padding: the gradients of a convolutional critic's gradient
# penalty were off by 100 %.
#
# The compiler stores a result that is used several times if computing it again reads more than a
# certain number of tensors. BatchNorm reads six: one large tensor and five with a number for each
# channel. With the default of 4, BatchNorm's result is stored a second time, in float32, and the
# backward pass reads it twice.
OPTIONS: dict[str, Any] = {"comprehensive_padding": False, "realize_reads_threshold": 8}

COMPILER_FIXED_IN = (2, 13)  # see patch_compiler

Signature = tuple[tuple[torch.Size, torch.dtype], ...]


def signature(tree: Tree) -> Signature:
    """Return the shapes and types that a program is compiled for."""
    return tuple((leaf.shape, leaf.dtype) for leaf in trees.leaves(tree))


class Piece:
    """A function ``carry, out = fn(carry, *inputs)`` of the whole population.

    It overwrites the carry, reads the inputs at a position, and writes its out to the row at the
    same position. Products of a compiled piece have this precision; uncompiled pieces compute with
    float32 numbers, because PyTorch's derivatives of stacked convolutions fail in bf16.
    """

    def __init__(
        self, fn: Callable[..., Any], num_rows: int, precision: torch.dtype, *, is_compiled: bool
    ):
        self.num_rows, self.outs = num_rows, None
        is_mixed = is_compiled and precision != torch.float32

        def in_place(carry: Tree, inputs: Tree, position: Tensor) -> Tree:
            now = trees.map(lambda leaf: leaf.index_select(0, position)[0], inputs)
            with torch.autocast(position.device.type, precision, enabled=is_mixed):
                after, out = fn(carry, *now)
            trees.map(lambda old, new: old.copy_(new), carry, after)
            return out

        if is_compiled:
            patch_compiler()
            keep_compiled_code()
            self.function = torch.compile(
                _with_own_code(in_place), fullgraph=True, dynamic=False, options=OPTIONS
            )
        else:
            self.function = calculus.composable(in_place)

    def run(self, carry: Tree, inputs: Tree, position: Tensor) -> None:
        """Run the function once at this position, (1,) int64."""
        out = self.function(carry, inputs, position)
        if self.outs is None:
            self.outs = trees.map(lambda leaf: leaf.new_empty(self.num_rows, *leaf.shape), out)
        trees.map(lambda rows, leaf: rows.index_copy_(0, position, leaf[None]), self.outs, out)


class Program:
    """Repeats a step of the whole population. The inputs have a leading axis of steps.

    A step is one function, or the two functions of Pieces. With Pieces, the inputs have the axes
    (steps, members, repeats, ...).

    A step reads and writes only fixed addresses: the carry, the inputs and outs of all steps, and
    the current position, which the step itself advances. All steps therefore launch the same work,
    and a round replays them without waiting in between.
    """

    def __init__(
        self,
        functions: Sequence[Callable[..., Any]],
        carry: Tree,
        inputs: Tree,
        precision: torch.dtype,
        *,
        is_compiled: bool = True,
    ):
        first = trees.leaves(inputs)[0]
        self.num_steps = first.shape[0]
        self.repeats = first.shape[2] if len(functions) > 1 else 0
        num_rows = self.num_steps * max(1, self.repeats)
        self.pieces = [
            Piece(function, num_rows, precision, is_compiled=is_compiled) for function in functions
        ]
        self.carry = trees.map(torch.clone, carry)
        self.inputs = trees.map(torch.clone, self._by_position(inputs))
        self.position = torch.zeros(1, dtype=torch.int64, device=first.device)
        self.is_compiled, self.is_on_gpu = is_compiled, first.device.type == "cuda"
        # Each graph with its number of steps, longest first.
        self.graphs: list[tuple[int, Callable[[], None]]] = []
        # Whether to wait for the device after each graph. Loading a kernel, which the compiler does
        # hundreds of times in another thread, waits for all work that the device has received.
        self.is_yielding = False
        self._warm_up()

    def __call__(self, carry: Tree, inputs: Tree) -> tuple[Tree, Tree]:
        """Run all steps, starting with this carry. The outs have a leading axis of steps."""
        if not self.graphs:
            self._capture()
        _overwrite(self.carry, carry)
        _overwrite(self.inputs, self._by_position(inputs))
        self.position.zero_()
        left = self.num_steps
        for length, replay in self.graphs:
            for _ in range(left // length):
                replay()
                if self.is_yielding:
                    self._wait()
            left %= length
        return _copied(self.carry), self._outs()

    def predicted_seconds(self) -> float:
        """Predict how long the first call takes, from one step. The call overwrites its results."""
        if not self.graphs:
            self._capture()
        replay = self.graphs[-1][1]  # of a single step
        for _ in range(2):  # the first replay also loads the graph
            self.position.zero_()
            self._wait()
            started = time.perf_counter()
            replay()
            self._wait()
        return self.num_steps * (time.perf_counter() - started)

    def _wait(self) -> None:
        if self.is_on_gpu:
            torch.cuda.current_stream().synchronize()

    @property
    def is_preparing(self) -> bool:
        """Return False: the program is complete."""
        return False

    def cancel(self) -> None:
        """Do nothing: the program is complete."""

    def _by_position(self, inputs: Tree) -> Tree:
        """Reshape leaves (steps, members, repeats, ...) to (steps * repeats, members, ...)."""
        if not self.repeats:
            return inputs
        return trees.map(lambda leaf: leaf.transpose(1, 2).flatten(0, 1), inputs)

    def _outs(self) -> Tree:
        if not self.repeats:
            return trees.map(torch.clone, self.pieces[0].outs)
        # (steps * repeats, ...) -> (steps, repeats, ...)
        shape = self.num_steps, self.repeats
        repeated, last = (
            trees.map(lambda rows: rows.unflatten(0, shape), piece.outs) for piece in self.pieces
        )
        means = trees.map(lambda rows: rows.mean(1), repeated)
        return means | trees.map(lambda rows: rows[:, -1].clone(), last)

    def _advance(self) -> None:
        for k in range(max(1, self.repeats)):
            if k > 0:
                self.position.add_(1)
            self.pieces[0].run(self.carry, self.inputs, self.position)
        for piece in self.pieces[1:]:
            piece.run(self.carry, self.inputs, self.position)
        self.position.add_(1)

    def _warm_up(self) -> None:
        """Compile, if the program is compiled, and prepare the libraries."""
        if not self.is_on_gpu:
            if self.is_compiled:
                self._advance()
            return
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP[self.is_compiled]):
                self.position.zero_()
                self._advance()
        torch.cuda.current_stream().wait_stream(stream)

    def _capture(self) -> None:
        """Capture the graphs.

        The thread that replays them must also capture them: while one thread captures, no other
        thread may wait for the device.
        """
        if not self.is_on_gpu:
            self.graphs = [(1, self._advance)]
            return
        # Should PyTorch have to compile again for this thread, it must do so before the capture.
        self._warm_up()
        lengths = [1]
        if self.is_compiled and self.num_steps >= 2 * UNROLLED:
            lengths = [UNROLLED, 1]
        pool = torch.cuda.graph_pool_handle()  # graphs that run in turns can share their memory
        self.graphs = [(length, self._captured(length, pool)) for length in lengths]

    def _captured(self, num_steps: int, pool: Any) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        # Other threads may allocate memory meanwhile: they save checkpoints and compile programs.
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            for _ in range(num_steps):
                self._advance()
        return graph.replay


def compiler_needs_patch() -> bool:
    """Return whether this PyTorch has the bug that ``patch_compiler`` works around."""
    release = torch.__version__.split("+")[0].split(".")
    return (int(release[0]), int(release[1])) < COMPILER_FIXED_IN


def patch_compiler() -> None:
    """Work around a bug in how PyTorch's compiler raises one of its own exceptions.

    Up to version 2.12 it raises ``CantSplit`` without the two arguments that the exception
    requires (pytorch/pytorch issue 178676, fixed by pull request 178886), so conditional GANs do
    not compile. Default values for these arguments fix this.
    """
    if not compiler_needs_patch():
        return
    from torch._inductor.codegen import simd  # this import takes half a second

    simd.CantSplit.__init__.__defaults__ = (None, None)


def _overwrite(static: Tree, values: Tree) -> None:
    pairs: list[tuple[Tensor, Tensor]] = []
    trees.map(lambda old, new: pairs.append((old, new)), static, values)
    olds, news = zip(*pairs, strict=True)
    # A single call copies many leaves with few kernel launches.
    torch._foreach_copy_(list(olds), list(news))  # pyright: ignore[reportPrivateImportUsage]


def _copied(static: Tree) -> Tree:
    copy = trees.map(torch.empty_like, static)
    _overwrite(copy, static)
    return copy


def _with_own_code(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of a function with its own code object.

    PyTorch refuses to compile the same code object many times.
    """
    return types.FunctionType(
        fn.__code__.replace(), fn.__globals__, fn.__name__, None, fn.__closure__
    )

"""Trace a generator as a graph of PyTorch's own operators, for any number of images.

The graph knows nothing of the classes that built it, so it works without them.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.func import functional_call

from remuda.errors import UserError
from remuda.model.export.portable import Portable

# What PyTorch notes about the origin of a node, including paths of files on this machine.
NOTES = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "from_node")
EXAMPLES = 3  # images in the traced batch; the graph must work for any number


class OneGenerator(nn.Module):
    """Return images as a function of one generator's weights, of noise, and of labels."""

    def __init__(self, portable: Portable):
        super().__init__()
        # In a dict, the network's own weights do not become weights of this module.
        self.parts = {"network": portable.network}
        self.buffer_names, self.label = portable.buffers, portable.label or 0

    def forward(
        self, weights: dict[str, Tensor], noise: Tensor, labels: Tensor | None = None
    ) -> Tensor:
        if labels is None:
            shape, place = (noise.shape[0],), noise.device
            labels = torch.full(shape, self.label, dtype=torch.int64, device=place)
        # A network may overwrite its buffers, even in evaluation mode.
        used = {
            name: weight.clone() if name in self.buffer_names else weight
            for name, weight in weights.items()
        }
        return functional_call(self.parts["network"], used, (noise, labels), tie_weights=False)


class ChosenGenerator(nn.Module):
    """Return images as a function of noise and labels, from weights that this module contains.

    If there are several generators, ``row`` (1,) is the one to use.
    """

    def __init__(self, portable: Portable, names: list[str]):
        super().__init__()
        self.one, self.names = OneGenerator(portable), names
        for i, name in enumerate(names):
            stored = portable.weights[name]
            self.register_buffer(f"weight_{i}", stored[0] if portable.num_rows == 1 else stored)

    def forward(
        self, noise: Tensor, labels: Tensor | None = None, row: Tensor | None = None
    ) -> Tensor:
        weights = {name: self.get_buffer(f"weight_{i}") for i, name in enumerate(self.names)}
        if row is not None:
            weights = {name: stored.index_select(0, row)[0] for name, stored in weights.items()}
        return self.one(weights, noise, labels)


@dataclass(frozen=True, eq=False)
class Traced:
    """One generator as a graph. Its inputs are the weights in order, noise, and maybe labels."""

    program: ExportedProgram
    names: list[str]  # of the weights that images depend on
    constants: dict[str, Tensor]  # tensors that the graph contains, by the name of their input


def trace(portable: Portable) -> Traced:
    """Trace one generator with its weights as inputs. Leave out weights that images ignore."""
    weights = {name: stored[0] for name, stored in portable.weights.items()}
    program = _traced(OneGenerator(portable), portable, weights=weights)
    inputs = program.graph_signature.user_inputs
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    names = [
        name for name, used in zip(weights, inputs, strict=False) if placeholders[str(used)].users
    ]
    if len(names) < len(weights):
        weights = {name: weights[name] for name in names}
        program = _traced(OneGenerator(portable), portable, weights=weights)
    lifted = program.graph_signature.inputs_to_lifted_tensor_constants
    constants = {name: cast(Tensor, program.constants[key]) for name, key in lifted.items()}
    return Traced(program, names, constants)


def trace_with_weights(portable: Portable, names: list[str]) -> ExportedProgram:
    """Trace a generator together with these weights of all rows."""
    row = {} if portable.num_rows == 1 else {"row": torch.zeros(1, dtype=torch.int64)}
    return _traced(ChosenGenerator(portable, names), portable, **row)


def _traced(module: nn.Module, portable: Portable, **others: Any) -> ExportedProgram:
    """Trace a module that takes noise, labels if the model takes them, and other inputs."""
    inputs = others | {"noise": torch.zeros(EXAMPLES, portable.latent)}
    if portable.classes:
        inputs["labels"] = torch.zeros(EXAMPLES, dtype=torch.int64)
    batch = Dim("n")
    shapes: dict[str, Any] = {name: {0: batch} for name in inputs if name not in others}
    for name, value in others.items():
        shapes[name] = dict.fromkeys(value) if isinstance(value, dict) else None
    program = _explained(
        lambda: torch.export.export(
            module.eval(), (), inputs, dynamic_shapes=shapes, strict=False
        ).run_decompositions({}),
        portable.network,
    )
    for node in program.graph.nodes:
        for note in NOTES:
            node.meta.pop(note, None)
    return program


def _explained(build: Callable[[], ExportedProgram], network: nn.Module) -> ExportedProgram:
    """Call ``build``; explain the error if PyTorch cannot trace the network."""
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # about PyTorch's own internals
            return build()
    except Exception as error:  # of many kinds: user code runs here, and PyTorch analyses it
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UserError(
            f"the generator {type(network).__name__} cannot be traced for any number of images "
            f"({reason[:200]}): use only operations on tensors whose result does not depend on "
            "the number of images in Python, and x.shape[0] instead of len(x)"
        ) from error

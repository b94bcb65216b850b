"""Write a traced generator as Python code."""

import operator
from typing import Any

import torch
from torch import fx

from remuda.errors import UserError
from remuda.model.export.tracing import Traced

HEADER = '''"""One generator as PyTorch operators, traced by remuda {version}.

This file is generated: each line is one operator. load.py provides the weights.
"""

import torch
from torch import device, inf, nan  # noqa: F401


def generate(weights, noise, labels=None):
    """Return images (n, C, H, W), floats in [-1, 1]; noise is (n, latent), labels are (n,)."""
'''
CONSTANT = "constant."  # prefix of tensors that are no weights of the network
# Checks of what the tracer assumed about types, which always hold here.
CHECKS = {torch.ops.aten._assert_tensor_metadata.default}


def python_source(traced: Traced, version: str) -> str:
    """Return a file that defines ``generate(weights, noise, labels=None)``."""
    lines = _simplified(traced).python_code("self").src.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("def "))
    body = "\n".join(line.rstrip() for line in lines[start + 1 :]).rstrip()
    return f"{HEADER.format(version=version)}{body}\n"


def constants(traced: Traced) -> dict[str, torch.Tensor]:
    """Return the tensors that the code reads in addition to the weights of the network."""
    return {CONSTANT + name: tensor for name, tensor in traced.constants.items()}


def _simplified(traced: Traced) -> fx.Graph:
    """Return the graph with the inputs ``weights``, a dict, ``noise`` and ``labels``."""
    graph = fx.Graph()
    weights, noise, labels = (graph.placeholder(name) for name in ("weights", "noise", "labels"))
    place = graph.call_function(getattr, (noise, "device"))
    keys = dict(zip(traced.program.graph_signature.user_inputs, traced.names, strict=False))
    keys |= {name: CONSTANT + name for name in traced.constants}
    new: dict[fx.Node, Any] = {}
    for node in traced.program.graph.nodes:
        if node.op == "placeholder" and node.name in keys:
            new[node] = graph.create_node(
                "call_function", operator.getitem, (weights, keys[node.name]), name=node.name
            )
        elif node.op == "placeholder":
            new[node] = labels if noise in new.values() else noise
        elif node.op == "output":
            graph.output(new[node.args[0][0]])
        elif node.op != "call_function":
            raise UserError(
                "the generator contains control flow that depends on tensors, which cannot be "
                "written as Python code: use --to onnx or --to torch"
            )
        elif node.target not in CHECKS:
            copy = graph.node_copy(node, lambda old: new[old])
            # The graph was traced on a CPU, but users may move the weights.
            copy.kwargs = {
                key: place if isinstance(value, torch.device) else value
                for key, value in copy.kwargs.items()
            }
            new[node] = copy
    graph.eliminate_dead_code()
    return graph

"""Write traced generators as one ONNX graph, in which labels choose the weights.

A model with one generator is its graph. Several generators share a graph: the inputs choose a row
of the weights for each image, and a loop generates the images of one row after the other, as
remuda itself does on a CPU. Names of our own values contain a dot, which names of PyTorch's cannot.
"""

import contextlib
import io
import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from remuda.errors import UserError
from remuda.model.export.portable import Portable
from remuda.model.export.tracing import Traced

# Above this size, weights are stored in a second file: a protocol buffer holds at most 2 GiB.
LARGEST = 1 << 30  # bytes


def check_installed() -> None:
    """Raise if the packages that write and run ONNX files are missing."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"export to ONNX requires the package {error.name}: pip install 'remuda[onnx]'"
        ) from None


def write_onnx(portable: Portable, traced: Traced, path: Path) -> None:
    """Write a graph with the inputs ``noise`` and ``labels`` and the output ``images``."""
    import onnx

    model = _converted(traced)
    model.graph.name = "generator"
    inputs = list(model.graph.input)[: len(traced.names)]
    weights = {
        one.name: portable.weights[name].numpy()
        for one, name in zip(inputs, traced.names, strict=True)
    }
    del model.graph.input[: len(weights)]
    if portable.num_rows == 1:
        _add_tensors(model.graph, {name: stored[0] for name, stored in weights.items()})
    else:
        _add_loop(model.graph, portable, weights)
    _restore_inputs(model.graph, portable)
    _remove_notes(model.graph)
    is_large = sum(stored.nbytes for stored in weights.values()) > LARGEST
    location = f"{path.name}.data" if is_large else None
    onnx.save_model(model, path, save_as_external_data=is_large, location=location)


def _converted(traced: Traced) -> Any:
    """Return one generator as an ONNX model whose first inputs are its weights."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it warns of packages that are not needed
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            program = torch.onnx.export(traced.program, (), dynamo=True, verbose=False)
    except Exception as error:  # an operator without a counterpart, among others
        first: BaseException = error
        while first.__cause__ is not None:  # the later errors only say in which step it occurred
            first = first.__cause__
        reason = next(iter(str(first).strip().splitlines()), type(first).__name__)
        raise UserError(
            f"the generator cannot be written as ONNX ({reason[:200]}): use --to safetensors"
        ) from error
    finally:
        logger.setLevel(level)
    assert program is not None
    return program.model_proto


def _remove_notes(graph: Any) -> None:
    """Remove what nobody needs to run the graph, such as the paths of the files that built it."""
    del graph.value_info[:], graph.metadata_props[:]
    for node in graph.node:
        del node.metadata_props[:]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _remove_notes(attribute.g)
    for tensor in (*graph.initializer, *graph.input, *graph.output):
        tensor.doc_string = ""
        del tensor.metadata_props[:]


def _add_tensors(graph: Any, tensors: dict[str, np.ndarray]) -> None:
    from onnx import numpy_helper

    for name, values in tensors.items():
        graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(values), name))


def _restore_inputs(graph: Any, portable: Portable) -> None:
    """Name the inputs and the output. Unused inputs are kept, so that all models look alike."""
    from onnx import TensorProto, helper

    float32, int64 = TensorProto.FLOAT, TensorProto.INT64
    noise = helper.make_tensor_value_info("noise", float32, ["n", portable.latent])
    labels = helper.make_tensor_value_info("labels", int64, ["n"])
    images = helper.make_tensor_value_info("images", float32, ["n", *portable.shape])
    output = graph.output[0].name
    del graph.input[:], graph.output[:]
    graph.input.extend([noise, labels] if portable.classes else [noise])
    graph.output.append(images)
    graph.node.append(helper.make_node("Identity", [output], ["images"]))


def _add_loop(graph: Any, portable: Portable, weights: dict[str, np.ndarray]) -> None:
    """Turn the graph of one generator into the body of a loop over the rows in use."""
    from onnx import TensorProto, helper

    generator = type(graph)()
    generator.CopyFrom(graph)
    del graph.node[:], graph.initializer[:], graph.output[:]
    _add_tensors(graph, {f"herd.{name}": stored for name, stored in weights.items()})
    graph.initializer.extend(generator.initializer)
    _add_tensors(graph, {"herd.image_shape": np.array(portable.shape)})
    _route(graph, portable)
    node = helper.make_node
    graph.node.extend(
        [
            node("Unique", ["herd.image_rows"], ["herd.used_rows"]),
            node("Size", ["herd.used_rows"], ["herd.num_used"]),
            node("Shape", ["herd.image_rows"], ["herd.num_images"]),
            node("Concat", ["herd.num_images", "herd.image_shape"], ["herd.whole_shape"], axis=0),
            node("ConstantOfShape", ["herd.whole_shape"], ["herd.no_images"]),
            node(
                "Loop",
                ["herd.num_used", "", "herd.no_images"],
                ["herd.all_images"],
                body=_loop_body(generator, portable, list(weights)),
            ),
        ]
    )
    shape = ["n", *portable.shape]
    graph.output.append(helper.make_tensor_value_info("herd.all_images", TensorProto.FLOAT, shape))


def _loop_body(generator: Any, portable: Portable, weights: list[str]) -> Any:
    """Return the body of the loop: generate all images of one row and insert them."""
    from onnx import TensorProto, helper

    node, info = helper.make_node, helper.make_tensor_value_info
    shape = ["n", *portable.shape]
    # The generator's own inputs: the noise, and the labels if its networks use them.
    own = [one.name for one in generator.input]
    before = [
        node("Gather", ["herd.used_rows", "herd.step"], ["herd.this_row"]),
        node("Equal", ["herd.image_rows", "herd.this_row"], ["herd.is_mine"]),
        node("NonZero", ["herd.is_mine"], ["herd.mine_across"]),  # (1, m)
        node("Transpose", ["herd.mine_across"], ["herd.mine"], perm=[1, 0]),  # (m, 1)
        *(node("GatherND", [name, "herd.mine"], [f"herd.my.{name}"]) for name in own),
        *(node("Gather", [f"herd.{name}", "herd.this_row"], [name], axis=0) for name in weights),
    ]
    renamed = {name: f"herd.my.{name}" for name in own}
    for one in generator.node:
        one.input[:] = [renamed.get(name, name) for name in one.input]
    made = generator.output[0].name
    after = [
        node("ScatterND", ["herd.images_before", "herd.mine", made], ["herd.images_after"]),
        node("Identity", ["herd.condition"], ["herd.condition_after"]),
    ]
    return helper.make_graph(
        [*before, *generator.node, *after],
        "one_row",
        [
            info("herd.step", TensorProto.INT64, []),
            info("herd.condition", TensorProto.BOOL, []),
            info("herd.images_before", TensorProto.FLOAT, shape),
        ],
        [
            info("herd.condition_after", TensorProto.BOOL, []),
            info("herd.images_after", TensorProto.FLOAT, shape),
        ],
    )


def _route(graph: Any, portable: Portable) -> None:
    """Add the nodes that choose a row of the weights for each image: ``image_rows`` (n,)."""
    from onnx import TensorProto, helper

    by, rows, shares = portable.routing
    node = helper.make_node
    _add_tensors(graph, {"herd.rows": np.array(rows, np.int64)})
    if by == "label":
        nodes = [node("Identity", ["labels"], ["herd.place"])]
    elif by == "position":
        numbers = {"herd.zero": 0, "herd.one": 1, "herd.num_rows": len(rows)}
        _add_tensors(graph, {name: np.array(number) for name, number in numbers.items()})
        nodes = [
            node("Shape", ["noise"], ["herd.noise_shape"]),
            node("Gather", ["herd.noise_shape", "herd.zero"], ["herd.num_noises"]),
            node("Range", ["herd.zero", "herd.num_noises", "herd.one"], ["herd.position"]),
            node("Mod", ["herd.position", "herd.num_rows"], ["herd.place"]),
        ]
    else:
        # The same rule as in remuda.population.mixture.draw, in double precision.
        steps = np.cumsum(np.array(shares, np.float64))
        steps = steps[:-1] / steps[-1]
        thousand, axis = np.array(1000.0), np.array([1])
        _add_tensors(graph, {"herd.steps": steps, "herd.thousand": thousand, "herd.axis": axis})
        nodes = [
            node("Cast", ["noise"], ["herd.wide"], to=TensorProto.DOUBLE),
            node("ReduceSum", ["herd.wide", "herd.axis"], ["herd.sum"]),  # (n, 1)
            node("Mul", ["herd.sum", "herd.thousand"], ["herd.large"]),
            node("Floor", ["herd.large"], ["herd.whole"]),
            node("Sub", ["herd.large", "herd.whole"], ["herd.fraction"]),
            node(
                "GreaterOrEqual", ["herd.fraction", "herd.steps"], ["herd.is_past"]
            ),  # (n, rows - 1)
            node("Cast", ["herd.is_past"], ["herd.past"], to=TensorProto.INT64),
            node("ReduceSum", ["herd.past", "herd.axis"], ["herd.place"], keepdims=0),
        ]
    graph.node.extend([*nodes, node("Gather", ["herd.rows", "herd.place"], ["herd.image_rows"])])

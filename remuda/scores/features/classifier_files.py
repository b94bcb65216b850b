"""Store trained classifiers in the package or in the user's cache, each file atomically.

lenet-mnist-DATA-RECIPE.safetensors    the weights; the metadata state what they were trained on,
                                       and their own digest
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open
from torch import nn

from remuda.scores.digests import tensor_digest
from remuda.scores.features import cache

SHIPPED = Path(__file__).parent / "weights"


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """Identify the data and the recipe that a classifier was trained with."""

    name: str
    data: str  # digest of the training images and labels
    recipe: str  # digest of the recipe and the seed


class Kept(NamedTuple):
    """The facts that a file contains in addition to the weights."""

    accuracy: float | None


class Unusable(Exception):
    """Report that a file exists but cannot be used; the message gives the reason."""


def shipped(stamp: Stamp) -> Path:
    """Return the path of a classifier that comes with the package."""
    return SHIPPED / f"{stamp.name}.safetensors"


def cached(stamp: Stamp) -> Path:
    """Return the path in the cache folder ``classifiers``; every stamp has its own path."""
    return cache.folder("classifiers") / f"{stamp.name}-{stamp.data}-{stamp.recipe}.safetensors"


def read(path: Path, stamp: Stamp, network: nn.Module) -> Kept | None:
    """Load the weights of a file into the network; return None if no file has this stamp."""
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            facts = file.metadata() or {}
            # Clone them, because arithmetic libraries may round differently if memory is not
            # aligned like that of a new tensor.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        if any(facts[key] != value for key, value in asdict(stamp).items()):
            return None
        if facts["weights"] != tensor_digest(tensors):
            raise Unusable("its weights do not match their digest")
        network.load_state_dict(tensors, assign=True)
        network.requires_grad_(False)
        return Kept(float(facts["accuracy"]) if facts["accuracy"] else None)
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise Unusable(f"{type(error).__name__}: {error}") from error


def write(path: Path, stamp: Stamp, network: nn.Module, accuracy: float | None) -> None:
    """Write the weights with their stamp, accuracy and digest."""
    tensors = {
        name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()
    }
    facts = asdict(stamp) | {
        "accuracy": "" if accuracy is None else repr(accuracy),
        "weights": tensor_digest(tensors),
    }
    cache.write(path, tensors, facts)

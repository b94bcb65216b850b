"""Find or download the weights of the Inception network, and read them."""

import hashlib
import http.client
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from remuda.data import download, files
from remuda.data.config import DataConfig
from remuda.data.sources import Source
from remuda.errors import UserError
from remuda.scores.digests import tensor_digest
from remuda.scores.features.inception_layers import (
    NUM_CLASSES,
    NUM_FEATURES,
    Layer,
    build,
    fold,
    layers,
)
from remuda.system.locks import lock

PUBLIC = "pt_inception-2015-12-05-6726825d.pth"
# The SHA-256 of the public file starts with these digits, which are part of its name. No other
# checksum is published.
SHA256 = "6726825d"
FOLDED = tuple(f"fid_inception_2015-12-05_fused_{kind}.safetensors" for kind in ("fp32", "fp16"))
FOLDER = "inception"  # in a data folder; the file may also be in the data folder itself
SOURCE = Source(
    name=FOLDER,
    layouts=(),
    mirrors=("https://github.com/mseitzer/pytorch-fid/releases/download/fid_weights/",),
    packages={},
)
_REMEDY = "delete it to download the public file, or replace it with a good copy"


class Weights(NamedTuple):
    """The content of a file, ready for use."""

    network: nn.Module  # maps images in [-1, 1] to features, on the CPU
    head: Tensor | None  # (1008, 2048); only the public file has it
    digest: str  # digest of the tensors as stored in the file


def data_folders(data_path: str) -> list[Path]:
    """Return data.path if it is set, then the default data folders."""
    found = files.data_folders(DataConfig(path=data_path)) + files.data_folders(DataConfig())
    return list(dict.fromkeys(found))


def locate(folders: list[Path]) -> Path | None:
    """Return the public file, which has a head, from any folder; else a folded file or None."""
    for name in (PUBLIC, *FOLDED):
        for folder in folders:
            for path in (folder / FOLDER / name, folder / name):
                if path.is_file():
                    return path
    return None


def fetch(folders: list[Path]) -> Path:
    """Download the public file into the first writable folder, one process at a time."""
    target = files.first_writable(SOURCE, folders)
    with lock(target / f".{FOLDER}.lock", files.OTHER_FOLDER):
        found = locate(folders)  # another process may have downloaded it meanwhile
        if found is not None:
            return found
        url = download.mirrors(SOURCE)[0] + PUBLIC
        try:
            with tempfile.TemporaryDirectory(dir=target, prefix=".fetching-") as scratch:
                path = Path(scratch) / PUBLIC
                download.transfer(url, path)
                if complaint := _complaint(path):
                    raise OSError(complaint)
                download.publish([path], target / FOLDER)
        except (OSError, http.client.HTTPException) as error:
            listed = " or ".join(map(str, folders))
            raise UserError(
                f"the Inception weights are not in {listed} and cannot be downloaded ({url}: "
                f"{download.reason(error)}): put {PUBLIC} into {target / FOLDER}, or name its "
                "folder with --data or $REMUDA_DATA"
            ) from error
    return target / FOLDER / PUBLIC


def read(path: Path) -> Weights:
    """Return the network with the weights of a public (.pth) or a folded file."""
    if path.suffix == ".pth":
        return _read_public(path)
    try:
        # Clone them, because arithmetic libraries may round differently if memory is not aligned
        # like that of a new tensor.
        tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} cannot be read as safetensors ({error}): {_REMEDY}") from error
    network = build()
    for layer in layers(network):
        weight, bias = (_get(tensors, f"{layer.names.folded}.{kind}", path) for kind in ("w", "b"))
        _put(layer, weight.float(), bias.float(), path)
    return Weights(network, None, tensor_digest(tensors))


def _read_public(path: Path) -> Weights:
    if complaint := _complaint(path):
        raise UserError(f"{path} is damaged, {complaint}: {_REMEDY}")
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a broken archive may raise any exception
        first = str(error).partition("\n")[0]
        raise UserError(
            f"{path} cannot be read safely as a file of weights ({first}): {_REMEDY}"
        ) from error
    named = isinstance(tensors, dict) and all(isinstance(x, Tensor) for x in tensors.values())
    if not named:
        raise UserError(f"{path} does not contain named tensors: {_REMEDY}")
    network = build()
    for layer in layers(network):
        for key in ("conv.weight", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"):
            _get(tensors, f"{layer.names.public}.{key}", path)
        _put(layer, *fold(tensors, layer.names.public), path)
    head = _get(tensors, "fc.weight", path).float()
    if head.shape != (NUM_CLASSES, NUM_FEATURES):
        raise UserError(f"{path} has an fc.weight of shape {tuple(head.shape)}: {_REMEDY}")
    return Weights(network, head, tensor_digest(tensors))


def _complaint(path: Path) -> str | None:
    """Describe the checksum error of a public file; return None if the checksum is correct."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found.startswith(SHA256):
        return None
    return f"its SHA-256 begins with {found[:8]} instead of {SHA256}"


def _get(tensors: dict[str, Tensor], name: str, path: Path) -> Tensor:
    if name not in tensors:
        raise UserError(
            f"{path} lacks {name}, so it is not the Inception network of 2015-12-05: {_REMEDY}"
        )
    return tensors[name]


def _put(layer: Layer, weight: Tensor, bias: Tensor, path: Path) -> None:
    conv = layer.conv
    assert conv.bias is not None
    if weight.shape != conv.weight.shape or bias.shape != conv.bias.shape:
        raise UserError(
            f"{path} has {layer.names.public} of shape {tuple(weight.shape)} instead of "
            f"{tuple(conv.weight.shape)}: {_REMEDY}"
        )
    conv.weight = nn.Parameter(weight, requires_grad=False)
    conv.bias = nn.Parameter(bias, requires_grad=False)

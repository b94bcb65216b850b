"""Cache trained classifiers and the features of reference images between runs."""

import os
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from remuda.system import disk

folder = disk.cache_folder


def write(path: Path, tensors: dict[str, Tensor], facts: dict[str, str]) -> None:
    """Replace a safetensors file atomically; if two processes write it, the last one wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(stored, temporary, facts)
        # The library makes the file private, but other users of a shared cache must read it.
        temporary.chmod(path.parent.stat().st_mode & 0o666)
        disk.sync(temporary)
        temporary.replace(path)
        disk.sync(path.parent)
    except SafetensorError as error:  # raised when the disk is full
        raise OSError(str(error)) from error
    finally:
        temporary.unlink(missing_ok=True)

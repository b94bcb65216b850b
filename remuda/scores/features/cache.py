"""Where trained classifiers and statistics of reference images are kept between runs."""

import os
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from remuda.system import disk


def folder(name: str) -> Path:
    """In $REMUDA_CACHE, or in the user's cache."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "remuda"
    return Path(os.environ.get("REMUDA_CACHE") or user).expanduser() / name


def write(path: Path, tensors: dict[str, Tensor], facts: dict[str, str]) -> None:
    """Replace a safetensors file as a whole; of two processes that do so at once, the last one's stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
            temporary,
            facts,
        )
        temporary.chmod(
            path.parent.stat().st_mode & 0o666
        )  # the library makes it private; colleagues read it too
        disk.sync(temporary)
        temporary.replace(path)
        disk.sync(path.parent)
    except SafetensorError as error:  # the library's word for a full disk
        raise OSError(str(error)) from error
    finally:
        temporary.unlink(missing_ok=True)

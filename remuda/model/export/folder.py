"""Write an exported model as a folder: weights, loader, description, card and pictures."""

import os
import runpy
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor

from remuda.errors import UserError
from remuda.model.export import loaders, manifest, onnx
from remuda.model.export.card import PICTURE, Facts, write_card
from remuda.model.export.portable import Portable, images_of, select
from remuda.model.export.source import constants, python_source
from remuda.model.export.tracing import Traced, trace, trace_with_weights
from remuda.model.loading import load
from remuda.model.model import Model
from remuda.model.pictures import save_grid
from remuda.model.samples import COLUMNS, MAX_GRID_ROWS
from remuda.record import Reader
from remuda.system import disk
from remuda.system.text import Notify, ignore
from remuda.system.version import __version__
from remuda.tensors import random

FORMATS = ("safetensors", "torch", "onnx", "hub")
NUM_CHECKED = 24  # images that must equal remuda's own
TOLERANCE = 1e-4  # of these images, whose values are in [-1, 1]


def export(
    run: str | Path,
    to: str = "safetensors",
    out: str | Path | None = None,
    label: int | str | None = None,
    member: int | None = None,
    checkpoint: int | Literal["best"] | None = None,
    notify: Notify = ignore,
    trust: bool = False,
) -> Path:
    """Export a run's generators as a folder that works without remuda, and return the folder.

    ``to`` is "safetensors", "torch", "onnx" or "hub". By default, the whole model is exported;
    ``label`` selects one class, given by number or name, and ``member`` one generator of a model
    that has several. ``out`` must be new or empty; the default is ``RUN/export-FORMAT``.
    ``checkpoint`` is a round or "best". If the run brings its own code, ``trust`` must allow to
    execute it.
    """
    model = load(run, checkpoint, notify=notify, trust=trust)
    return write_export(model, run, to, out, label, member)


def write_export(
    model: Model,
    run: str | Path,
    to: str = "safetensors",
    out: str | Path | None = None,
    label: int | str | None = None,
    member: int | None = None,
) -> Path:
    """Export a model that was loaded from a run; see ``export``."""
    if to not in FORMATS:
        raise UserError(f"the format {to} is unknown: choose {', '.join(FORMATS[:-1])} or hub")
    if to == "onnx":
        onnx.check_installed()
    target = Path(out) if out is not None else Path(run) / f"export-{to}"
    number = None if label is None else model.label_number(label)
    with _new_folder(target) as folder:
        _write(folder, model, Reader.open(run), to, select(model, number, member))
    return target


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes the target if no error occurs."""
    if target.is_file() or (target.is_dir() and any(target.iterdir())):
        raise UserError(
            f"{target} exists already, and export overwrites nothing: choose another folder with "
            "--out, or remove it"
        )
    is_new, target = not target.exists(), target.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.new")
    if not is_new:  # it may be a mount point or the current folder, which cannot be replaced
        temporary = target / f".{os.getpid()}.new"
    try:
        temporary.mkdir(parents=True)
        yield temporary
        paths = sorted(temporary.iterdir(), key=lambda path: path.name == "config.json")
        for path in paths:
            disk.sync(path)
        if is_new:
            temporary.replace(target)
        else:
            for path in paths:  # config.json is the last one: nothing loads without it
                path.replace(target / path.name)
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write(folder: Path, model: Model, reader: Reader, to: str, portable: Portable) -> None:
    traced = trace(portable)
    if to == "onnx":
        onnx.write_onnx(portable, traced, folder / "model.onnx")
    elif to == "torch":
        torch.export.save(trace_with_weights(portable, traced.names), folder / "model.pt2")
    else:
        _write_weights(folder, portable, traced)
    settings, run = reader.settings, reader.folder.resolve().name
    description = manifest.describe(model, portable, settings, run, to)
    (folder / "config.json").write_text(manifest.to_json(description), encoding="utf-8")
    source = Path(loaders.__file__).with_name("load_onnx.py" if to == "onnx" else "load_torch.py")
    (folder / "load.py").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    loaded = _opened(folder)
    _check(loaded, model, portable)
    _draw(loaded, portable, folder / PICTURE)
    facts = Facts(
        manifest=description,
        settings=settings,
        environment=next(reversed(reader.environments()), {}),
        scores=[score for score in reader.scores() if score.round == model.round],
        num_members=model.engine.size,
        num_weights=sum(portable.weights[name].numel() for name in traced.names),
        counts=model.facts.counts,
        num_classes=len(model.facts.classes),
    )
    (folder / "README.md").write_text(write_card(facts), encoding="utf-8", errors="replace")


def _write_weights(folder: Path, portable: Portable, traced: Traced) -> None:
    """Write the weights of all generators, and the code of one."""
    code = python_source(traced, __version__)
    (folder / "network.py").write_text(code, encoding="utf-8")
    weights = {name: portable.weights[name].contiguous() for name in traced.names}
    for name, tensor in constants(traced).items():
        weights[name] = tensor.expand(portable.num_rows, *tensor.shape).contiguous()
    path = folder / "model.safetensors"
    save_file(weights, path, metadata={"format": "pt"})
    path.chmod((folder / "network.py").stat().st_mode)  # the library lets only the owner read it


def _opened(folder: Path) -> Any:
    """Open an export with its own loader."""
    try:
        return runpy.run_path(str(folder / "load.py"))["load"](folder)
    except Exception as error:  # of the library that reads the format
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UserError(
            f"the exported model cannot be opened ({reason[:300]}), so nothing was written: use "
            "--to safetensors"
        ) from error


def _check(loaded: Any, model: Model, portable: Portable) -> None:
    """Raise if the exported model generates other images than remuda."""
    key = torch.tensor(random.key(0, "export"))
    noise = random.normal(key, (NUM_CHECKED, portable.latent))
    labels = torch.full((NUM_CHECKED,), portable.label or 0)
    if portable.classes:
        labels = torch.arange(NUM_CHECKED) * 7 % len(portable.classes)
    expected = images_of(model, noise, labels, portable.member)
    if not expected.isfinite().all():
        raise UserError(
            f"the model of round {model.round} generates NaN: export an earlier checkpoint"
        )
    for n in (1, NUM_CHECKED):
        given = {"labels": labels[:n].tolist()} if portable.classes else {}
        found = torch.as_tensor(loaded(noise[:n], **given))
        difference = float((found - expected[:n]).abs().max())
        if not difference <= TOLERANCE:
            raise UserError(
                f"the exported model differs from the trained one by {difference:.1g}, so nothing "
                "was written: its generator computes something that cannot be traced, such as "
                "random numbers"
            )


def _draw(loaded: Any, portable: Portable, path: Path) -> None:
    """Draw samples of the exported model: one row per class, or 8 x 8 images."""
    names = list(portable.classes[:MAX_GRID_ROWS])
    if names:
        columns = 10
        labels = [number for number in range(len(names)) for _ in range(columns)]
        images = loaded.sample(len(labels), labels=labels)
    else:
        columns = COLUMNS
        is_point = loaded.config["image"]["is_point"]
        images = loaded.sample(1000 if is_point else columns * columns)
    drawn: Tensor = torch.as_tensor(images)
    save_grid(drawn, columns, path, names or None)

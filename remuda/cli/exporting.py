"""The command that exports a trained model."""

import re
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from remuda.cli.common import (
    BestCheckpoint,
    CheckpointRound,
    RunFolder,
    Trust,
    app,
    chosen_checkpoint,
    say,
)
from remuda.cli.hints import found_class


@app.command("export")
def export_model(
    run: RunFolder,
    to: Annotated[
        str, typer.Option(metavar="FORMAT", help="safetensors, torch, onnx or hub.")
    ] = "safetensors",
    label: Annotated[
        str | None, typer.Option(metavar="K|NAME", help="Export only this class.")
    ] = None,
    member: Annotated[int | None, typer.Option(help="Export only this member's generator.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="New or empty folder; default: RUN/export-FORMAT."),
    ] = None,
    checkpoint: CheckpointRound = None,
    best: BestCheckpoint = False,
    trust: Trust = False,
) -> None:
    """Export trained generators as a folder that works without remuda."""
    from remuda.model.export.folder import write_export
    from remuda.model.loading import load

    model = load(run, chosen_checkpoint(checkpoint, best), notify=say, trust=trust)
    if label is not None:
        label = found_class(label, model.facts.classes)
    folder = write_export(model, run, to, out, label, member)
    say(f"model of round {model.round}: {folder}")
    if to == "hub":
        say(f"upload: hf upload USER/{_repository(run.resolve().name)} {quote(str(folder))} .")


def _repository(name: str) -> str:
    """Return a name that the Hugging Face Hub accepts for a repository."""
    words = re.findall(r"[A-Za-z0-9_]+(?:[.-][A-Za-z0-9_]+)*", name)
    return "-".join(words)[:96].rstrip("-.") or "herd"

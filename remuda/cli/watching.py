"""The command that serves pages of runs while they train."""

from pathlib import Path
from typing import Annotated

import typer

from remuda.cli.common import app, say
from remuda.cli.completion import complete_run
from remuda.cli.hints import found_run


@app.command("watch")
def watch_runs(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|FOLDER",
            help="A run, or a folder of runs.",
            autocompletion=complete_run,
            callback=found_run,
        ),
    ] = Path("runs"),
    host: Annotated[
        str, typer.Option(help="Address to serve at; 0.0.0.0 is every network, with a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to serve at; 0 is any free one.")
    ] = 8711,
) -> None:
    """Serve a page that follows runs while they train; it only reads."""
    from remuda.reports.watch import server

    server.serve(folder, host, port, say)

"""The command that adds ranks to a running run: join."""

from typing import Annotated

import typer

from remuda.cli.common import RunFolder, Trust, app, say


@app.command("join")
def add_ranks(
    run: RunFolder,
    hosts: Annotated[
        str | None,
        typer.Option(
            metavar="A:N,B:N|FILE", help="Hosts and how many new ranks to start on each, by ssh."
        ),
    ] = None,
    ranks: Annotated[
        int, typer.Option(help="New ranks, if the run trains on one machine.", show_default=False)
    ] = 0,
    members: Annotated[
        int | None,
        typer.Option(help="New size of the population; default: one more per new rank."),
    ] = None,
    trust: Trust = False,
) -> None:
    """Add ranks and members to a running run; only md-gan, fl-gan."""
    from remuda.cluster import latecomers
    from remuda.cluster.hosts import read

    say(latecomers.join(run, read(hosts) if hosts else [], ranks, members, trust))

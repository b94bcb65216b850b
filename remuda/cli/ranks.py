"""Start the ranks that run a command together, or join them."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from remuda.cli.common import say, shown_ranks
from remuda.errors import Interrupted, RanksLost, StoppedByFailure, UserError

if TYPE_CHECKING:
    from remuda.config import RunConfig
    from remuda.engines import Communicator

NO_SCORES = "before the scores were known: score the run again"


def start_ranks(
    config: "RunConfig", folder: Path, more: Sequence[str] = (), trains: bool = True
) -> None:
    """Start ranks if the engine needs them. They run the command, and this process waits."""
    from remuda.cluster import hosts, launch, supervision
    from remuda.config import to_dict
    from remuda.config.references import references

    engine = config.engine
    if number := launch.num_to_start(engine):
        places = hosts.parse(engine.hosts)
        if places:  # other hosts may not have the file with the hosts
            more = [*more, "--hosts", engine.hosts]
        job = supervision.Job(
            arguments=[*sys.argv[1:], *more],
            num_ranks=number,
            folder=folder,
            hosts=places,
            restarts=0 if engine.on_failure == "stop" else engine.restarts,
            timeout=engine.failure_timeout,
            trust=bool(references(to_dict(config))),
            trains=trains,
        )
        with shown_ranks() as show:
            status = supervision.start(job, say, show)
        sys.exit(status)


def listed_hosts(text_or_file: str | None) -> str | None:
    """Return the hosts of --hosts as a list such as ``a:4,b:4``."""
    from remuda.cluster import hosts

    return None if text_or_file is None else hosts.describe(hosts.read(text_or_file))


@contextmanager
def scoring_ranks(
    run: Path, ranks: int | None, hosts: str | None, trust: bool
) -> "Iterator[Communicator | None]":
    """Join the ranks that score a run together, and start them first if they are requested.

    Without ranks, one process scores the run, and the block receives None.
    """
    from remuda.cluster import launch
    from remuda.record import Record

    is_requested = bool(ranks or hosts)
    if not is_requested and launch.rank_from_environment().num_ranks == 1:
        yield None
        return
    config = Record.open(run, trust).config
    if not config.data.is_per_rank:
        if is_requested:
            raise UserError(
                f"the ranks of {run} have no data of their own, so one process scores it: leave "
                "out --ranks and --hosts"
            )
        yield None
        return
    place = {"name": "mpi", "ranks": ranks or 0, "hosts": listed_hosts(hosts) or ""}
    config = replace(config, engine=replace(config.engine, **place, on_failure="stop"))
    start_ranks(config, run, trains=False)
    with ExitStack() as stack:
        try:
            communicator = stack.enter_context(launch.join(config.engine))
        except StoppedByFailure as error:  # rank 0 was lost before all ranks had joined
            raise StoppedByFailure(f"{error} {NO_SCORES}") from None
        try:
            if communicator.lost:  # also before they had joined
                raise RanksLost
            with communicator.interruptible():
                yield communicator
        except RanksLost:
            raise StoppedByFailure(f"ranks were lost {NO_SCORES}") from None
        except KeyboardInterrupt:
            communicator.interrupt()
            raise Interrupted(f"stopped {NO_SCORES}") from None

"""Find the images of all sites of a run whose ranks have their own data."""

import platform
import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from remuda.config import RunConfig
from remuda.engines import Communicator, SingleProcess
from remuda.engines.mpi.spans import spans
from remuda.errors import UserError, command
from remuda.scores.sites import Sites, Source
from remuda.system.text import Notify, count

_ORIGIN = re.compile(r"_(pooled|sites)-\d+$")


def data_ranks(config: RunConfig) -> list[int]:
    """Return the ranks whose own data the run still uses.

    These are the ranks with which the run started, except those that lost all their members.
    Members with data of their own rank never move, so their spans are equal.
    """
    ranks, lost = config.data.ranks, set(config.run.lost)
    if not (lost and ranks):
        return list(ranks)
    hosted = spans(config.run.members + len(lost), len(ranks))
    return [rank for rank, span in zip(ranks, hosted, strict=True) if not set(span) <= lost]


def data_rank(config: RunConfig, communicator: Communicator) -> int:
    """Return the rank whose data this process uses.

    If every rank has its own data, members keep the data with which they started.
    """
    ranks = data_ranks(config) or communicator.original_ranks
    if len(ranks) != communicator.num_ranks:
        names = ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))
        raise UserError(
            f"the data of this run belong to {names}, but this job has "
            f"{count(communicator.num_ranks, 'rank')}: use --ranks {len(ranks)}, or resume the run "
            "with --members to divide the data again"
        )
    return ranks[communicator.rank]


def own_source(config: RunConfig, communicator: Communicator) -> Source:
    """Return the images of the site of this rank."""
    rank = data_rank(config, communicator)
    return Source(rank, communicator.host, config.data.at(rank, communicator.host))


def local_sources(config: RunConfig, communicator: Communicator, run: Path) -> list[Source]:
    """Return the images of all sites, which this process must be able to read."""
    ranks = data_ranks(config) or [0]
    if len(ranks) > 1 and "{host}" in config.data.name + config.data.path:
        raise UserError(
            f"the data of this run are on {len(ranks)} hosts: score them there with "
            f"{command('score', run)} --hosts HOST,HOST,..., or only those of this host with "
            f"--site {ranks[0]}"
        )
    host = communicator.host
    return [Source(rank, host, config.data.at(rank, host)) for rank in ranks]


def without_origin(name: str) -> str:
    """Return the name of a score without its number of sites, which changes if a rank is lost."""
    return _ORIGIN.sub("", name)


class Origin(NamedTuple):
    """The images that the samples of a run are compared with."""

    config: RunConfig
    sites: Sites | None = None
    name: str = ""  # last part of the scores' names, if the images are those of one site


def find_origin(
    config: RunConfig,
    run: Path,
    site: int | None,
    communicator: Communicator | None,
    device: torch.device,
    notify: Notify,
) -> Origin:
    """Return the images that a finished run is compared with: all of them, or those of one site."""
    communicator = communicator or SingleProcess()
    is_shared = communicator.num_ranks > 1
    if not config.data.is_per_rank:
        if site is not None or is_shared:
            raise UserError(
                f"the ranks of {run} have no data of their own: leave out --site, --ranks and "
                "--hosts"
            )
        return Origin(config)
    if site is not None:
        if is_shared:
            raise UserError("--site needs one process: leave out --ranks and --hosts")
        ranks = data_ranks(config)
        if ranks and site not in ranks:
            raise UserError(
                f"rank {site} of {run} has no data: choose --site from {', '.join(map(str, ranks))}"
            )
        data = config.data.at(site, platform.node())
        return Origin(replace(config, data=data), None, f"site-{site}")
    if is_shared:
        sources = [own_source(config, communicator)]
    else:
        sources = local_sources(config, communicator, run)
    return Origin(config, Sites(communicator, sources, config.scores, device, notify))


def make_sites(
    config: RunConfig, communicator: Communicator, device: torch.device, notify: Notify
) -> Sites | None:
    """Return the sites of a run that is being trained, if it has scores and each rank has data.

    Every rank calls this. Then rank 0 makes the evaluator, which opens the sites, and the others
    open them.
    """
    if not (config.scores.every and config.data.is_per_rank):
        return None
    return Sites(communicator, [own_source(config, communicator)], config.scores, device, notify)

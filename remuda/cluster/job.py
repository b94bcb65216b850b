"""Describe a remuda command that runs on several ranks, and how it grows or shrinks."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from remuda.cluster import hosts
from remuda.cluster.hosts import Host
from remuda.errors import UserError
from remuda.record import Record


@dataclass(frozen=True, kw_only=True)
class Job:
    """A remuda command that runs on several ranks."""

    arguments: list[str]
    num_ranks: int
    folder: Path  # the run folder
    # Where the ranks start. Without hosts, they all start on this machine or in the batch job.
    hosts: Sequence[Host] = ()
    restarts: int = 0  # how often to restart the run after it lost rank 0 or all ranks
    timeout: float = 30.0  # seconds of silence after which a rank counts as lost
    trust: bool = False  # whether the run may execute code that its folder brings
    trains: bool = True  # whether it trains the run; otherwise it cannot be resumed or joined

    @property
    def resume_arguments(self) -> list[str]:
        """The arguments of the command that resumes the run with its recorded settings."""
        return ["resume", str(self.folder), *(["--trust"] if self.trust else [])]


def in_present_size(job: Job) -> Job:
    """Return a job without the hosts and ranks whose members the run has dropped meanwhile."""
    try:
        engine = Record.open(job.folder, job.trust).config.engine
    except UserError:  # not recorded yet, or not visible from here
        return job
    return replace(
        job,
        hosts=hosts.parse(engine.hosts) or job.hosts,
        num_ranks=engine.ranks or job.num_ranks,
    )


def resumed(job: Job) -> Job:
    """Return the job that resumes a recorded run with its recorded settings."""
    return replace(in_present_size(job), arguments=job.resume_arguments)


def enlarged(job: Job, new_hosts: Sequence[Host], num_new: int, members: int) -> Job:
    """Return the job that resumes a run with more ranks and this many members."""
    job = resumed(job)
    num_ranks = sum(host.slots for host in job.hosts) or job.num_ranks
    places = with_hosts(job.hosts, new_hosts, Host(socket.gethostname(), num_ranks))
    more = ["--ranks", str(num_ranks + num_new), "--members", str(members)]
    if places:
        more += ["--hosts", hosts.describe(places)]
    return replace(
        job,
        arguments=[*job.arguments, *more],
        hosts=places,
        num_ranks=num_ranks + num_new,
    )


def with_hosts(old: Sequence[Host], new: Sequence[Host], here: Host) -> list[Host]:
    """Return the hosts of a larger run. A run without hosts has all its ranks ``here``."""
    if new and not old:
        old = [here]
    return hosts.parse(hosts.describe([*old, *new]))

"""Ask the launcher of a running run for more ranks, and wait until they train."""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from remuda.cluster import hosts, joining
from remuda.cluster.hosts import Host
from remuda.cluster.job import with_hosts
from remuda.cluster.joining import Request
from remuda.config import RunConfig
from remuda.engines import ENGINES
from remuda.engines.mpi.spans import spans
from remuda.errors import UserError, resume_command
from remuda.record import Record
from remuda.reports import status
from remuda.system.text import count, duration

TAKE_TIMEOUT = 15.0  # seconds for the launcher to take a request
JOIN_TIMEOUT = 600.0  # seconds for the run to continue with the new ranks
INTERVAL = 0.2  # seconds


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run before and after new ranks join."""

    folder: Path
    config: RunConfig
    old_hosts: list[Host]  # empty if the run has no hosts
    old_ranks: int
    old_members: int
    new_hosts: list[Host]
    num_new: int  # ranks
    members: int
    root: Host  # the machine of rank 0, with all its ranks if the run has no hosts

    @property
    def num_ranks(self) -> int:
        """The number of ranks afterwards."""
        return self.old_ranks + self.num_new

    @property
    def hosts(self) -> list[Host]:
        """The hosts afterwards; empty if the run still has none."""
        return with_hosts(self.old_hosts, self.new_hosts, self.root)

    @property
    def by_hand(self) -> str:
        """The command that does the same after the run has stopped."""
        places = hosts.describe(self.hosts)
        where = f"--hosts {quote(places)}" if places else f"--ranks {self.num_ranks}"
        engine = "" if ENGINES[self.config.engine.name].spans_processes else "--engine mpi "
        return f"{resume_command(self.folder)} {engine}{where} --members {self.members}"


def join(
    folder: Path,
    new_hosts: Sequence[Host],
    num_new: int,
    members: int | None,
    trust: bool = False,
) -> str:
    """Add ranks to a running run; return a message about the result.

    The new ranks start on ``new_hosts``. Without hosts, ``num_new`` ranks start where the others
    run. ``members`` is the size of the population with the new ranks. If the run brings its own
    code, ``trust`` must allow to execute it.
    """
    plan = make_plan(folder, new_hosts, num_new, members, trust)
    check_strategy(plan)
    check_data(plan)
    hosts.check(plan.new_hosts)
    request = Request(
        id=secrets.token_hex(8),
        hosts=hosts.describe(plan.new_hosts),
        ranks=plan.num_new,
        members=plan.members,
    )
    joining.submit(folder, request)
    _await_launcher(plan)
    _await_ranks(plan, request)
    size = f"{count(plan.members, 'member')} on {count(plan.num_ranks, 'rank')}"
    return f"{request.subject} joined: {folder} continues with {size}"


def make_plan(
    folder: Path,
    new_hosts: Sequence[Host],
    num_new: int,
    members: int | None,
    trust: bool = False,
) -> Plan:
    """Return what would change; raise if the run does not train now, or has no ranks."""
    if bool(new_hosts) == bool(num_new) or num_new < 0:
        raise UserError(
            "name the hosts of the new ranks with --hosts or, to start them where the others run, "
            "their number with --ranks"
        )
    record = Record.open(folder, trust)
    config, now = record.config, status.read(folder)
    old_hosts = hosts.parse(config.engine.hosts)
    old_ranks = sum(host.slots for host in old_hosts) or config.engine.ranks or len(now.ranks) or 1
    old_members = config.strategy.num_members(config.run.members, len(record.facts.classes))
    num_new = num_new or sum(host.slots for host in new_hosts)
    plan = Plan(
        folder=folder,
        config=config,
        old_hosts=old_hosts,
        old_ranks=old_ranks,
        old_members=old_members,
        new_hosts=list(new_hosts),
        num_new=num_new,
        members=old_members + num_new if members is None else members,
        root=Host(now.ranks[0]["host"] if now.ranks else "localhost", old_ranks),
    )
    if now.state != "running":
        check_strategy(plan)  # otherwise, the remedy would fail
        raise UserError(f"{folder} is not running ({now.state}): use {plan.by_hand}")
    if not ENGINES[config.engine.name].spans_processes:
        raise UserError(f"{folder} has no ranks: {stop_command(plan)}, then use {plan.by_hand}")
    if old_hosts and not new_hosts:
        raise UserError(
            f"{folder} runs on {hosts.describe(old_hosts)}: name the hosts of the new ranks with "
            "--hosts"
        )
    return plan


def check_strategy(plan: Plan) -> None:
    """Raise if the strategy cannot train more members, or not this number."""
    strategy, folder = plan.config.strategy, plan.folder
    if plan.members <= plan.old_members or plan.members < plan.num_ranks:
        least = max(plan.old_members + 1, plan.num_ranks)
        raise UserError(
            f"--members {plan.members} is too small, because {folder} has "
            f"{count(plan.old_members, 'member')} and would have {count(plan.num_ranks, 'rank')}: "
            f"use at least {least}"
        )
    try:
        strategy.resize(plan.old_members, plan.members)
        strategy.num_members(plan.members, len(Record(folder).facts.classes))
    except UserError:
        name = Record(folder).setting("strategy", "name")
        raise UserError(
            f"no members can join {folder}, because {name} with these settings keeps its number of "
            "members: to train them on more ranks, stop the run and resume it with --ranks or "
            "--hosts"
        ) from None


def check_data(plan: Plan) -> None:
    """Raise if each rank has its own data, and members would move away from their data."""
    if not plan.config.data.is_per_rank:
        return
    reason = f"the data of {plan.folder} stay with their ranks"
    if plan.config.run.lost:
        raise UserError(
            f"{reason}, and some ranks were lost, so the other ranks would get new numbers: "
            f"{stop_command(plan)}, then use {plan.by_hand}, which divides the data again"
        )
    old = _names(plan.old_hosts or [plan.root])
    if _names(plan.hosts or [plan.root])[: plan.old_ranks] != old:
        raise UserError(
            f"{reason}, and new ranks on a host of the run would change the numbers of the others: "
            "use other hosts"
        )
    before = spans(plan.old_members, plan.old_ranks)
    if spans(plan.members, plan.num_ranks)[: plan.old_ranks] != before:
        members = plan.old_members + plan.num_new * len(before[-1])
        raise UserError(
            f"{reason}, and with {count(plan.members, 'member')} some would move to other ranks: "
            f"use --members {members}"
        )


def _names(places: Sequence[Host]) -> list[str]:
    """Return the name of each rank's host."""
    return [host.name for host in places for _ in range(host.slots)]


def stop_command(plan: Plan) -> str:
    """Return the clause that tells how to stop the run on any launcher."""
    ranks = status.read(plan.folder).ranks
    if not ranks:
        return "stop the run"
    return f"stop the run with `kill -USR1 {ranks[0]['pid']}` on {ranks[0]['host']}"


def _await_launcher(plan: Plan) -> None:
    """Wait until the launcher has taken the request; withdraw the request if it does not."""
    folder, end = plan.folder, time.monotonic() + TAKE_TIMEOUT
    try:
        while (folder / joining.REQUEST).exists() and time.monotonic() < end:
            time.sleep(INTERVAL)
    finally:
        is_withdrawn = joining.remove(folder, joining.REQUEST)
    if is_withdrawn:
        raise UserError(
            f"no launcher answers for {folder}, because its ranks were started by srun or mpirun, "
            f"or on a machine that does not see this folder: {stop_command(plan)}, then use "
            f"{plan.by_hand}"
        )


def _await_ranks(plan: Plan, request: Request) -> None:
    """Wait until the run has recorded its new size; raise if the new ranks cannot join."""
    folder, end = plan.folder, time.monotonic() + JOIN_TIMEOUT
    while Record(folder).setting("run", "members") != plan.members:
        why = joining.refusal(folder, request)
        if why is not None:
            joining.remove(folder, joining.ANSWER)
            raise UserError(why)
        if time.monotonic() > end:
            raise UserError(
                f"{folder} has not continued within {duration(JOIN_TIMEOUT)}: see its output, and "
                f"`remuda status {quote(str(folder))}`"
            )
        time.sleep(INTERVAL)

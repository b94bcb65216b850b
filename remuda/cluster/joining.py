"""Accept new ranks while a run trains: the launcher stops the run and restarts it on more ranks.

``remuda join`` writes a request to RUN/join.json. The launcher looks for it about once a second,
and takes it by removing the file. If the new ranks cannot join, the launcher gives the reason in
RUN/join-answer.json. Otherwise the run continues with the new number of members.
"""

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from remuda.cluster import hosts, mpirun
from remuda.cluster.heartbeats import PROCESSING
from remuda.cluster.job import Job, enlarged, resumed
from remuda.cluster.launcher import Launcher
from remuda.errors import Interrupted, UserError
from remuda.record import Record
from remuda.system import disk
from remuda.system.text import count, listed

REQUEST, ANSWER = "join.json", "join-answer.json"
INTERVAL = 1.0  # seconds between two looks for a request
OLD = 60.0  # seconds after which a waiting request counts as left behind by a killed command


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request for more ranks."""

    id: str
    hosts: str  # of the new ranks, such as "c:2"; "" = where the other ranks run
    ranks: int  # new ranks
    members: int  # size of the population with the new ranks

    @property
    def subject(self) -> str:
        """The new ranks, as the subject of a sentence."""
        names = [host.name for host in hosts.parse(self.hosts)]
        return count(self.ranks, "rank") + (f" on {listed(names)}" if names else "")

    def larger(self, job: Job) -> Job:
        """Return the job with the new ranks."""
        return enlarged(job, hosts.parse(self.hosts), self.ranks, self.members)


# The files


def submit(folder: Path, request: Request) -> None:
    """Write a request; raise if another one is waiting."""
    path = folder / REQUEST
    with suppress(FileNotFoundError):
        if time.time() - path.stat().st_mtime > OLD:
            path.unlink()
    draft = folder / f".{REQUEST}.{request.id}"
    disk.write_text(draft, json.dumps(asdict(request)))
    try:
        os.link(draft, path)  # unlike a move, this keeps an existing file
    except FileExistsError:
        raise UserError(
            f"another `remuda join` waits for {folder}: try again in a minute"
        ) from None
    finally:
        draft.unlink()


def remove(folder: Path, name: str) -> bool:
    """Remove a file; return whether it existed. Of two processes, only one gets True."""
    try:
        (folder / name).unlink()
    except OSError:
        return False
    return True


def take(folder: Path) -> Request | None:
    """Return the waiting request and remove it; return None if there is none."""
    try:
        values = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
        request = Request(**values)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):  # not written by this version of remuda
        remove(folder, REQUEST)
        return None
    return request if remove(folder, REQUEST) else None


def refusal(folder: Path, request: Request) -> str | None:
    """Return why this request was refused; None if it was not, or not yet."""
    try:
        values = json.loads((folder / ANSWER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return values["why"] if values["id"] == request.id else None


# The launcher's part


class Joining:
    """Takes requests for more ranks, and stops the run when it is ready to restart with them."""

    def __init__(self, job: Job):
        self.folder = folder = job.folder
        self._before = job  # without the admitted ranks
        self.waiting: Request | None = None  # accepted; the run has not stopped yet
        self.admitted: Request | None = None  # the run restarts with these ranks
        self._last_look = 0.0
        self._old_root: list[Any] | None = None  # rank 0 of the previous start
        self._accepts = job.trains  # otherwise, requests are for another launcher
        if self._accepts:
            for name in (REQUEST, ANSWER):  # a killed command may have left them
                remove(folder, name)

    def follow(self) -> None:
        """Expect that the run starts or restarts now."""
        self._old_root = _root(self.folder)[0]

    def poll(self, job: Job, launcher: Launcher) -> None:
        """Take a request, and stop the run for it. Call this often."""
        if not self._accepts or time.monotonic() - self._last_look < INTERVAL:
            return
        self._last_look = time.monotonic()
        request = take(self.folder)
        if request is not None:
            self._consider(job, request)
        if self.waiting is None or launcher.is_replaced:
            return
        root, is_training = _root(self.folder)
        # Before the ranks train, a signal would kill them.
        if is_training and root != self._old_root:
            launcher.stop_for_restart()

    def next_job(self, job: Job, launcher: Launcher) -> tuple[Job, str]:
        """After a job has ended, return the job that continues it, and a message.

        The message is empty if the end has nothing to do with new ranks.
        """
        request, self.admitted = self.admitted, None
        if request is not None and not self._has_begun(request):
            self.refuse(request, f"{request.subject} could not start: see the output of the run")
            return resumed(self._before), "the new ranks could not start; continuing without them"
        if request is not None:  # from now on, the record has the number of members
            job = resumed(job)
        if launcher.is_replaced and launcher.output.ended == Interrupted.status:
            return self._admit(job)
        return job, ""

    def _admit(self, job: Job) -> tuple[Job, str]:
        request = self.waiting
        assert request is not None
        self.waiting, self.admitted, self._before = None, request, job
        rounds = Record(self.folder).last_rounds(1)
        start = f"from round {rounds[-1]['round']}" if rounds else "from the beginning"
        verb = "joins" if request.ranks == 1 else "join"
        size = count(request.members, "member")
        return request.larger(job), f"{request.subject} {verb}: restarting {start} with {size}"

    def _has_begun(self, request: Request) -> bool:
        """Return whether the run has recorded its new size, which it does before it trains."""
        try:
            return Record(self.folder).setting("run", "members") == request.members
        except UserError:  # removed, or not visible from here
            return False

    def refuse(self, request: Request, why: str) -> None:
        """Tell the command that asked."""
        text = json.dumps({"id": request.id, "why": why})
        with suppress(OSError):
            disk.write_text(self.folder / ANSWER, text)

    def close(self) -> None:
        """Refuse all requests that are left at the end of the run."""
        if not self._accepts:
            return
        for request in (self.admitted, self.waiting, take(self.folder)):
            if request is not None and not self._has_begun(request):
                self.refuse(request, f"{self.folder} has ended")

    def _consider(self, job: Job, request: Request) -> None:
        if self.waiting is not None:
            return self.refuse(request, "other ranks are joining: try again in a minute")
        try:
            hosts.check(hosts.parse(request.hosts))
            larger = request.larger(job)
            mpirun.command(larger.num_ranks, larger.hosts, larger.timeout)
        except UserError as error:
            return self.refuse(request, str(error))
        self.waiting = request


def _root(folder: Path) -> tuple[list[Any] | None, bool]:
    """Return which process wrote status.json as rank 0, and whether it trains."""
    try:
        status = Record(folder).status()
    except UserError:
        return None, False
    if status is None:
        return None, False
    root = status["ranks"][0]
    is_training = status["state"] == "running" and root["state"] == PROCESSING
    return [root["host"], root["pid"], root["born"]], is_training

"""Track from their heartbeats which ranks are on time, delayed, gone or lost."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from remuda.cluster.heartbeats import FINISHED, INACTIVE, STATES
from remuda.system.processes import Process

ON_TIME, DELAYED, GONE, LOST = "on time", "delayed", "gone", "lost"


@dataclass
class RankStatus:
    """What rank 0 knows about a process."""

    process: Process
    machine: dict[str, Any]  # cores, memory, device
    rank: int  # rank, members, state and round come from the last heartbeat
    members: list[int] = field(default_factory=list)
    state: str = INACTIVE
    round: int = 0
    speed: float | None = None  # members that finish a round in a second; None: not measured
    used: int | None = None  # bytes of memory; None: not measured
    silent: float = 0.0  # seconds since the last heartbeat
    contact: str = ON_TIME
    is_connected: bool = False  # if False, the network may be the cause of the silence
    remark: str = ""  # the last message to the user about this process

    @property
    def name(self) -> str:
        """The rank, host and process, for messages."""
        return f"rank {self.rank} on {self.process.host} (process {self.process.pid})"

    def describe(self) -> dict[str, Any]:
        """Return this process's entry in status.json."""
        names = ("rank", "members", "state", "round", "speed", "used", "contact", "remark")
        values = {name: getattr(self, name) for name in names}
        return {**self.process._asdict(), **values, "silent": round(self.silent, 1), **self.machine}


class Roster:
    """All processes of a run except rank 0."""

    def __init__(
        self, ranks: list[RankStatus], timeout: float, limit: float, tell: Callable[[str], None]
    ):
        self.ranks = {status.process: status for status in ranks}
        self.timeout, self.limit, self.tell = timeout, limit, tell

    def receive(self, heartbeat: dict[str, Any]) -> RankStatus | None:
        """Record a heartbeat and return its sender. Return None for an invalid heartbeat."""
        try:
            sender = self.ranks.get(Process(*heartbeat["process"]))
            rank, t, state = int(heartbeat["rank"]), int(heartbeat["round"]), heartbeat["state"]
            members = [int(member) for member in heartbeat["members"]]
            speed, used = heartbeat.get("speed"), heartbeat.get("used")
            speed = None if speed is None else float(speed)
            used = None if used is None else int(used)
        except (KeyError, TypeError, ValueError):
            return None
        if sender is None or state not in STATES or sender.contact == LOST:
            return None
        if sender.contact == DELAYED:
            self.tell(f"{sender.name} sends heartbeats again, after {sender.silent:.0f} s")
        sender.rank, sender.round, sender.state, sender.members = rank, t, state, members
        sender.speed, sender.used = speed, used
        sender.silent, sender.contact, sender.is_connected, sender.remark = 0.0, ON_TIME, True, ""
        return sender

    def lose(self, process: Process) -> None:
        """Record that MPI has reported the loss of a process. It may return, but is not wanted."""
        if process in self.ranks:
            self.ranks[process].contact = LOST

    def disconnect(self, status: RankStatus) -> None:
        """Record that a process has closed its connection."""
        status.is_connected = False
        if status.contact != LOST and status.state != FINISHED:
            status.contact = GONE

    def advance(self, seconds: float) -> list[RankStatus]:
        """Advance the clock. Return the ranks that now count as lost and must be killed."""
        lost = []
        for status in self.ranks.values():
            if status.state == FINISHED:
                continue
            status.silent += seconds
            if status.contact == ON_TIME and status.silent > self.timeout:
                self._delay(status)
            is_over_limit = 0 < self.limit < status.silent
            if status.contact == DELAYED and status.is_connected and is_over_limit:
                status.contact = LOST
                lost.append(status)
        return lost

    def _delay(self, status: RankStatus) -> None:
        status.contact = DELAYED
        text = f"has sent no heartbeat for {status.silent:.0f} s and is delayed"
        if not status.is_connected:
            text += "; if it still trains, its host cannot reach the host of rank 0 by TCP"
        self.remark(status, text)

    def remark(self, status: RankStatus, text: str) -> None:
        """Tell the user about a rank, and keep the message in status.json."""
        status.remark = f"{status.name} {text}"
        self.tell(status.remark)

    @property
    def is_over(self) -> bool:
        """Whether no more heartbeats are expected."""
        return all(
            status.state == FINISHED or status.contact == LOST or not status.is_connected
            for status in self.ranks.values()
        )

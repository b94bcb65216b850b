"""Rank 0 as the coordinator of the cellular paper: who is there, with what, and who is inactive, processing, finished.

It hears the heartbeats of all ranks in a thread of its own, keeps what it knows in the record's status.json, names the
ranks that are delayed, and kills those that are silent for too long, so that the others can go on without them. A run
in one process has nobody else to hear, and a status.json all the same.
"""

import asyncio
import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from remuda.cluster.heartbeats import (
    FINISHED,
    INACTIVE,
    INTERVAL,
    LONGEST,
    PATIENCE,
    STATES,
    Beats,
    Pulse,
    is_ours,
    message,
    parse,
)
from remuda.config import EngineConfig, RunConfig
from remuda.engines import World
from remuda.errors import explain, is_user_error
from remuda.record import environment
from remuda.system import disk
from remuda.system.devices import usable_cores
from remuda.system.processes import Process, this_process

ON_TIME, DELAYED, GONE, LOST = "on time", "delayed", "gone", "lost"


@dataclass
class Seen:
    """What is known of a process."""

    process: Process
    machine: dict[str, Any]  # cores, memory, device
    rank: int  # the last one that it has named, as what follows
    members: list[int] = field(default_factory=list)
    state: str = INACTIVE
    round: int = 0
    silent: float = 0.0  # seconds
    contact: str = ON_TIME
    is_open: bool = False  # whether its connection is; otherwise its silence may be the network's
    remark: str = ""  # what the user was told of it

    @property
    def name(self) -> str:
        return f"rank {self.rank} on {self.process.host} (process {self.process.pid})"

    def describe(self) -> dict[str, Any]:
        names = ("rank", "members", "state", "round", "contact", "remark")
        values = {name: getattr(self, name) for name in names}
        return {**self.process._asdict(), **values, "silent": round(self.silent, 1), **self.machine}


class Census:
    """All processes of a run but rank 0's, by what they say, and by how long they say nothing."""

    def __init__(
        self, others: list[Seen], timeout: float, limit: float, tell: Callable[[str], None]
    ):
        self.seen = {other.process: other for other in others}
        self.timeout, self.limit, self.tell = timeout, limit, tell

    def hear(self, beat: dict[str, Any]) -> Seen | None:
        """Who has said it; None, and nothing has changed, if it makes no sense."""
        try:
            who = self.seen.get(Process(*beat["process"]))
            rank, t, state = int(beat["rank"]), int(beat["round"]), beat["state"]
            members = [int(member) for member in beat["members"]]
        except (KeyError, TypeError, ValueError):
            return None
        if who is None or state not in STATES:
            return None
        if who.contact == DELAYED:
            self.tell(f"{who.name} is heard again, after {who.silent:.0f} s")
        who.rank, who.round, who.state, who.members = rank, t, state, members
        who.silent, who.contact, who.is_open, who.remark = 0.0, ON_TIME, True, ""
        return who

    def close(self, who: Seen) -> None:
        """Its connection has ended."""
        who.is_open = False
        if who.contact != LOST and who.state != FINISHED:
            who.contact = GONE

    def tick(self, seconds: float) -> list[Seen]:
        """Time goes by; returns those that have been silent for too long, and are to be killed."""
        lost = []
        for who in self.seen.values():
            if who.state == FINISHED:
                continue
            who.silent += seconds
            if who.contact == ON_TIME and who.silent > self.timeout:
                who.contact = DELAYED
                why = (
                    ""
                    if who.is_open
                    else "; if it trains nevertheless, its host cannot reach that of rank 0 by TCP"
                )
                self.remark(who, f"has not been heard for {who.silent:.0f} s and is delayed{why}")
            if who.contact == DELAYED and who.is_open and 0 < self.limit < who.silent:
                who.contact = LOST
                lost.append(who)
        return lost

    def remark(self, who: Seen, text: str) -> None:
        who.remark = f"{who.name} {text}"
        self.tell(who.remark)

    @property
    def is_over(self) -> bool:
        return all(
            who.state == FINISHED or who.contact == LOST or not who.is_open
            for who in self.seen.values()
        )


class Watch(Pulse):
    """Of rank 0."""

    def __init__(
        self,
        path: Path,  # of status.json
        rounds: int,
        members: Sequence[int],
        config: EngineConfig,
        everyone: list[Seen],
        tell: Callable[[str], None],  # called from the thread
    ):
        super().__init__(0, members, interval(config))
        self.path, self.rounds, self.tell = path, rounds, tell
        self.own = everyone[0]
        self.census = Census(everyone[1:], config.heartbeat_timeout, config.heartbeat_limit, tell)
        self.token = secrets.token_hex(16)
        self._lines: dict[Process, asyncio.StreamWriter] = {}
        self._complaints: set[str] = set()
        self._socket = None
        if len(everyone) > 1:
            is_one_host = len({who.process.host for who in everyone}) == 1
            self._socket = socket.create_server(("127.0.0.1" if is_one_host else "", 0))
            self.address = (
                "127.0.0.1" if is_one_host else self.own.process.host,
                self._socket.getsockname()[1],
            )

    def complain(self, text: str) -> None:
        """Once; but for such trouble the run does not stop."""
        if text not in self._complaints:
            self._complaints.add(text)
            self.tell(text)

    async def live(self) -> None:
        if self._socket is not None:
            await asyncio.start_server(self._hear, sock=self._socket, limit=LONGEST)
        before = time.monotonic()
        while not self.stop.is_set():
            now = time.monotonic()
            # If this process was held up itself, the others' silence is not theirs.
            for who in self.census.tick(min(now - before, 2 * self.interval)):
                self._kill(who)
            before = now
            self.write("running")
            await self.pause()
        deadline = time.monotonic() + PATIENCE
        while self.error is None and not self.census.is_over and time.monotonic() < deadline:
            await asyncio.sleep(0.02)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        super().__exit__(kind, error, trace)
        if self._socket is not None:
            self._socket.close()
        if error is None:
            self.write("finished")
        else:
            self.write("stopped", explain(error) if is_user_error(error) else repr(error))

    def write(self, state: str, why: str = "") -> None:
        self.own = replace(self.own, **self.now)
        others = sorted(
            self.census.seen.values(), key=lambda who: (who.contact in (GONE, LOST), who.rank)
        )
        status = {
            "state": state,
            "why": why,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "rounds": self.rounds,
            "ranks": [who.describe() for who in (self.own, *others)],
        }
        try:
            disk.write_text(self.path, json.dumps(status))
        except OSError as error:
            self.complain(f"{self.path} could not be written ({error.strerror}); training goes on")

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        who = None
        try:
            async for line in reader:
                beat = parse(line)
                if beat and not is_ours(beat, self.token):
                    break
                if found := self.census.hear(beat):
                    who = found
                    self._lines[who.process] = writer
        except (
            asyncio.CancelledError
        ):  # the watch has ended, and with it the task, of which Python 3.11 would complain
            return
        except (OSError, ValueError):  # cut off, or a line without end
            pass
        writer.close()
        if who is not None and self._lines[who.process] is writer:
            self.census.close(who)

    def _kill(self, who: Seen) -> None:
        host, silence = (
            who.process.host,
            f"has not been heard for {who.silent:.0f} s and counts as lost",
        )
        near = [
            other
            for other in self.census.seen.values()
            if other.process.host == host and other.is_open and other.contact == ON_TIME
        ]
        if host == self.own.process.host:
            done = "; it is killed" if who.process.kill() else ", but there is no such process"
        elif near:
            self._lines[near[0].process].write(message(self.token, kill=who.process))
            done = f"; rank {near[0].rank} kills it"
        else:
            done = f", but no other rank is on {host}: kill the process there"
        self.census.remark(who, silence + done)


def interval(config: EngineConfig) -> float:
    return min(INTERVAL, config.heartbeat_timeout / 4)


def pulse_of(
    folder: Path,
    config: RunConfig,
    world: World,
    device: torch.device,
    members: Sequence[int],
    tell: Callable[[str], None],
) -> Pulse:
    """For every rank its own; all call it together, and learn where rank 0 listens."""
    own, engine = this_process(world.host), config.engine
    told = world.share([own, machine(device)])
    everyone = [Seen(Process(*process), facts, rank) for rank, (process, facts) in enumerate(told)]
    watch = (
        Watch(folder / "status.json", config.run.rounds, members, engine, everyone, tell)
        if world.is_root
        else None
    )
    if world.num_ranks > 1:
        where = world.share(None if watch is None else [watch.address, watch.token])[0]
        if watch is None:
            processes = [who.process for who in everyone]
            return Beats(
                world.rank, members, interval(engine), tuple(where[0]), where[1], own, processes
            )
    assert watch is not None
    return watch


def machine(device: torch.device) -> dict[str, Any]:
    """What this process can use: cores, bytes of memory of its host, and the device."""
    memory = None
    with suppress(OSError, ValueError):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cores": usable_cores(), "memory": memory, "device": environment.device_name(device)}

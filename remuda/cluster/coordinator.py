"""Coordinate the ranks from rank 0, like the coordinator of the cellular paper.

A thread of rank 0 receives the heartbeats of all ranks and keeps status.json up to date: which
ranks exist, on which hosts, and whether each is inactive, processing or finished. It reports
delayed ranks. It kills ranks that stay silent for too long, so that the others can continue. A run
in one process receives no heartbeats, but it also writes status.json.
"""

import asyncio
import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch

from remuda.cluster.heartbeats import (
    CLOSE_TIMEOUT,
    INTERVAL,
    MAX_LINE,
    Heartbeat,
    HeartbeatSender,
    decode,
    encode,
    has_token,
)
from remuda.cluster.roster import GONE, LOST, ON_TIME, RankStatus, Roster
from remuda.config import EngineConfig, RunConfig
from remuda.engines import Communicator
from remuda.errors import explain, is_user_error
from remuda.record import environment
from remuda.system import disk
from remuda.system.devices import usable_cores
from remuda.system.memory import used_bytes
from remuda.system.processes import Process, this_process

LOOPBACK = "127.0.0.1"


class Coordinator(Heartbeat):
    """Receive the heartbeats of all ranks. Only rank 0 has a coordinator."""

    def __init__(
        self,
        path: Path,  # status.json
        rounds: int,
        members: Sequence[int],
        config: EngineConfig,
        ranks: list[RankStatus],  # rank 0 first
        tell: Callable[[str], None],  # called from the thread
        is_ours: Callable[[], bool] = lambda: True,  # whether the run continues in this process
        measure: Callable[[], int | None] = lambda: None,
    ):
        super().__init__(0, members, heartbeat_interval(config), measure)
        self.path, self.rounds, self.tell, self.is_ours = path, rounds, tell, is_ours
        self.own = ranks[0]
        self._processes = {status.rank: status.process for status in ranks}
        self.roster = Roster(ranks[1:], config.heartbeat_timeout, config.heartbeat_limit, tell)
        self.token = secrets.token_hex(16)
        self._connections: dict[Process, asyncio.StreamWriter] = {}
        self._warnings: set[str] = set()
        self._socket = None
        if len(ranks) > 1:
            is_one_host = len({status.process.host for status in ranks}) == 1
            self._socket = socket.create_server((LOOPBACK if is_one_host else "", 0))
            host = LOOPBACK if is_one_host else self.own.process.host
            self.address = (host, self._socket.getsockname()[1])

    def forget(self, ranks: Collection[int]) -> None:
        for rank in ranks:
            if rank in self._processes:  # it may have been lost before its first heartbeat
                self.roster.lose(self._processes[rank])

    def warn(self, text: str) -> None:
        """Tell the user about a problem, but not more than once."""
        if text not in self._warnings:
            self._warnings.add(text)
            self.tell(text)

    async def run(self) -> None:
        if self._socket is not None:
            await asyncio.start_server(self._receive, sock=self._socket, limit=MAX_LINE)
        before = time.monotonic()
        while not self.stop.is_set():
            now = time.monotonic()
            # If this process was suspended, the other ranks are not to blame for the silence.
            for status in self.roster.advance(min(now - before, 2 * self.interval)):
                self._kill(status)
            before = now
            self.write("running")
            await self.pause()
        deadline = time.monotonic() + CLOSE_TIMEOUT
        while self.error is None and not self.roster.is_over and time.monotonic() < deadline:
            await asyncio.sleep(0.02)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        super().__exit__(kind, error, trace)
        if self._socket is not None:
            self._socket.close()
        if error is None:
            self.write("finished", self.why)
        else:
            self.write("stopped", explain(error) if is_user_error(error) else repr(error))

    def write(self, state: str, why: str = "") -> None:
        """Write status.json. If that fails, warn the user and let the run continue."""
        if not self.is_ours():  # this process was frozen, and the run continues elsewhere
            return
        self.own = replace(self.own, **self.describe())
        others = sorted(
            self.roster.ranks.values(),
            key=lambda status: (status.contact in (GONE, LOST), status.rank),
        )
        content = {
            "state": state,
            "why": why,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "rounds": self.rounds,
            "ranks": [status.describe() for status in (self.own, *others)],
        }
        try:
            disk.write_text(self.path, json.dumps(content))
        except OSError as error:
            self.warn(f"cannot write {self.path} ({error.strerror}); training continues")

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Receive the heartbeats of one connection."""
        sender = None
        try:
            async for line in reader:
                heartbeat = decode(line)
                if heartbeat and not has_token(heartbeat, self.token):
                    break
                if found := self.roster.receive(heartbeat):
                    sender = found
                    self._connections[sender.process] = writer
        except asyncio.CancelledError:
            # The event loop has ended. Without the return, Python 3.11 reports the cancelled task.
            return
        except (OSError, ValueError):  # the connection was cut, or a line is too long
            pass
        writer.close()
        if sender is not None and self._connections[sender.process] is writer:
            self.roster.disconnect(sender)

    def _kill(self, status: RankStatus) -> None:
        host, pid = status.process.host, status.process.pid
        neighbours = [
            other
            for other in self.roster.ranks.values()
            if other.process.host == host and other.is_connected and other.contact == ON_TIME
        ]
        if host == self.own.process.host:
            is_killed = status.process.kill()
            action = "; it was killed" if is_killed else ", but its process no longer exists"
        elif neighbours:
            order = encode(self.token, kill=status.process)
            self._connections[neighbours[0].process].write(order)
            action = f"; rank {neighbours[0].rank} kills it"
        else:
            action = f", but no other rank on {host} can kill it: run `kill -9 {pid}` on {host}"
        silence = f"has sent no heartbeat for {status.silent:.0f} s and counts as lost"
        self.roster.remark(status, silence + action)


def heartbeat_interval(config: EngineConfig) -> float:
    """Return the seconds between two heartbeats."""
    return min(INTERVAL, config.heartbeat_timeout / 4)


def make_heartbeat(
    folder: Path,
    config: RunConfig,
    communicator: Communicator,
    device: torch.device,
    members: Sequence[int],
    tell: Callable[[str], None],
    is_ours: Callable[[], bool] = lambda: True,
) -> Heartbeat:
    """Return the coordinator on rank 0, and a heartbeat sender on every other rank.

    All ranks must call this together: rank 0 tells the others its address.
    """
    own, engine = this_process(communicator.host), config.engine
    measure = partial(used_bytes, device)
    facts = communicator.all_gather([own, describe_machine(device)])
    ranks = [
        RankStatus(Process(*process), machine, rank)
        for rank, (process, machine) in zip(communicator.original_ranks, facts, strict=True)
    ]
    if communicator.is_root:
        path = folder / "status.json"
        coordinator = Coordinator(
            path, config.run.rounds, members, engine, ranks, tell, is_ours, measure
        )
        if communicator.num_ranks > 1:
            communicator.all_gather([coordinator.address, coordinator.token])
        return coordinator
    (host, port), token = communicator.all_gather(None)[0]
    return HeartbeatSender(
        communicator.original_rank,
        members,
        heartbeat_interval(engine),
        (host, port),
        token,
        own,
        [status.process for status in ranks],
        measure,
    )


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Return the cores, the host memory in bytes and the device that this process can use."""
    memory = None
    with suppress(OSError, ValueError):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cores": usable_cores(), "memory": memory, "device": environment.device_name(device)}

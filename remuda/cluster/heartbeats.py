"""Heartbeats: what every rank tells rank 0 about once a second, beside MPI, so that they still tell when MPI hangs.

A rank sends lines of JSON over TCP, from a thread of its own that sleeps in between. Rank 0 listens (remuda.watch), and
may answer with an order to kill a silent neighbour. After a loss ranks have other numbers, so a rank tells who it is by
its host and process.
"""

import asyncio
import hmac
import json
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from remuda.system.processes import Process

STATES = INACTIVE, PROCESSING, FINISHED = ("inactive", "processing", "finished")
INTERVAL = 1.0  # seconds between beats, at most
PATIENCE = 2.0  # seconds that the end of a run waits for what is still to be told
LONGEST = 1 << 20  # bytes of a line


class Pulse(ABC):
    """What this process is doing; the loop says it, and a thread tells it on. A context around the training."""

    def __init__(self, rank: int, members: Sequence[int], interval: float):
        self.interval, self.error = interval, None
        self.now: dict[
            str, Any
        ] = {}  # replaced as a whole, so that the thread never sees half of it
        self._say(INACTIVE, 0, rank, members)

    def at(self, t: int, rank: int, members: Sequence[int]) -> None:
        """Round t begins, or begins again, with the members that are hosted here now: numbers as before any loss."""
        self._say(PROCESSING, t, rank, members)

    def _say(self, state: str, t: int, rank: int, members: Sequence[int]) -> None:
        self.now = {"rank": rank, "members": list(members), "state": state, "round": t}

    @abstractmethod
    async def live(self) -> None:
        """What the thread does until it has to stop."""

    @abstractmethod
    def complain(self, text: str) -> None: ...

    def __enter__(self):
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop, self.stop = self._runner.get_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.error = error
        if error is None:
            self.now = {**self.now, "state": FINISHED}
        with suppress(RuntimeError):  # the thread may have ended, and its loop with it
            self._loop.call_soon_threadsafe(self.stop.set)
        self._thread.join(2 * PATIENCE)

    def _run(self) -> None:
        try:
            with self._runner:
                self._runner.run(self.live())
        except Exception as error:
            self.complain(f"heartbeats have ended ({error!r}); training goes on")

    async def pause(self) -> None:
        """Until the next beat, or until it is time to stop."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), self.interval)


class Beats(Pulse):
    """Of a rank that is not rank 0."""

    def __init__(
        self,
        rank: int,
        members: Sequence[int],
        interval: float,
        address: tuple[str, int],
        token: str,
        own: Process,
        everyone: Collection[Process],
    ):
        super().__init__(rank, members, interval)
        self.address, self.token, self.own, self.everyone = address, token, own, everyone

    def complain(self, text: str) -> None:
        print(
            f"remuda: rank {self.now['rank']} on {self.own.host}: {text}",
            file=sys.stderr,
            flush=True,
        )

    async def live(self) -> None:
        while not self.stop.is_set():
            # If rank 0 cannot be reached, it may be in a second; if it is gone, MPI ends this rank.
            with suppress(OSError):
                # Not asyncio's own way, which looks names up in a thread that could keep the process from ending.
                connection = socket.create_connection(self.address, PATIENCE)
                reader, writer = await asyncio.open_connection(sock=connection, limit=LONGEST)
                obeying = asyncio.create_task(self._obey(reader))
                try:
                    await self._speak(writer)
                finally:
                    obeying.cancel()
                    writer.close()
                    await writer.wait_closed()
            await self.pause()

    async def _speak(self, writer: asyncio.StreamWriter) -> None:
        is_last = False
        while not is_last:
            is_last = self.stop.is_set()
            writer.write(message(self.token, process=self.own, **self.now))
            await writer.drain()
            await self.pause()

    async def _obey(self, reader: asyncio.StreamReader) -> None:
        """Only against ranks of this very run on this host."""
        with suppress(OSError, ValueError):
            async for line in reader:
                order = parse(line)
                if is_ours(order, self.token):
                    for other in self.everyone:
                        if other.host == self.own.host and list(other) == order.get("kill"):
                            other.kill()


def message(token: str, **content: Any) -> bytes:
    return json.dumps({"token": token, **content}).encode() + b"\n"


def parse(line: bytes) -> dict[str, Any]:
    """A line's content; nothing if that is not what ``message`` makes."""
    try:
        content = json.loads(line)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def is_ours(content: dict[str, Any], token: str) -> bool:
    """Whether it comes from a process of this run."""
    return hmac.compare_digest(str(content.get("token")).encode(), token.encode())

"""Send heartbeats: every rank tells rank 0 about once a second what it is doing.

Heartbeats travel over TCP, not MPI, so they arrive even when MPI hangs. A separate thread of each
rank sends them as lines of JSON. Rank 0 receives them (remuda.cluster.coordinator). It may order a
rank to kill a silent rank on the same host. After a failure, ranks keep the numbers that they had
at the start of the job, as in failures.jsonl.
"""

import asyncio
import hmac
import json
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, Self

from remuda.system.processes import Process

STATES = INACTIVE, PROCESSING, FINISHED = ("inactive", "processing", "finished")
INTERVAL = 1.0  # seconds between heartbeats, at most
CLOSE_TIMEOUT = 2.0  # seconds to wait for the last heartbeats at the end of a run
MAX_LINE = 1 << 20  # bytes


class Heartbeat(ABC):
    """Report what this process is doing, from a thread. Use it as a context manager."""

    def __init__(
        self,
        rank: int,  # at the start of the job
        members: Sequence[int],
        interval: float,
        measure: Callable[[], int | None] = lambda: None,
    ):
        self.rank, self.interval, self.error = rank, interval, None
        self.measure = measure  # returns the bytes that this process uses
        self.why = ""  # why the run ends early; status.json states it
        # Replace this dict and never change it in place, so that the thread sees no partial update.
        self.current: dict[str, Any] = {}
        self._update(INACTIVE, 0, members)

    def start_round(self, t: int, members: Sequence[int], speed: float | None = None) -> None:
        """Report that round t starts or restarts, and which member ids this process hosts.

        ``speed`` is the number of members that finish a round in a second, if it is known.
        """
        self._update(PROCESSING, t, members)
        self.current = {**self.current, "speed": speed}

    @abstractmethod
    def forget(self, ranks: Collection[int]) -> None:
        """Expect no more heartbeats from ranks that were lost; these are their first numbers."""

    def describe(self) -> dict[str, Any]:
        """Return what this process is doing, and how much memory it uses."""
        return {**self.current, "used": self.measure()}

    def _update(self, state: str, t: int, members: Sequence[int]) -> None:
        self.current = {
            "rank": self.rank,
            "members": list(members),
            "state": state,
            "round": t,
        }

    @abstractmethod
    async def run(self) -> None:
        """Send or receive heartbeats in the thread until ``self.stop`` is set."""

    @abstractmethod
    def warn(self, text: str) -> None:
        """Tell the user about a problem that does not stop the training."""

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop, self.stop = self._runner.get_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._run_thread, name="heartbeats", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.error = error
        if error is None:
            self.current = {**self.current, "state": FINISHED}
        with suppress(RuntimeError):  # the thread may have ended, and its event loop with it
            self._loop.call_soon_threadsafe(self.stop.set)
        self._thread.join(2 * CLOSE_TIMEOUT)

    def _run_thread(self) -> None:
        try:
            with self._runner:
                self._runner.run(self.run())
        except Exception as error:
            self.warn(f"heartbeats stopped ({error!r}); training continues")

    async def pause(self) -> None:
        """Wait until the next heartbeat is due, or until it is time to stop."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), self.interval)


class HeartbeatSender(Heartbeat):
    """Send the heartbeats of a rank other than rank 0."""

    def __init__(
        self,
        rank: int,
        members: Sequence[int],
        interval: float,
        address: tuple[str, int],
        token: str,
        process: Process,
        processes: Collection[Process],
        measure: Callable[[], int | None] = lambda: None,
    ):
        super().__init__(rank, members, interval, measure)
        self.address, self.token = address, token
        self.process, self.processes = process, processes  # this one, and those of all ranks

    def forget(self, ranks: Collection[int]) -> None:
        pass  # only rank 0 expects heartbeats

    def warn(self, text: str) -> None:
        rank, host = self.rank, self.process.host
        print(f"remuda: rank {rank} on {host}: {text}", file=sys.stderr, flush=True)

    async def run(self) -> None:
        while not self.stop.is_set():
            # If rank 0 cannot be reached, try again; if it is gone, MPI ends this rank.
            with suppress(OSError):
                # asyncio would resolve the name in a thread that can keep the process from exiting.
                connection = socket.create_connection(self.address, CLOSE_TIMEOUT)
                reader, writer = await asyncio.open_connection(sock=connection, limit=MAX_LINE)
                receiving = asyncio.create_task(self._receive_orders(reader))
                try:
                    await self._send(writer)
                finally:
                    receiving.cancel()
                    writer.close()
                    await writer.wait_closed()
            await self.pause()

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        is_last = False
        while not is_last:
            is_last = self.stop.is_set()
            writer.write(encode(self.token, process=self.process, **self.describe()))
            await writer.drain()
            await self.pause()

    async def _receive_orders(self, reader: asyncio.StreamReader) -> None:
        """Kill the processes that rank 0 names, if they are ranks of this run on this host."""
        with suppress(OSError, ValueError):
            async for line in reader:
                order = decode(line)
                if not has_token(order, self.token):
                    continue
                for other in self.processes:
                    if other.host == self.process.host and list(other) == order.get("kill"):
                        other.kill()


def encode(token: str, **content: Any) -> bytes:
    """Return a message as a line of JSON."""
    return json.dumps({"token": token, **content}).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Return the content of a message, or an empty dict if the line is not a message."""
    try:
        content = json.loads(line)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def has_token(content: dict[str, Any], token: str) -> bool:
    """Return whether a message comes from a process of this run."""
    return hmac.compare_digest(str(content.get("token")).encode(), token.encode())

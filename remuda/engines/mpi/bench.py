"""Compute turns in a thread, while the main thread of the rank exchanges messages."""

import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from remuda.tensors import trees
from remuda.tensors.trees import Tree


class Work(NamedTuple):
    """A turn to compute."""

    member: int
    number: int
    rows: Tree  # of this member, (1, ...)
    mail: Tree


class Bench:
    """One thread that computes the turns of the members hosted here, one after the other.

    A turn that is under way continues when a race ends. If the next race wants the same turn with
    the same inputs, it gets the result; otherwise the result is dropped.
    """

    def __init__(self) -> None:
        self._wanted: dict[int, Work] = {}  # by member
        self._results: dict[int, tuple[Work, Any]] = {}
        self._tasks: queue.SimpleQueue[tuple[Work, Callable[..., Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._has_news = threading.Event()

    def want(self, work: Work, turn: Callable[..., Any]) -> None:
        """Compute this turn, unless that is already done or under way."""
        known = self._wanted.get(work.member)
        if known is not None and known.number == work.number and trees.equal(known[2:], work[2:]):
            return
        self._wanted[work.member] = work
        self._results.pop(work.member, None)
        if self._thread is None:
            threads = torch.get_num_threads()
            self._thread = threading.Thread(
                target=self._run, args=(threads,), name="turns", daemon=True
            )
            self._thread.start()
        self._tasks.put((work, turn))

    def result(self, member: int) -> Any | None:
        """Return the result of this member's turn, or None. Raise the error of a failed turn."""
        found = self._results.get(member)
        if found is None or found[0] is not self._wanted[member]:
            return None
        if isinstance(found[1], BaseException):
            raise found[1]
        return found[1]

    def wait(self, seconds: float) -> None:
        """Wait until a turn ends, at most for some seconds."""
        if self._has_news.wait(seconds):
            self._has_news.clear()

    def taken(self, member: int) -> Any:
        """Return the result of a turn that has ended."""
        found = self.result(member)
        assert found is not None, "this turn has not ended"
        return found

    def close(self) -> None:
        """End the thread after the turn that is under way."""
        if self._thread is not None:
            self._wanted.clear()
            self._tasks.put(None)
            self._thread.join()
            self._thread = None

    def _run(self, num_threads: int) -> None:
        torch.set_num_threads(num_threads)
        while (task := self._tasks.get()) is not None:
            work, turn = task
            if self._wanted.get(work.member) is not work:
                continue
            try:
                result = turn(*work)
            except BaseException as error:  # the main thread raises it
                result = error
            self._results[work.member] = work, result
            self._has_news.set()

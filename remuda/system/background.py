"""Run tasks in a background thread, one after the other, and report their errors later."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Self

Task = Callable[[], object]


class Background:
    """One worker thread with a short queue of tasks, for example files to write.

    Tasks run in the order of their submission. If a task fails, the tasks behind it are dropped,
    and the next call of ``submit``, ``check``, ``wait`` or ``close`` raises its error, once. The
    thread starts with the first task. At the end of a ``with`` block, ``close`` runs; the error of
    a task does not replace an error that ends the block.
    """

    def __init__(self, name: str, backlog: int = 1):
        self.name = name  # of the thread, for debuggers
        self.backlog = backlog  # unfinished tasks above which ``submit`` waits, >= 1
        self._tasks: deque[Task] = deque()  # the first one is running
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def submit(self, task: Task) -> None:
        """Run a task after the earlier ones; wait while ``backlog`` tasks are unfinished."""
        with self._changed:
            assert not self._is_closed, "the worker thread is closed"
            self._changed.wait_for(lambda: len(self._tasks) < self.backlog)
            self._raise_error()
            self._tasks.append(task)
            self._changed.notify_all()
        if self._thread is None:
            # A daemon does not keep a process alive that fails before it calls close.
            self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
            self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Whether any task is unfinished."""
        with self._changed:
            return bool(self._tasks)

    def check(self) -> None:
        """Raise the error of an earlier task, if there is one. This never waits."""
        with self._changed:
            self._raise_error()

    def wait(self) -> None:
        """Wait until all tasks are done, then raise the error of a task, if there is one."""
        with self._changed:
            self._changed.wait_for(lambda: not self._tasks)
            self._raise_error()

    def close(self) -> None:
        """Wait until all tasks are done, end the thread, and raise the error of a task."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        self.check()

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._tasks or self._is_closed)
                if not self._tasks:
                    return
                task = self._tasks[0]
            error: BaseException | None = None
            try:
                task()
            except BaseException as raised:  # the calling thread raises it again
                error = raised
            del task  # it may hold much memory
            with self._changed:
                self._tasks.popleft()
                if error is not None:
                    self._error = error
                    self._tasks.clear()
                self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            self.close()
        except BaseException as late:
            if error is None or not isinstance(late, Exception):
                raise

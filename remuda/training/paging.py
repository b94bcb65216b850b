"""Keep the page of a run up to date while the run trains."""

import time
from pathlib import Path

from remuda.record import Record
from remuda.reports import page
from remuda.system.background import Background
from remuda.system.text import Notify

FIRST = 1.0  # seconds after the start of the run, before which no round writes a page
INTERVAL = 30.0  # seconds from the end of one page to the start of the next, at least
SHARE = 0.01  # of the time that pages may take


class Pages:
    """Write index.html from time to time, in a thread of its own.

    So a page delays neither rounds nor pictures nor checkpoints. A page that cannot be written is
    reported once and does not stop the training.
    """

    def __init__(self, record: Record, notify: Notify):
        self.record, self.notify = record, notify
        self.thread = Background("page")
        self.due = 0.0  # the age of the run, in seconds, at which the next page is due
        self.has_failed = False

    def round(self, age: float) -> None:
        """Write a page in the background, if one is due; ``age`` is the age of the run."""
        if age < max(FIRST, self.due):
            return
        self.due = float("inf")  # until this page is written, so the thread is never busy
        self.thread.submit(lambda: self._write(age))

    def wait(self) -> None:
        """Wait until no page is being written."""
        self.thread.wait()

    def _write(self, age: float) -> None:
        began = time.perf_counter()
        try:
            if self.record.is_ours():
                page.write(self.record.folder)
        except Exception as error:  # of any kind: the page is written again at the end
            self._report(error)
        took = time.perf_counter() - began
        self.due = age + took + max(INTERVAL, took / SHARE)

    def _report(self, error: Exception) -> None:
        if not self.has_failed:
            path = Path(self.record.folder, "index.html")
            reason = " ".join(str(error).split()) or type(error).__name__
            self.notify(f"cannot write {path} yet ({reason}): training continues")
        self.has_failed = True

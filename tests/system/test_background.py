"""A background thread runs tasks in order, limits their number, and reports their errors."""

import threading
import time

import pytest

from remuda.system.background import Background


def test_tasks_run_in_order_on_one_other_thread() -> None:
    done: list[tuple[int, str]] = []
    with Background("writer", backlog=3) as background:
        for i in range(10):
            background.submit(lambda i=i: done.append((i, threading.current_thread().name)))
    assert done == [(i, "writer") for i in range(10)]


def test_submit_waits_only_while_the_backlog_is_full() -> None:
    gate = threading.Event()
    with Background("writer", backlog=2) as background:
        background.submit(gate.wait)
        background.submit(gate.wait)  # does not wait
        assert background.is_busy
        third = threading.Thread(target=background.submit, args=(lambda: None,))
        third.start()
        third.join(0.1)
        assert third.is_alive()
        gate.set()
        third.join(10)
        assert not third.is_alive()
        background.wait()
        assert not background.is_busy


def test_an_error_is_raised_once_and_drops_later_tasks() -> None:
    gate, done = threading.Event(), []

    def fail() -> None:
        gate.wait()
        raise OSError("no space left")

    with Background("writer", backlog=2) as background:
        background.submit(fail)
        background.submit(lambda: done.append("dropped"))
        background.check()  # nothing has failed yet
        gate.set()
        with pytest.raises(OSError, match="no space left"):
            background.wait()
        background.check()
        background.submit(lambda: done.append("later"))
    assert done == ["later"]


@pytest.mark.parametrize("call", ["submit", "check", "close"])
def test_every_later_call_reports_the_error(call: str) -> None:
    background = Background("writer")
    background.submit(lambda: 1 / 0)
    while background.is_busy:
        time.sleep(0.001)
    with pytest.raises(ZeroDivisionError):
        background.submit(lambda: None) if call == "submit" else getattr(background, call)()
    background.close()


def test_the_end_of_a_block_waits_and_reports() -> None:
    with pytest.raises(ZeroDivisionError), Background("writer") as background:
        background.submit(lambda: (time.sleep(0.05), 1 / 0))


def test_the_error_that_ends_a_block_is_not_replaced() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), Background("writer", backlog=2) as background:
        background.submit(lambda: (time.sleep(0.05), done.append("written")))
        background.submit(lambda: 1 / 0)
        raise KeyboardInterrupt
    assert done == ["written"]

"""Stop signals raise an exception only where that is safe."""

import signal
import time

import pytest

from remuda.engines import SingleProcess
from remuda.system.signals import STOP_SIGNALS, StopSignals, handle_stops

on_each = pytest.mark.parametrize("number", STOP_SIGNALS, ids=lambda number: number.name)


@pytest.fixture(autouse=True)
def outer_handlers():
    """Note signals that reach the handlers outside a run."""
    reached = []
    previous = {one: signal.signal(one, lambda *_: reached.append(1)) for one in STOP_SIGNALS}
    yield reached
    for one, handler in previous.items():
        signal.signal(one, handler)
    StopSignals.was_obeyed = False


@on_each
def test_a_signal_waits_for_an_interruptible_block(number):
    done = []
    with pytest.raises(KeyboardInterrupt), SingleProcess() as communicator:
        signal.raise_signal(number)
        done.append("written")
        with communicator.interruptible():
            done.append("computed")
    assert done == ["written"]


@on_each
def test_a_signal_ends_an_interruptible_block_at_once(number):
    done = []
    with pytest.raises(KeyboardInterrupt), SingleProcess() as run, run.interruptible():
        signal.raise_signal(number)
        done.append("computed")
    assert not done


@on_each
def test_a_signal_whose_exception_python_ignores_comes_again(number, capsys):
    class Careless:
        def __del__(self):
            signal.raise_signal(number)

    done = []
    with pytest.raises(KeyboardInterrupt), SingleProcess() as run, run.interruptible():
        Careless()
        done.append("computed")
        time.sleep(5)
        done.append("slept")
    assert done == ["computed"] and not capsys.readouterr().err


@on_each
def test_a_run_that_stops_is_not_interrupted_again(number):
    with SingleProcess() as communicator:
        with pytest.raises(KeyboardInterrupt), communicator.interruptible():
            signal.raise_signal(number)
        communicator.interrupt()
        signal.raise_signal(number)
        with communicator.interruptible():
            signal.raise_signal(number)
    assert StopSignals.was_obeyed


@on_each
def test_a_signal_during_an_import_comes_again(number, tmp_path, monkeypatch):
    """The module suppresses all exceptions, as some libraries do."""
    text = "import signal\ntry:\n    signal.raise_signal({})\nexcept BaseException:\n    pass\n"
    (tmp_path / f"careless_{number}.py").write_text(text.format(int(number)))
    monkeypatch.syspath_prepend(tmp_path)
    done = []
    with pytest.raises(KeyboardInterrupt), SingleProcess() as run, run.interruptible():
        __import__(f"careless_{number}")
        done.append("imported")
        time.sleep(5)
        done.append("slept")
    assert done == ["imported"]


@on_each
def test_a_signal_after_the_last_round_reaches_the_handlers_outside(number, outer_handlers):
    with SingleProcess():
        signal.raise_signal(number)
        assert not outer_handlers
    assert outer_handlers == [1]


def test_a_closed_terminal_stops_a_run():
    assert signal.SIGHUP in STOP_SIGNALS


def test_a_command_that_nohup_started_ignores_its_terminal():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert signal.SIGHUP not in handle_stops(lambda *_: None)
    with SingleProcess() as run, run.interruptible():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN

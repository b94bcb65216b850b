"""Start with an uncompiled program, and replace it by a compiled one while training continues."""

import atexit
import ctypes
import hashlib
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import torch

from remuda.engines.programs import Program, signature
from remuda.system.disk import cache_folder
from remuda.system.text import Notify, duration
from remuda.system.version import __version__
from remuda.tensors import trees
from remuda.tensors.trees import Tree

# Seconds: compile only if the rest of the run would take longer without it. A step that was
# compiled before comes from PyTorch's cache and needs only a few seconds.
WORTH, WORTH_AGAIN = 60.0, 15.0
SWITCH_INTERVAL = 0.0005  # seconds: how soon the training thread gets Python back from the compiler
# Seconds after which training waits for the compiler, instead of starting a round that would end
# later. Uncompiled rounds slow the compiler down, and are themselves so slow that waiting costs
# little. For a step that was compiled before, training waits at once.
PATIENCE, PATIENCE_AGAIN = 30.0, 0.0
CANCEL = 60.0  # seconds to wait for a cancelled compilation when the process ends


class Upgrade:
    """Runs an uncompiled program, until a thread has compiled the same step.

    Compiling pays if the rest of the run would take more than a minute without it. Short runs
    therefore never compile. A measured step predicts the first round, which can take minutes. If
    compiling fails, the uncompiled program stays.
    """

    def __init__(
        self,
        build: Callable[..., Program],  # build(carry, inputs, is_compiled=...)
        rounds_left: Callable[[], int],  # including the current round; 0 if unknown
        settings: Callable[[], AbstractContextManager[None]],  # arithmetic while compiling
        notify: Notify,
    ):
        self.build, self.rounds_left = build, rounds_left
        self.settings, self.notify = settings, notify
        self.program: Program | None = None
        self.compilation: Compilation | None = None
        self.is_settled = False  # no other program will come
        self.marker: Path | None = None  # a file that exists if the step was compiled before
        self.started = 0.0  # when the last call began

    def __call__(self, carry: Tree, inputs: Tree) -> tuple[Tree, Tree]:
        """Run all steps of a round with the program that is ready."""
        if self.program is None:
            self.program = self.build(carry, inputs, is_compiled=False)
            self.marker = _marker(carry, inputs)
            seconds = self.program.predicted_seconds()
        else:  # the last round ended now
            seconds = time.perf_counter() - self.started
        if not self.is_settled:
            self._advance(carry, inputs, seconds)
        self.started = time.perf_counter()
        return self.program(carry, inputs)

    @property
    def is_preparing(self) -> bool:
        """Whether a compiled program is about to take over."""
        return self.compilation is not None

    @property
    def is_known(self) -> bool:
        """Whether the step was compiled before, so that most results are in PyTorch's cache."""
        return self.marker is not None and self.marker.exists()

    def cancel(self) -> None:
        """Stop compiling, if a compilation is running."""
        if self.compilation is not None:
            self.compilation.cancel()
        self.is_settled = True

    def _advance(self, carry: Tree, inputs: Tree, seconds: float) -> None:
        """Start to compile, wait, or take the compiled program, if a round takes these seconds."""
        assert self.program is not None
        if self.compilation is None and self._pays(seconds):
            self._start(carry, inputs)
        if self.compilation is None:
            return
        if self.compilation.is_running:
            patience = PATIENCE_AGAIN if self.is_known else PATIENCE
            if self.compilation.age + seconds < patience:
                return
            self.notify("waiting for the compiler")
            self.compilation.wait()
        self.is_settled, compilation, self.compilation = True, self.compilation, None
        if compilation.program is None:
            self.program.is_yielding = False
            self.notify(
                f"cannot compile the training step ({_first_line(compilation.error)}); continuing "
                "without compilation, which is slower"
            )
            return
        self.program = compilation.program
        self._mark()
        self.notify(
            f"compiled the training step in {duration(compilation.seconds)}; it takes over now"
        )

    def _pays(self, seconds: float) -> bool:
        """Return whether the rest of the run, in rounds of these seconds, takes long enough."""
        return seconds * self.rounds_left() > (WORTH_AGAIN if self.is_known else WORTH)

    def _mark(self) -> None:
        assert self.marker is not None
        with suppress(OSError):  # the user's cache may be read-only
            self.marker.parent.mkdir(parents=True, exist_ok=True)
            self.marker.touch()

    def _start(self, carry: Tree, inputs: Tree) -> None:
        device = trees.leaves(carry)[0].device
        if device.type == "cuda" and not _has_room(device):
            self.is_settled = True
            self.notify(
                "too little device memory is free to compile the training step meanwhile; "
                "continuing without compilation (engine.compile=true compiles before the first "
                "round)"
            )
            return
        assert self.program is not None
        self.program.is_yielding = True
        if self.is_known:
            self.notify("compiling the training step again, mostly from the cache")
        else:
            self.notify("compiling the training step while training continues")
        self.compilation = Compilation(
            lambda: self.build(carry, inputs, is_compiled=True), self.settings
        )


class Compilation:
    """Builds a program in a thread."""

    def __init__(
        self, build: Callable[[], Program], settings: Callable[[], AbstractContextManager[None]]
    ):
        self.build, self.settings = build, settings
        self.program: Program | None = None
        self.error: BaseException | None = None
        self.began, self.seconds = time.perf_counter(), 0.0
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_INTERVAL)
        # At the end of the process, Python would kill the thread inside PyTorch, which crashes.
        atexit.register(self.cancel)
        self._thread = threading.Thread(target=self._run, name="compiler", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the program is still being compiled."""
        return self._thread.is_alive()

    @property
    def age(self) -> float:
        """The seconds since the compilation began."""
        return time.perf_counter() - self.began

    def wait(self) -> None:
        """Wait until the program is compiled, or until a signal raises an exception."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def cancel(self) -> None:
        """Raise an exception in the thread, and wait until the thread has ended."""
        if self._thread.is_alive() and self._thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._thread.ident), ctypes.py_object(SystemExit)
            )
            self._thread.join(CANCEL)

    def _run(self) -> None:
        try:
            with self.settings():
                self.program = self.build()
        except BaseException as error:
            self.error = error
        finally:
            self.seconds = time.perf_counter() - self.began
            sys.setswitchinterval(self._interval)
            atexit.unregister(self.cancel)


def _marker(carry: Tree, inputs: Tree) -> Path:
    """Return the path of the file that marks steps of this kind as compiled.

    Different steps may share a file. Then training waits for the compiler too early, or compiles
    although it hardly pays.
    """
    device = trees.leaves(carry)[0].device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    facts = signature(carry), signature(inputs), name, torch.__version__, __version__
    return cache_folder("compiled") / f"step-{hashlib.sha256(repr(facts).encode()).hexdigest()}"


def _has_room(device: torch.device) -> bool:
    """Return whether the device has room for a second program like the first one."""
    free, _ = torch.cuda.mem_get_info(device)
    reusable = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free + reusable > torch.cuda.max_memory_allocated(device)


def _first_line(error: BaseException | None) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__

"""Model the cost of a run: the parts of its time, how often each occurs, and its memory."""

import math
from dataclasses import dataclass

from remuda.system.text import count, duration


@dataclass(frozen=True)
class Repeated:
    """Work that a run repeats, such as saving a checkpoint."""

    times: int
    seconds: float  # each time
    warm_up: float = 0.0  # additional seconds of the first time

    @property
    def total(self) -> float:
        """Seconds of the whole run."""
        return self.times * self.seconds + self.warm_up if self.times else 0.0


@dataclass(frozen=True)
class Switch:
    """A run that starts with slower steps, until a faster program takes over after a round."""

    seconds: float  # seconds of training until the faster program is ready
    per_step: float  # seconds of a step before that


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """The cost of a run, extrapolated from a few short rounds.

    A round takes ``per_round + num_steps * per_step`` seconds. The first round takes ``warm_up``
    seconds more, for example to compile.
    """

    device: str
    start: float  # seconds from the start of the process to the first round
    warm_up: float
    per_step: float  # seconds of one generator update of every member
    per_round: float  # seconds of the work that does not depend on the number of steps
    num_steps: int  # generator updates per round
    rounds: int
    images_per_round: int
    saves: Repeated  # checkpoints
    samples: Repeated  # grids of samples
    scores: Repeated
    end: float  # seconds from the last round to the end of the process
    state: int  # bytes of the state, and of a checkpoint
    memory: int  # bytes of the GPU while it trains, or of the process
    switch: Switch | None = None

    @property
    def seconds_per_round(self) -> float:
        """Seconds of a round, except the first rounds."""
        return self.per_round + self.num_steps * self.per_step

    @property
    def images_per_second(self) -> float:
        """The number of real images per second, summed over all members."""
        return self.images_per_round / self.seconds_per_round

    @property
    def rounds_before_switch(self) -> int:
        """The number of rounds with slower steps."""
        if self.switch is None:
            return 0
        slow = self.per_round + self.num_steps * self.switch.per_step
        return min(self.rounds, math.ceil(self.switch.seconds / slow))

    @property
    def training(self) -> float:
        """Seconds of all rounds."""
        total = self.warm_up + self.rounds * self.seconds_per_round
        if self.switch is not None:
            slower = self.switch.per_step - self.per_step
            total += self.rounds_before_switch * self.num_steps * slower
        return total

    @property
    def parts(self) -> dict[str, float]:
        """The seconds of each part of the run."""
        return {
            "start": self.start,
            "rounds": self.training,
            "saves": self.saves.total,
            "samples": self.samples.total,
            "scores": self.scores.total,
            "end": self.end,
        }

    @property
    def total(self) -> float:
        """Seconds of the whole run, from the command to its end."""
        return sum(self.parts.values())


def describe(expected: Expectation) -> str:
    """Return the expectation as text, with one line for each part."""
    notes = {
        "start": "process, data, networks and first state",
        "rounds": _describe_rounds(expected),
        "saves": f"{_describe(expected.saves, 'checkpoint')} with {_size(expected.state)}",
        "samples": _describe(expected.samples, "grid"),
        "scores": _describe(expected.scores, "evaluation"),
        "end": "page",
    }
    pace = expected.images_per_second
    lines = [f"on {expected.device}: {duration(expected.total)}, {pace:,.0f} images/s"]
    for name, seconds in expected.parts.items():
        if seconds:
            lines.append(f"  {name:8} {duration(seconds):>12}  {notes[name]}")
    memory = f"of which the state takes {_size(expected.state)}"
    return "\n".join([*lines, f"  {'memory':8} {_size(expected.memory):>12}  {memory}"])


def _describe_rounds(expected: Expectation) -> str:
    step, around = _short(expected.per_step), _short(expected.per_round)
    steps = f"{count(expected.num_steps, 'step')} of {step}"
    text = f"{count(expected.rounds, 'round')} with {steps} and {around} of other work"
    if round(expected.warm_up, 1) > 0:
        text += f"; the first takes {duration(expected.warm_up)} more"
    if expected.switch is not None:
        slow = _short(expected.switch.per_step)
        before = count(expected.rounds_before_switch, "round")
        text += f"; {before} with steps of {slow} until a faster program is ready"
    return text


def _describe(work: Repeated, noun: str) -> str:
    return f"{count(work.times, noun)} of {_short(work.seconds)}"


def _short(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms" if seconds < 1 else duration(seconds)


def _size(number: int) -> str:
    size, unit = (number / 2**20, "MiB") if number < 2**30 else (number / 2**30, "GiB")
    return f"{size:.1f} {unit}"

"""Timed rounds: their lengths, and how their times separate work per step and per round."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from remuda import config
from remuda.experiments import timing
from remuda.training.assemble import assemble
from tests.experiments.clocks import Clock


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    return clock


@dataclass(frozen=True)
class FakeHerd:
    """A herd whose rounds have known costs. Its first round of every length is slower."""

    clock: Clock
    num_batches: int = 600
    per_round: float = 0.0
    per_step: float = 0.0
    per_exchange: float = 0.0
    exchange_every: int = 1
    starting: float = 0.0  # additional seconds of the first round
    compiling: float = 0.0  # seconds for each length of a round
    lengths: list[int] = field(default_factory=list)  # of all rounds so far
    strategy = SimpleNamespace(batches_for=lambda steps: steps)
    engine = SimpleNamespace(device=None)

    @property
    def num_steps(self):
        return self.num_batches

    def round(self, state, t):
        if not self.lengths:
            self.clock.spend(self.starting)
        if self.num_steps not in self.lengths:
            self.clock.spend(self.compiling)
        self.lengths.append(self.num_steps)
        self.clock.spend(self.per_round + self.num_steps * self.per_step)
        if t % self.exchange_every == 0:
            self.clock.spend(self.per_exchange)
        return state, {}


class FakeRecorder:
    def round(self, t, metrics, seconds):
        pass


def track():
    return timing.Track((), FakeRecorder())  # type: ignore[arg-type]


# Work per round and per step


def test_two_lengths_separate_the_work_per_round_from_the_work_per_step():
    # 3 s + 4 * 0.5 s = 5 s, and 3 s + 20 * 0.5 s = 13 s.
    assert timing.solve((4, 5.0), (20, 13.0)) == (3.0, 0.5)


def test_rounds_that_cannot_be_shortened_count_as_steps():
    assert timing.solve((1, 5.0), (1, 6.0)) == (0.0, 6.0)
    assert timing.solve((4, 5.0), (4, 6.0)) == (0.0, 1.5)


@pytest.mark.parametrize("quick", [4.0, 0.1], ids=["no faster", "less than its share"])
def test_noise_does_not_change_the_time_of_the_longer_round(quick):
    per_round, per_step = timing.solve((2, quick), (10, 3.0))
    assert per_round >= 0 and per_step >= 0
    assert per_round + 10 * per_step == pytest.approx(3.0)


# If rounds of four steps counted as steps only, the first prediction would be 7 times too long:
# 600 * (0.8 + 4 * 0.03) / 4 = 138 s instead of 0.8 + 600 * 0.03 = 18.8 s.
COSTS = [(0.8, 0.03), (18.0, 0.03), (0.0, 0.03), (0.5, 0.001), (0.01, 20.0)]


@pytest.mark.parametrize(("per_round", "per_step"), COSTS)
def test_the_rounds_of_a_herd_with_known_costs(clock, per_round, per_step):
    herd = FakeHerd(clock, per_round=per_round, per_step=per_step)
    found = timing.time_rounds(track(), herd, 1)  # type: ignore[arg-type]
    assert found.per_round == pytest.approx(per_round)
    assert found.per_step == pytest.approx(per_step)
    assert (found.per_exchange, found.warm_up) == pytest.approx((0, 0))


def test_slow_steps_are_repeated_only_a_few_times(clock):
    herd = FakeHerd(clock, per_step=20.0)
    timing.time_rounds(track(), herd, 1)  # type: ignore[arg-type]
    assert sum(herd.lengths) <= 20


def test_fast_steps_are_repeated_until_they_can_be_timed(clock):
    herd = FakeHerd(clock, per_step=0.01)
    timing.time_rounds(track(), herd, 1)  # type: ignore[arg-type]
    assert max(herd.lengths) * 0.01 >= timing.ENOUGH
    herd = FakeHerd(clock, per_step=1e-5)
    timing.time_rounds(track(), herd, 1)  # type: ignore[arg-type]
    assert max(herd.lengths) == herd.num_steps


def test_work_of_some_rounds_is_measured_in_such_a_round(clock):
    herd = FakeHerd(clock, per_round=1.0, per_step=0.5, per_exchange=4.0, exchange_every=5)
    found = timing.time_rounds(track(), herd, 5)  # type: ignore[arg-type]
    assert (found.per_round, found.per_step, found.per_exchange) == pytest.approx((1.0, 0.5, 4.0))
    herd = FakeHerd(clock, per_round=1.0, per_step=0.5, per_exchange=4.0)
    assert timing.time_rounds(track(), herd, 1).per_round == pytest.approx(5.0)  # type: ignore[arg-type]


EVERY = [
    ("md-gan", {"swap_every": 3}, 3),
    ("md-gan", {"swap_every": 0}, 1),
    ("fl-gan", {"epochs": 2}, 1),
    ("class-parallel", {}, 1),
    ("cellular", {}, 1),
]


@pytest.mark.parametrize(("name", "settings", "rounds"), EVERY)
def test_a_strategy_says_how_often_it_exchanges(tiny, name, settings, rounds):
    herd = assemble(configured(tiny, name, 2, **settings))
    assert timing.rounds_per_exchange(herd) == rounds


def test_only_one_length_is_compiled(clock):
    eager = FakeHerd(clock, per_round=2.0, per_step=0.1)
    uncompiled = timing.time_rounds(track(), eager, 1)  # type: ignore[arg-type]
    herd = FakeHerd(clock, per_round=2.0, per_step=0.01, compiling=90.0)
    found = timing.time_one_length(track(), herd, uncompiled, 1)  # type: ignore[arg-type]
    # An uncompiled round of 200 steps takes 20 s.
    assert set(herd.lengths) == {200}
    assert (found.per_round, found.per_step, found.warm_up) == pytest.approx((2.0, 0.01, 90.0))


# What the run compiles, its rounds, and the expected steps, warm-up and switch. Uncompiled rounds
# take 2 s + 100 * 0.1 s = 12 s, and compiling takes 90 s.
PROGRAMS = {
    "before": (True, 1000, 0.01, 3.0 + 90.0, None),
    "never": ("never", 1000, 0.1, 3.0, None),
    "while it trains": ("auto", 1000, 0.01, 3.0, (12.0 + 90.0, 0.1)),
    "not in a short run": ("auto", 6, 0.1, 3.0, None),  # 60 s are left after the first round
    "in a run that is just long enough": ("auto", 7, 0.01, 3.0, (12.0 + 90.0, 0.1)),
}


@pytest.mark.parametrize(
    ("when", "rounds", "per_step", "warm_up", "switch"), PROGRAMS.values(), ids=PROGRAMS
)
def test_a_run_on_a_gpu(clock, monkeypatch, when, rounds, per_step, warm_up, switch):
    has_started = []

    def with_engine(herd, config, compile):
        # The first program also loads the libraries.
        first = 0.0 if has_started else 3.0
        has_started.append(True)
        if compile:
            return replace(herd, per_step=0.01, compiling=first + 90.0, lengths=[])
        return replace(herd, per_step=0.1, lengths=[], starting=first)

    monkeypatch.setattr(timing, "_with_engine", with_engine)
    monkeypatch.setattr(timing, "_reset_memory", lambda device: None)
    monkeypatch.setattr(timing, "when_to_compile", lambda engine, device: when)
    herd = FakeHerd(clock, num_batches=100, per_round=2.0)
    config = SimpleNamespace(engine=None, run=SimpleNamespace(rounds=rounds))
    found = timing.time_programs(track(), herd, config, 1)  # type: ignore[arg-type]
    assert found.per_round == pytest.approx(2.0)
    assert found.per_step == pytest.approx(per_step)
    assert found.warm_up == pytest.approx(warm_up)
    slower = found.switch and (found.switch.seconds, found.switch.per_step)
    assert slower == (None if switch is None else pytest.approx(switch))


# Lengths of rounds


def configured(tiny, name, steps_per_round, **strategy):
    members = 0 if name == "cellular" else 3
    tiny["strategy"] = {"name": name, "batch_size": 4, "steps_per_round": steps_per_round}
    tiny["strategy"] |= strategy
    tiny["run"] |= {"rounds": 7, "members": members}
    return config.from_dict(tiny)


# Steps and batches of a whole round, then of a round of four steps or just above.
LENGTHS = {
    "class-parallel": ("class-parallel", {}, (10, 10), (4, 4)),
    "several updates of D": ("class-parallel", {"discriminator_steps": 3}, (10, 30), (4, 12)),
    "md-gan": ("md-gan", {}, (10, 10), (4, 4)),
    # MD-GAN's L updates of D share one batch of real images.
    "md-gan, L = 2": ("md-gan", {"discriminator_steps": 2}, (10, 10), (4, 4)),
    # Ten steps of each of two local epochs.
    "fl-gan, E = 2": ("fl-gan", {"epochs": 2}, (20, 20), (4, 4)),
    "cellular": ("cellular", {}, (10, 10), (4, 4)),
    # Turns of three batches and three updates: ten updates need four turns, four updates two.
    "cellular, skipping": ("cellular", {"skip_discriminator": 2}, (12, 12), (6, 6)),
    # Turns of two batches for D, two more for G, and three updates.
    "cellular, both": (
        "cellular",
        {"skip_discriminator": 2, "discriminator_steps": 2},
        (12, 16),
        (6, 8),
    ),
}


@pytest.mark.parametrize(("name", "settings", "whole", "short"), LENGTHS.values(), ids=LENGTHS)
def test_short_rounds_have_about_the_requested_steps(tiny, name, settings, whole, short):
    herd = assemble(configured(tiny, name, 10, **settings))
    assert (herd.num_steps, herd.num_batches) == whole
    shorter = timing.shorten(herd, 4)
    assert (shorter.num_steps, shorter.num_batches) == short


@pytest.mark.parametrize("name", ["class-parallel", "md-gan", "cellular"])
def test_a_short_round_is_at_most_a_round(tiny, name):
    herd = assemble(configured(tiny, name, 2))
    assert (timing.shorten(herd, 4).num_steps, timing.shorten(herd, 4).num_batches) == (2, 2)

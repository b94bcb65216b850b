"""The cost model of a run, on numbers that can be checked by hand, and its description."""

from dataclasses import replace

import pytest

from remuda.experiments.expectation import Expectation, Repeated, Switch, describe

RUN = Expectation(
    device="cpu",
    start=5.0,
    warm_up=2.0,
    per_step=0.01,
    per_round=0.5,
    num_steps=150,
    rounds=1000,
    images_per_round=6000,
    saves=Repeated(100, 0.2, warm_up=0.1),
    samples=Repeated(50, 0.04),
    scores=Repeated(0, 0.0),
    end=1.5,
    state=3 * 2**20,
    memory=5 * 2**29,
)


def test_the_parts_add_up():
    assert RUN.seconds_per_round == pytest.approx(2.0)
    assert RUN.images_per_second == pytest.approx(3000)
    assert RUN.training == pytest.approx(2002)
    assert RUN.parts == pytest.approx(
        {"start": 5, "rounds": 2002, "saves": 20.1, "samples": 2, "scores": 0, "end": 1.5}
    )
    assert RUN.total == pytest.approx(2030.6)


def test_work_that_never_occurs_costs_nothing():
    assert Repeated(0, 3.0, warm_up=9.0).total == 0
    assert Repeated(2, 3.0, warm_up=9.0).total == 15


def test_a_switch_makes_the_first_rounds_slower():
    # Rounds of 0.5 s + 150 * 0.05 s = 8 s; the program is ready after 60 s, during round 8.
    switched = replace(RUN, switch=Switch(60.0, 0.05))
    assert switched.rounds_before_switch == 8
    assert switched.training == pytest.approx(2 + 8 * 8 + 992 * 2)


def test_a_short_run_ends_before_the_switch():
    switched = replace(RUN, rounds=3, switch=Switch(60.0, 0.05))
    assert switched.rounds_before_switch == 3
    assert switched.training == pytest.approx(2 + 3 * 8)


def test_the_description_has_a_line_for_each_part():
    assert describe(RUN).splitlines() == [
        "on cpu: 33 min 51 s, 3,000 images/s",
        "  start           5.0 s  process, data, networks and first state",
        "  rounds    33 min 22 s  1,000 rounds with 150 steps of 10.0 ms and 500.0 ms of other "
        "work; the first takes 2.0 s more",
        "  saves          20.1 s  100 checkpoints of 200.0 ms with 3.0 MiB",
        "  samples         2.0 s  50 grids of 40.0 ms",
        "  end             1.5 s  page",
        "  memory        2.5 GiB  of which the state takes 3.0 MiB",
    ]


def test_the_description_names_scores_and_the_switch():
    scores, switch = Repeated(4, 75.0), Switch(60.0, 0.05)
    text = describe(replace(RUN, warm_up=0.0, scores=scores, switch=switch))
    assert "  scores      5 min 0 s  4 evaluations of 1 min 15 s\n" in text
    assert "the first takes" not in text
    assert "other work; 8 rounds with steps of 50.0 ms until a faster program is ready" in text

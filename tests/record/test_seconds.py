"""The seconds of a start as text, also from damaged or older entries."""

import pytest

from remuda.record import seconds


def test_a_line_names_the_parts_in_a_fixed_order_and_omits_short_ones():
    entry = {"seconds": {"page": 1.0, "start": 4.04, "rounds": 85.0, "save": 0.01, "total": 90.05}}
    assert seconds.describe(entry) == (
        "took 1 min 30 s: starting 4.0 s, training 1 min 25 s, page 1.0 s"
    )


@pytest.mark.parametrize("entry", [{}, {"seconds": None}, {"seconds": {"start": "long"}}])
def test_an_entry_without_seconds_gives_nothing(entry):
    assert seconds.parts(entry) == {} and seconds.describe(entry) == ""

import pytest

from remuda import config
from remuda.experiments import bench


def test_a_measurement_is_multiplied_up(tiny):
    tiny["strategy"]["steps_per_round"] = 10
    tiny["run"]["rounds"] = 7
    expected = bench.measure(config.from_dict(tiny), num_steps=2)
    assert (expected.num_steps, expected.rounds, expected.device) == (10, 7, "cpu")
    assert expected.total == pytest.approx(expected.first + 70 * expected.step)
    assert expected.memory > 50e6

"""The bytes that the metered engine counts in a run equal the formulas exactly."""

from collections import Counter

import pytest

from remuda.config import from_dict
from remuda.experiments.traffic import fl_gan, md_gan, setting_of
from remuda.training.assemble import assemble

FORMULAS = {"md-gan": md_gan, "fl-gan": fl_gan}
SHORT = {"steps_per_round": 3, "discriminator_steps": 2}
STRATEGIES = [
    {"name": "md-gan", "batch_size": 50, "num_fake_batches": 1},
    {"name": "md-gan", "batch_size": 16, "num_fake_batches": "log", "swap_every": 2},
    {"name": "md-gan", "batch_size": 16, "swap_every": 0, **SHORT},
    {"name": "md-gan", "batch_size": 16, "compress_down": "int4", "compress_up": "top-k"},
    {"name": "md-gan", "batch_size": 16, "compress_across": "int8", "compress_up": "int16"},
    {"name": "fl-gan", "batch_size": 50, "epochs": 2},
    {"name": "fl-gan", "batch_size": 50, "compress_down": "int16", "compress_up": "int8"},
    {"name": "fl-gan", "batch_size": 7, "epochs": 2, **SHORT},
]


@pytest.mark.parametrize("members", [1, 4, 5])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_counted_bytes_equal_those_of_table_3(tiny, strategy, members):
    tiny["data"]["limit"] = 200
    tiny["run"]["members"] = members
    config = from_dict({**tiny, "strategy": strategy})
    herd, counted = assemble(config), Counter()
    state = herd.start()
    for t in range(1, config.run.rounds + 1):
        state, _ = herd.round(state, t)
        for (_, direction), num_bytes in herd.engine.bytes.items():
            counted[direction] += num_bytes
    expected = FORMULAS[strategy["name"]](setting_of(config))
    assert counted["down"] == expected.total_down > 0
    assert counted["up"] == expected.total_up > 0
    assert counted["across"] == expected.total_across

"""Cost estimates: how long the timed stretches are, and what follows from their times."""

from types import SimpleNamespace

import pytest
import torch

from remuda import config
from remuda.experiments import bench
from remuda.training.assemble import assemble


def configured(tiny, name, steps_per_round, **strategy):
    members = 0 if name == "cellular" else 3
    tiny["strategy"] = {"name": name, "batch_size": 4, "steps_per_round": steps_per_round}
    tiny["strategy"] |= strategy
    tiny["run"] |= {"rounds": 7, "members": members}
    return config.from_dict(tiny)


def test_a_measurement_is_extrapolated(tiny):
    tiny["strategy"]["steps_per_round"] = 10
    tiny["run"]["rounds"] = 7
    expected = bench.measure(config.from_dict(tiny), num_steps=2)
    assert (expected.num_steps, expected.rounds, expected.device) == (10, 7, "cpu")
    assert expected.total == pytest.approx(expected.first + 70 * expected.step)
    assert expected.memory > 50e6


# Steps and batches of a whole round, then of a stretch of four steps or just above.
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


@pytest.mark.parametrize(("name", "settings", "whole", "stretch"), LENGTHS.values(), ids=LENGTHS)
def test_stretches_have_about_the_requested_steps(tiny, name, settings, whole, stretch):
    herd = assemble(configured(tiny, name, 10, **settings))
    assert (herd.num_steps, herd.num_batches) == whole
    short = bench.shorten(herd, 4)
    assert (short.num_steps, short.num_batches) == stretch


@pytest.mark.parametrize("name", ["class-parallel", "md-gan", "cellular"])
def test_a_stretch_is_at_most_a_round(tiny, name):
    herd = assemble(configured(tiny, name, 2))
    assert (bench.shorten(herd, 4).num_steps, bench.shorten(herd, 4).num_batches) == (2, 2)


@pytest.mark.parametrize(
    ("name", "settings", "step", "images"),
    [
        # Four steps in 2 s; three members with four batches of four images.
        ("md-gan", {"discriminator_steps": 2}, 0.5, 3 * 4 * 4 / 2),
        # Six steps in 2 s; four cells with six batches of four images.
        ("cellular", {"skip_discriminator": 2}, 2 / 6, 4 * 6 * 4 / 2),
    ],
)
def test_times_are_divided_by_the_steps_that_were_made(
    tiny, monkeypatch, name, settings, step, images
):
    # Stretches of 10, 2, 9 and 1 s: the first one is the start, and 2 is the others' median.
    ticks = iter([0.0, 10.0, 10.0, 12.0, 12.0, 21.0, 21.0, 22.0])
    monkeypatch.setattr(bench, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    expected = bench.measure(configured(tiny, name, 12, **settings), num_steps=4)
    assert expected.num_steps == 12 and expected.first == 10.0
    assert expected.step == pytest.approx(step)
    assert expected.total == pytest.approx(10.0 + 7 * 12 * step)
    assert expected.images_per_second == pytest.approx(images)
    text = bench.describe(expected)
    assert "7 rounds of 12 steps take" in text and "including 10.0 s to start" in text


def test_a_measurement_prints_nothing(tiny, capfd):
    bench.measure(config.from_dict(tiny), num_steps=1)
    assert capfd.readouterr() == ("", "")


def test_a_measurement_restores_the_settings_of_pytorch(tiny):
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    tiny["engine"] |= {"threads": before[0] + 1, "deterministic": True}
    bench.measure(config.from_dict(tiny), num_steps=1)
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before

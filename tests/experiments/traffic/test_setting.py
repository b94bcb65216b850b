"""The messages of both methods, with numbers made by hand."""

from dataclasses import replace

import pytest

from remuda.errors import UserError
from remuda.experiments.traffic import fl_gan, md_gan
from tests.experiments.traffic.samples import SMALL


def test_fl_gan_sends_both_networks_each_way_every_e_epochs():
    sent = fl_gan(SMALL)  # a pass over 100 images is 10 iterations, E = 2 of them 20
    assert (sent.down, sent.up, sent.across) == (4000, 4000, 0)
    assert (sent.num_exchanges, sent.num_swaps) == (5, 0)
    assert (sent.total_down, sent.total_up, sent.total_across, sent.total) == (
        80_000,
        80_000,
        0,
        160_000,
    )
    assert (sent.worker_ingress, sent.server_ingress) == (4000, 16_000)


def test_md_gan_sends_batches_down_feedback_up_and_discriminators_across():
    sent = md_gan(SMALL)
    assert (sent.down, sent.up, sent.across) == (400, 200, 1200)
    assert (sent.num_exchanges, sent.num_swaps) == (100, 5)
    assert (sent.total_down, sent.total_up, sent.total_across) == (160_000, 80_000, 24_000)
    assert sent.total == 264_000
    assert (sent.worker_ingress, sent.server_ingress) == (1600, 800)


def test_a_single_batch_is_sent_once():
    sent = md_gan(replace(SMALL, num_fake_batches=1))
    assert (sent.down, sent.up) == (200, 200)


@pytest.mark.parametrize("changes", [{"swaps": False}, {"num_workers": 1, "num_fake_batches": 1}])
def test_without_swaps_nothing_is_sent_across(changes):
    sent = md_gan(replace(SMALL, **changes))
    assert (sent.across, sent.num_swaps, sent.total_across) == (0, 0, 0)
    assert fl_gan(replace(SMALL, **changes)).num_exchanges > 0


def test_an_epoch_ends_with_a_full_batch_or_as_set():
    assert SMALL.period == 20
    assert replace(SMALL, num_images=401).period == 22  # 100.25 images a worker: 11 batches of 10
    assert replace(SMALL, steps_per_epoch=7).period == 14
    assert fl_gan(replace(SMALL, steps_per_epoch=7)).num_exchanges == 7


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_workers": 0}, "num_workers must be at least 1"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"steps_per_epoch": -1}, "steps_per_epoch must be at least 0"),
        (
            {"num_fake_batches": 5},
            "4 members cannot use 5 different batches: lower strategy.num_fake_batches",
        ),
        ({"num_images": 3}, "4 members cannot share 3 images"),
    ],
)
def test_an_impossible_setting_is_refused(changes, words):
    with pytest.raises(UserError, match=words):
        replace(SMALL, **changes)

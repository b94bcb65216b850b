"""The setting of a configuration: scikit-learn's 1,501 digits of 8x8 pixels, and small networks."""

import pytest

from remuda.config import from_dict
from remuda.errors import UserError
from remuda.experiments.traffic import fl_gan, md_gan, setting_of
from remuda.networks import count_parameters


def configured(tiny, members=0, **strategy):
    tiny["strategy"] = strategy
    return setting_of(from_dict(tiny), members)


def test_networks_and_data_are_counted(tiny):
    config = from_dict(tiny)
    setting = setting_of(config)
    assert setting.generator_size == count_parameters(config.networks.generator((1, 8, 8), 10))
    assert setting.discriminator_size == count_parameters(
        config.networks.discriminator((1, 8, 8), 10)
    )
    assert (setting.image_size, setting.num_images, setting.num_workers) == (64, 1501, 3)


def test_md_gan(tiny):
    tiny["run"]["members"] = 10
    setting = configured(tiny, name="md-gan", batch_size=10, num_fake_batches="log", swap_every=2)
    assert (setting.num_workers, setting.num_fake_batches) == (10, 3)
    assert (setting.epochs, setting.steps_per_epoch) == (2, 0)
    assert setting.period == 32  # 150.1 images are 16 batches
    assert setting.iterations == 64
    assert (md_gan(setting).num_exchanges, md_gan(setting).num_swaps) == (64, 2)


def test_md_gan_with_rounds_of_a_given_length(tiny):
    setting = configured(
        tiny, name="md-gan", batch_size=10, steps_per_round=5, discriminator_steps=3
    )
    assert (setting.iterations, setting.steps_per_epoch, setting.period) == (20, 5, 5)
    assert md_gan(setting).num_swaps == 4


def test_md_gan_without_swaps(tiny):
    setting = configured(tiny, name="md-gan", batch_size=10, swap_every=0)
    assert not setting.swaps and md_gan(setting).num_swaps == 0
    assert fl_gan(setting).num_exchanges == 4  # once per epoch


def test_fl_gan(tiny):
    setting = configured(tiny, name="fl-gan", batch_size=10, epochs=3)
    assert (setting.epochs, setting.num_fake_batches) == (3, 1)
    assert setting.iterations == 4 * 3 * 51  # 500.3 images are 51 batches
    assert fl_gan(setting).num_exchanges == 4  # one per round


@pytest.mark.parametrize("steps", [2, 1])
def test_fl_gan_averages_once_per_round_of_any_length(tiny, steps):
    setting = configured(
        tiny, name="fl-gan", batch_size=10, epochs=3, discriminator_steps=steps, steps_per_round=7
    )
    assert (setting.iterations, setting.period) == (84, 21)
    setting = configured(tiny, name="fl-gan", batch_size=10, epochs=3, discriminator_steps=steps)
    assert fl_gan(setting).num_exchanges == 4


def test_the_number_of_members(tiny):
    assert configured(tiny, 7, name="standalone").num_workers == 7
    tiny["run"]["members"] = 0
    assert configured(tiny, name="standalone").num_workers == 10  # a single pair would send nothing
    assert configured(tiny, name="class-parallel").num_workers == 10
    tiny["run"]["members"] = 1
    assert configured(tiny, name="md-gan").num_workers == 1
    with pytest.raises(UserError, match="num_workers must be at least 1"):
        configured(tiny, -1, name="md-gan")
    with pytest.raises(UserError, match="2 members cannot use 5"):
        tiny["run"]["members"] = 10
        configured(tiny, 2, name="md-gan", num_fake_batches=5)


def test_overlapping_shares(tiny):
    tiny["data"] |= {"partition": "subset", "fraction": 0.5}
    setting = configured(tiny, name="md-gan", num_fake_batches=1)
    assert (setting.num_images, setting.images_per_worker) == (3 * 750, 750)

"""Derive the traffic setting of a run from its configuration."""

import math
from dataclasses import replace

from remuda.config import RunConfig
from remuda.data import load
from remuda.experiments.traffic.setting import Setting
from remuda.networks import count_parameters
from remuda.system.pytorch import own_random_state

WORKERS = 10  # as in most of the MD-GAN paper's experiments


def setting_of(config: RunConfig, members: int = 0) -> Setting:
    """Return the setting for a run's networks, data and length; any strategy is possible.

    The number of workers is ``members``, or else ``run.members``, or else the strategy's default.
    If that default is a single pair, the number is ten, as in the paper. If only some of the
    workers take part in an iteration, the setting describes these workers.
    """
    dataset = load(config.data)
    return setting_for(config, dataset.shape, len(dataset.classes), len(dataset.images), members)


def setting_for(
    config: RunConfig,
    shape: tuple[int, int, int],
    num_classes: int,
    num_images: int,
    members: int = 0,
) -> Setting:
    """Return the setting for data that are only known by their size, without loading them."""
    strategy = config.strategy
    num_workers = members or config.run.members or strategy.num_members(0, num_classes)
    if not (members or config.run.members) and num_workers == 1:
        num_workers = WORKERS
    kind = strategy.partitions[0] if config.data.partition == "auto" else config.data.partition
    if kind == "subset":
        num_images = num_workers * max(1, round(config.data.fraction * num_images))
    # Building the layers draws initial weights. Keep the caller's random state unchanged.
    with own_random_state():
        generator = config.networks.generator(shape, num_classes)
        discriminator = config.networks.discriminator(shape, num_classes)
    setting = Setting(
        generator_size=count_parameters(generator),
        discriminator_size=count_parameters(discriminator),
        image_size=math.prod(shape),
        num_images=num_images,
        num_workers=num_workers,
        batch_size=strategy.batch_size,
        generator_leaves=tuple(param.numel() for param in generator.parameters()),
        discriminator_leaves=tuple(param.numel() for param in discriminator.parameters()),
    )
    return _with_plan(setting, config)


def _with_plan(setting: Setting, config: RunConfig) -> Setting:
    """Add the length of the run and the strategy's settings. The given setting must have E = 1."""
    strategy = config.strategy
    plan = strategy.traffic_plan(setting.num_workers)
    num_active = plan.num_active or setting.num_workers
    steps = strategy.steps_in(strategy.batches_per_round(setting.images_per_worker))
    steps_per_epoch = steps // plan.epochs_per_round
    is_pass = steps_per_epoch == setting.period and num_active == setting.num_workers
    return replace(
        setting,
        num_images=round(setting.images_per_worker * num_active),
        num_workers=num_active,
        num_fake_batches=plan.num_fake_batches,
        epochs=plan.epochs,
        steps_per_epoch=0 if is_pass else steps_per_epoch,
        swaps=plan.swaps,
        iterations=config.run.rounds * steps,
        down=plan.down,
        up=plan.up,
        across=plan.across,
    )

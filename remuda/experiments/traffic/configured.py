"""The setting that a run's configuration amounts to."""

from dataclasses import replace

import torch

from remuda.config import RunConfig
from remuda.data import load
from remuda.experiments.traffic.setting import Setting
from remuda.networks import count_parameters
from remuda.strategies import FLGAN, MDGAN
from remuda.strategies.md_gan import WORKERS


def setting_of(config: RunConfig, members: int = 0) -> Setting:
    """What MD-GAN and FL-GAN are about to send, for the networks, data and length of a run of any strategy.

    The number of members is the given one, or else ``run.members``, or else the strategy's own; ten, as in the paper,
    where a strategy trains a single pair.
    """
    strategy, dataset = config.strategy, load(config.data)
    num_classes, num_images = len(dataset.classes), len(dataset.images)
    num_workers = members or config.run.members or strategy.num_members(0, num_classes)
    if not (members or config.run.members) and num_workers == 1:
        num_workers = WORKERS
    kind = strategy.partitions[0] if config.data.partition == "auto" else config.data.partition
    if kind == "subset":
        num_images = num_workers * max(1, round(config.data.fraction * num_images))
    with torch.random.fork_rng(
        devices=[]
    ):  # layers draw their first weights, which nobody needs here
        generator = config.networks.generator(dataset.shape, num_classes)
        discriminator = config.networks.discriminator(dataset.shape, num_classes)
    setting = Setting(
        generator_size=count_parameters(generator),
        discriminator_size=count_parameters(discriminator),
        image_size=dataset.images[0].numel(),
        num_images=num_images,
        num_workers=num_workers,
        batch_size=strategy.batch_size,
    )
    return _with_plan(setting, config)


def _with_plan(setting: Setting, config: RunConfig) -> Setting:
    """How long the run is, and what MD-GAN and FL-GAN set besides; k = 1 and E = 1 where it is another strategy."""
    strategy, a_pass = config.strategy, setting.period
    steps = strategy.steps_in(strategy.batches_per_round(setting.images_per_worker))
    setting = replace(setting, iterations=config.run.rounds * steps)
    if isinstance(strategy, MDGAN):
        k = strategy.num_batches(setting.num_workers)
        setting = replace(
            setting,
            num_fake_batches=k,
            epochs=strategy.swap_every or 1,
            swaps=strategy.swap_every > 0,
        )
    elif isinstance(strategy, FLGAN):
        setting, steps = replace(setting, epochs=strategy.epochs), steps // strategy.epochs
    return setting if steps == a_pass else replace(setting, steps_per_epoch=steps)

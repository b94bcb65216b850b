"""Draw the inputs of MD-GAN's iterations: noise, labels, keys, and each worker's two batches."""

from typing import NamedTuple

import torch
from torch import Tensor

from remuda.data.batches import Batch
from remuda.engines.base import Engine
from remuda.strategies.context import Context
from remuda.tensors import random, trees


class Iteration(NamedTuple):
    """The inputs of one iteration; n of the N workers are hosted here."""

    images: Tensor  # (n, b, C, H, W): real images as stored
    labels: Tensor  # (n, b): their labels
    keys: Tensor  # (n, L): keys of the discriminators' updates
    fake_labels: Tensor  # (n, 2, b): labels of each worker's X_g and X_d
    noise: Tensor  # (k, b, latent): noise of X(1) ... X(k)
    classes: Tensor  # (k, b): labels of X(1) ... X(k)
    places: Tensor  # (N, 2): which of the k batches are each worker's X_g and X_d
    weights: Tensor  # (N,): the weight of each worker's feedback; all weights sum to 1
    scheduled: dict[str, Tensor]  # values of Overrides; empty without a schedule
    lies: tuple[Tensor, ...] = ()  # (n,) each: who falsifies feedback, and keys; empty if nobody


def draw_iterations(
    context: Context,
    engine: Engine,
    real: Batch,
    alive: Tensor,
    t: int,
    k: int,
    keys: Tensor,
    scheduled: dict[str, Tensor],
) -> Iteration:
    """Draw the inputs of all iterations of round t, with a leading axis of iterations."""
    gan, device = context.gan, engine.device
    images, labels = (leaf.transpose(0, 1) for leaf in real)
    num_steps, _, batch_size = labels.shape
    key = random.keys(context.seed, "steps", [0], t, device=device)[0]
    noise = random.normal(key, (num_steps, k, batch_size, gan.networks.latent))
    classes = random.bits(random.fold(key, 2), (num_steps, k, batch_size)) & 0x7FFFFFFF
    classes = classes.long() % max(1, gan.num_classes)
    places = batch_places(alive, k).to(device)
    places_here = places[torch.tensor(list(engine.members), device=device)]
    return Iteration(
        images=images,
        labels=labels,
        keys=keys,
        fake_labels=classes[:, places_here],
        noise=noise,
        classes=classes,
        places=places.expand(num_steps, -1, -1),
        weights=(alive.float() / alive.sum()).to(device).expand(num_steps, -1),
        scheduled=trees.to(scheduled, device),
    )


def update_keys(seed: int, engine: Engine, t: int, num_steps: int, num_updates: int) -> Tensor:
    """Return the keys of round t, (steps, workers hosted here, updates of D in a step)."""
    keys = random.keys(seed, "steps", engine.members, t, device=engine.device)
    numbers = torch.arange(num_steps * num_updates, device=engine.device)
    return random.fold(keys[:, None], numbers.reshape(num_steps, 1, -1))


def batch_places(alive: Tensor, k: int) -> Tensor:
    """Return the indices (N, 2) of each worker's X_g and X_d among the k batches.

    As in section IV-B1 of the paper, the n-th remaining worker gets X_g = X(n mod k + 1) and
    X_d = X((n + 1) mod k + 1). These are two different batches if k > 1.
    """
    n = alive.long().cumsum(0)
    return torch.stack([n % k, (n + 1) % k], 1)

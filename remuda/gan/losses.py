"""Define the losses of both players as functions of the discriminator's raw outputs.

Raw outputs are logits, or the critic's values. Both players minimise their losses. ``real_target``
is the label of real images: 1, or less under one-sided label smoothing.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import relu, softplus

from remuda.networks.layers import one_hot


class Loss(NamedTuple):
    """The loss functions of both players."""

    # (real outputs, fake outputs, real_target) -> scalar
    discriminator: Callable[[Tensor, Tensor, float], Tensor]
    # (fake outputs) -> scalar; if the loss pairs images: (fake outputs, real outputs) -> scalar
    generator: Callable[..., Tensor]
    has_targets: bool  # whether label smoothing applies
    needs_lipschitz: bool = False  # whether the critic must be kept Lipschitz
    # the output between those for real images and for fakes; None if only differences of outputs
    # have a meaning
    boundary: float | None = 0.0
    pairs: bool = False  # whether the loss compares fake i of a batch with real image i


def cross_entropy(real: Tensor, fake: Tensor, real_target: float) -> Tensor:
    """Return -1/2 E log D(x) - 1/2 E log(1 - D(G(z))): equation 3 of Lupo Pasini et al.

    D is sigmoid(output). softplus(-x) is -log sigmoid(x) without the overflow.
    """
    on_real = real_target * softplus(-real)
    if real_target < 1.0:
        on_real = on_real + (1.0 - real_target) * softplus(real)
    return 0.5 * (on_real.mean() + softplus(fake).mean())


def non_saturating(fake: Tensor) -> Tensor:
    """Return -1/2 E log D(G(z)): equation 4 of Lupo Pasini et al."""
    return 0.5 * softplus(-fake).mean()


def minimax(fake: Tensor) -> Tensor:
    """Return 1/2 E log(1 - D(G(z))): the generator's side of the zero-sum game."""
    return -0.5 * softplus(fake).mean()


def least_squares_discriminator(real: Tensor, fake: Tensor, real_target: float) -> Tensor:
    """Return 1/2 E (D(x) - real_target)^2 + 1/2 E D(G(z))^2."""
    return 0.5 * (real - real_target).square().mean() + 0.5 * fake.square().mean()


def least_squares_generator(fake: Tensor) -> Tensor:
    """Return 1/2 E (D(G(z)) - 1)^2."""
    return 0.5 * (fake - 1.0).square().mean()


def wasserstein_critic(real: Tensor, fake: Tensor, real_target: float) -> Tensor:
    """Return the negative of E D(x) - E D(G(z)), which the critic maximises."""
    return fake.mean() - real.mean()


def wasserstein_generator(fake: Tensor) -> Tensor:
    """Return -E D(G(z))."""
    return -fake.mean()


def hinge_discriminator(real: Tensor, fake: Tensor, real_target: float) -> Tensor:
    """Return E max(0, 1 - D(x)) + E max(0, 1 + D(G(z)))."""
    return relu(1.0 - real).mean() + relu(1.0 + fake).mean()


def relativistic_discriminator(real: Tensor, fake: Tensor, real_target: float) -> Tensor:
    """Return E softplus(-(D(x) - D(G(z)))): the pairing loss of Jolicoeur-Martineau 2019.

    R3GAN (Huang et al. 2024) combines it with the R1 and R2 penalties.
    """
    return softplus(fake - real).mean()


def relativistic_generator(fake: Tensor, real: Tensor) -> Tensor:
    """Return E softplus(-(D(G(z)) - D(x)))."""
    return softplus(real - fake).mean()


NON_SATURATING = Loss(cross_entropy, non_saturating, has_targets=True)
MINIMAX = Loss(cross_entropy, minimax, has_targets=True)
LEAST_SQUARES = Loss(
    least_squares_discriminator, least_squares_generator, has_targets=True, boundary=0.5
)
WASSERSTEIN = Loss(
    wasserstein_critic,
    wasserstein_generator,
    has_targets=False,
    needs_lipschitz=True,
    boundary=None,
)
HINGE = Loss(hinge_discriminator, wasserstein_generator, has_targets=False)
RELATIVISTIC = Loss(
    relativistic_discriminator,
    relativistic_generator,
    has_targets=False,
    boundary=None,
    pairs=True,
)

# MUSTANGS draws a generator's loss from these three: cross-entropy, least squares on probabilities,
# and the heuristic loss.
MUSTANGS: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda fake: softplus(-fake).mean(),
    lambda fake: (torch.sigmoid(fake) - 1.0).square().mean(),
    non_saturating,
)


def drawn_loss(chosen: Tensor, fake: Tensor) -> Tensor:
    """Return the value of the chosen MUSTANGS loss; ``chosen`` is one-hot, (3,)."""
    return (chosen * torch.stack([loss(fake) for loss in MUSTANGS])).sum()


def class_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the auxiliary classifier's contribution to either player's loss: -1/2 E log P(label).

    This is L_C of Odena et al. 2017, with the same factor 1/2 as the other losses in this module.
    Labels become one-hot vectors, because ``vmap`` turns indexing into gathers and scatters.
    """
    return -0.5 * (one_hot(labels, logits.shape[1]) * logits.log_softmax(1)).sum(1).mean()


def gradient_penalty(gradients: Tensor) -> Tensor:
    """Return the mean over images of (norm of the critic's gradient - 1) squared."""
    # 1e-12 keeps the gradient of the square root finite at 0.
    norms = torch.sqrt(gradients.flatten(1).square().sum(1) + 1e-12)
    return (norms - 1.0).square().mean()


def mean_squared_norm(gradients: Tensor) -> Tensor:
    """Return the mean over images of the squared norm of the gradient: twice R1 or R2."""
    return gradients.flatten(1).square().sum(1).mean()

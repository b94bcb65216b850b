"""Define the settings that all strategies share, and build a GAN from them."""

import math
from dataclasses import dataclass, fields, replace
from typing import Literal, Self

from torch import Tensor

from remuda.errors import UserError
from remuda.gan import GAN, LOSSES, Adam
from remuda.gan.schedules import Annealing, Schedule, decay
from remuda.networks import Networks
from remuda.system.text import suggestion


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings in the ``strategy`` section of a configuration that all strategies share."""

    batch_size: int = 64  # real images per member in one update, >= 1
    # Generator updates per round, >= 0; 0 = one pass over a share of the data of average size.
    steps_per_round: int = 0
    discriminator_steps: int = 1  # discriminator updates per generator update, >= 1
    # non-saturating, minimax, least-squares, wasserstein, hinge, relativistic, or your own
    loss: str = "non-saturating"
    # auto: penalty for the wasserstein loss, none for the others.
    lipschitz: Literal["auto", "none", "clip", "penalty", "spectral", "spectral-both"] = "auto"
    clip: float = 0.01  # lipschitz = clip: bound on the critic's weights, > 0
    penalty: float = 10.0  # lipschitz = penalty: weight of the gradient penalty, > 0
    r1: float = 0.0  # weight of the R1 penalty, on gradients at real images, >= 0; 0 = none
    r2: float = 0.0  # weight of the R2 penalty, on gradients at fakes, >= 0; 0 = none
    # Compute all penalties on one in this many images of a batch, >= 1 and <= batch_size.
    penalty_every: int = 1
    # Augmentation of all images, real and fake, that discriminators receive. The first two are
    # fractions of the image's side, 0 <= x < 1: the largest shift, and the side of a square cutout.
    shift: float = 0.0
    cutout: float = 0.0
    colour: float = 0.0  # strength of changes of brightness, saturation and contrast, 0 <= x <= 1
    # Adaptive augmentation: each image receives each of these changes with a probability that rises
    # if the mean of sign(D(real image)) is above this target, 0 <= x < 1; 0 = always augment.
    ada_target: float = 0.0
    ada_images: float = 500_000.0  # real images in which the probability can rise from 0 to 1, > 0
    label_smoothing: float = 0.0  # the target for real images is 1 - s, 0 <= s < 1
    generator_lr: float = 2e-4  # Adam, > 0
    discriminator_lr: float = 2e-4  # Adam, > 0
    generator_betas: tuple[float, float] = (0.5, 0.999)  # Adam, 0 <= beta < 1
    discriminator_betas: tuple[float, float] = (0.5, 0.999)  # Adam, 0 <= beta < 1
    # Decay of the moving average of the generator's weights, 0 <= x < 1. Samples come from the
    # average; 0 = from the generator itself.
    ema: float = 0.0
    # Instead of ema: half-life of the moving average, in images that the generator makes for its
    # updates, >= 0; 0 = none.
    ema_images: float = 0.0
    # Limit of this half-life, as a fraction of the images made so far, >= 0; 0 = no limit.
    ema_rampup: float = 0.0
    # How learning rates, betas and penalties move to their final values.
    annealing: Annealing = "none"
    annealing_rounds: float = 0.0  # rounds until the final values; 0 = all rounds of the run
    final_lr: float = 1.0  # fraction of both learning rates, >= 0
    final_betas: tuple[float, ...] = ()  # of both players, 0 <= beta < 1; [] = unchanged
    final_penalty: float = 1.0  # fraction of the weights of all penalties, >= 0
    warmup_rounds: float = 0.0  # rounds in which both learning rates rise from 0, >= 0

    def __post_init__(self) -> None:
        for name in ("batch_size", "discriminator_steps", "penalty_every"):
            if getattr(self, name) < 1:
                raise UserError(f"strategy.{name} must be at least 1, not {getattr(self, name)}")
        for name in ("clip", "penalty", "ada_images", "generator_lr", "discriminator_lr"):
            if not 0 < getattr(self, name) < math.inf:
                raise UserError(
                    f"strategy.{name} must be a finite number above 0, not {getattr(self, name)}"
                )
        for name in ("shift", "cutout", "ada_target", "label_smoothing", "ema"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"strategy.{name} must be in [0, 1), not {getattr(self, name)}")
        if not 0 <= self.colour <= 1:
            raise UserError(f"strategy.colour must be in [0, 1], not {self.colour}")
        if self.ada_target and not (self.shift or self.cutout or self.colour):
            raise UserError(
                "strategy.ada_target adapts how often images are changed, but no change is chosen: "
                "set strategy.shift, strategy.cutout or strategy.colour"
            )
        for name in ("generator_betas", "discriminator_betas"):
            betas = getattr(self, name)
            if not all(0 <= beta < 1 for beta in betas):
                raise UserError(f"strategy.{name} must be two numbers in [0, 1), not {list(betas)}")
        self._check_not_negative("steps_per_round", "r1", "r2")
        if self.penalty_every > self.batch_size:
            raise UserError(
                "strategy.penalty_every must be at most strategy.batch_size, which is "
                f"{self.batch_size}, not {self.penalty_every}"
            )
        if self.loss not in LOSSES:
            hint = suggestion(self.loss, LOSSES)
            raise UserError(f"strategy.loss={self.loss!r} is unknown: {hint}")
        loss = LOSSES[self.loss]
        if self.label_smoothing and not loss.has_targets:
            raise UserError(
                f"strategy.label_smoothing does not apply to the {self.loss} loss: leave it at 0"
            )
        if self.lipschitz == "none" and loss.needs_lipschitz:
            raise UserError(
                f"the {self.loss} loss needs a Lipschitz critic: set strategy.lipschitz to clip, "
                "penalty or spectral"
            )
        self._check_schedule()

    def _check_schedule(self) -> None:
        self._check_not_negative("final_lr", "final_penalty", "annealing_rounds", "warmup_rounds")
        self._check_not_negative("ema_images", "ema_rampup")
        final = self.final_betas
        if len(final) not in (0, 2) or not all(0 <= beta < 1 for beta in final):
            raise UserError(
                f"strategy.final_betas must be two numbers in [0, 1) or empty, not {list(final)}"
            )
        is_changing = self.final_lr != 1 or self.final_penalty != 1 or bool(final)
        if self.annealing == "none" and (is_changing or self.annealing_rounds):
            raise UserError(
                "strategy.final_lr, final_betas, final_penalty and annealing_rounds have no effect "
                "without annealing: set strategy.annealing to linear or cosine"
            )
        if self.annealing != "none" and not is_changing:
            raise UserError(
                f"strategy.annealing={self.annealing} needs a final value: set strategy.final_lr, "
                "strategy.final_betas or strategy.final_penalty"
            )
        if self.ema and self.ema_images:
            raise UserError(
                "strategy.ema and strategy.ema_images set the same moving average: set one of them "
                "to 0"
            )
        if self.ema_rampup and not self.ema_images:
            raise UserError(
                "strategy.ema_rampup limits strategy.ema_images: set that one too, or leave "
                "strategy.ema_rampup at 0"
            )

    def _check_not_negative(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise UserError(f"strategy.{name} must be at least 0 and finite, not {value}")

    def for_rounds(self, rounds: int) -> Self:
        """Return the settings of a run with this many rounds: annealing ends with its last round.

        If ``annealing_rounds`` is already set, return the same settings.
        """
        if self.annealing == "none" or self.annealing_rounds:
            return self
        return replace(self, annealing_rounds=float(rounds))

    def scheduled(
        self, t: int, num_steps: int, *, updates_per_step: int = 1, num_batches: int = 1
    ) -> dict[str, Tensor]:
        """Return the scheduled values of all steps in round t, as in ``Schedule.values``.

        The generator makes ``num_batches`` batches for each of its updates.
        """
        schedule = Schedule(**{part.name: getattr(self, part.name) for part in fields(Schedule)})
        return schedule.values(t, num_steps, updates_per_step, num_batches * self.batch_size)

    def build_gan(self, networks: Networks, shape: tuple[int, ...], num_classes: int) -> GAN:
        """Build a GAN with these settings for images of this shape."""
        lipschitz = self.lipschitz
        if lipschitz == "auto":
            lipschitz = "penalty" if LOSSES[self.loss].needs_lipschitz else "none"
        return GAN(
            networks=networks,
            shape=shape,
            num_classes=num_classes,
            loss=LOSSES[self.loss],
            generator_optimizer=Adam(self.generator_lr, *self.generator_betas),
            discriminator_optimizer=Adam(self.discriminator_lr, *self.discriminator_betas),
            lipschitz=lipschitz,
            clip=self.clip,
            penalty=self.penalty,
            r1=self.r1,
            r2=self.r2,
            penalty_every=self.penalty_every,
            real_target=1.0 - self.label_smoothing,
            ema=decay(self.batch_size, self.ema_images) if self.ema_images else self.ema,
            shift=self.shift,
            cutout=self.cutout,
            colour=self.colour,
            ada_target=self.ada_target,
            ada_images=self.ada_images,
        )

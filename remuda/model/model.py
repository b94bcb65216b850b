"""Use a trained herd as one generative model that draws a label, then an image."""

import math
import operator
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from remuda.data.images import to_bytes
from remuda.engines import Stacked
from remuda.errors import UserError
from remuda.record import DataFacts, Record, checkpoints
from remuda.strategies import Context, Strategy
from remuda.system.devices import find_device
from remuda.system.memory import available_bytes
from remuda.system.pytorch import tf32
from remuda.system.text import Notify, count, ignore
from remuda.tensors import random, trees

# Images to generate at a time on each device. This limits memory and does not change images.
CHUNK = {"cpu": 512, "cuda": 8192}

Labels = None | int | str | Sequence[int | str] | Tensor


@dataclass(frozen=True, eq=False)
class Model:
    """A strategy with the state of all its members. Sampling does not need the data."""

    strategy: Strategy
    context: Context
    state: Any
    facts: DataFacts
    num_labels: int  # labels that ``sample`` accepts; 0 if the model is unconditional
    round: int

    def sample(self, n: int, labels: Labels = None, seed: int = 0) -> Tensor:
        """Return n images (n, C, H, W), uint8 (points: float32).

        ``labels`` is one class, given by number or name, or a list of n classes. If it is None,
        classes are drawn according to their frequency in the training data, as in equation 5 of
        the class-parallel paper. Image i depends only on the seed, i and its label.
        """
        return self.generate(self.choose_labels(n, labels, seed), seed)

    def generate(self, labels: Tensor, seed: int) -> Tensor:
        """Return one image for each label."""
        device = trees.leaves(self.state)[0].device
        key = torch.tensor(random.key(seed, "sample"), device=device)
        noise = random.normal(key, (len(labels), self.context.gan.networks.latent))
        labels = labels.to(device)
        chunks = []
        for part in torch.arange(len(labels), device=device).split(CHUNK[device.type]):
            with tf32(True) if device.type == "cuda" else nullcontext():  # as in training
                images = self.strategy.generate(self.context, self.state, noise[part], labels[part])
            if not images.isfinite().all():
                raise UserError(
                    f"the model of round {self.round} generates NaN: use an earlier checkpoint"
                )
            chunks.append((images if self.facts.is_points else to_bytes(images)).cpu())
        return torch.cat(chunks)

    def draw_labels(self, n: int, seed: int = 0) -> Tensor:
        """Draw n labels from p(y), the class frequencies of the training data.

        Return zeros if the model is unconditional.
        """
        if not self.num_labels:
            return torch.zeros(n, dtype=torch.int64)
        counts = torch.tensor(self.facts.counts[: self.num_labels], dtype=torch.float64)
        steps = (counts / counts.sum()).cumsum(0)
        draws = random.uniform(torch.tensor(random.key(seed, "labels")), (n,)).double()
        return torch.searchsorted(steps, draws, right=True).clamp(max=self.num_labels - 1)

    def label_number(self, label: Any) -> int:
        """Return the number of a class that is given by number or name."""
        if not self.num_labels:
            raise UserError(
                "this model does not know labels: sample it without a label, or train with "
                "networks.conditional=true"
            )
        names = self.facts.classes[: self.num_labels]
        if isinstance(label, str) and label in names:
            return names.index(label)
        try:
            number = int(label) if isinstance(label, str) else operator.index(label)
        except (ValueError, TypeError):  # neither a name nor a whole number
            number = -1
        if not 0 <= number < self.num_labels:
            shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
            raise UserError(
                f"label {label} is unknown: labels are 0 to {self.num_labels - 1}, named {shown}"
            )
        return number

    @property
    def _bytes_per_sample(self) -> int:
        """Estimate the bytes of one image, its label and its noise in double precision."""
        return math.prod(self.facts.shape) + 12 * self.context.gan.networks.latent + 16

    def choose_labels(self, n: int, labels: Labels, seed: int) -> Tensor:
        """Convert the argument ``labels`` of ``sample`` to n label numbers."""
        if n < 1:
            raise UserError(f"the number of samples must be at least 1, not {n}")
        needed, free = n * self._bytes_per_sample, available_bytes()
        if free is not None and needed > free:
            raise UserError(
                f"{n:,} samples need {needed / 2**30:,.1f} GiB of memory, but only "
                f"{free / 2**30:,.1f} GiB is free: draw fewer samples"
            )
        if labels is None:
            return self.draw_labels(n, seed)
        is_scalar = isinstance(labels, str) or getattr(labels, "ndim", 1) == 0
        if is_scalar or not isinstance(labels, Iterable):
            return torch.full((n,), self.label_number(labels))
        numbers = torch.tensor([self.label_number(label) for label in labels])
        if len(numbers) != n:
            raise UserError(
                f"got {count(len(numbers), 'label')} for {count(n, 'sample')}: pass one label per "
                "sample"
            )
        return numbers


def load(
    run: str | Path,
    checkpoint: int | None = None,
    device: str = "cpu",
    notify: Notify = ignore,
) -> Model:
    """Load a run's model from its newest intact checkpoint, or from the checkpoint of a round.

    ``notify`` receives a message about each damaged checkpoint that is skipped.
    """
    record = Record.open(run)
    config, facts = record.config, record.facts
    if checkpoint is None:
        chosen, complaints = record.newest()
        if chosen is None:
            why = "; ".join(complaints) or "it has not saved one yet"
            raise UserError(f"{run} has no checkpoint to load: {why}")
        for complaint in complaints:
            notify(f"{complaint}; using the checkpoint of round {chosen.round}")
    else:
        chosen = record.checkpoint(checkpoint)
    num_classes = len(facts.classes)
    strategy = config.strategy
    context = strategy.prepare(config.networks, facts.shape, num_classes, config.run.seed)
    # The number of members may have changed since the checkpoint was written.
    num_members = len(checkpoints.members(chosen))
    like = trees.to(strategy.init(context, Stacked(num_members)), "meta")
    state = checkpoints.load(chosen, strategy, like, find_device(device))
    num_labels = strategy.num_labels(context.gan, num_members)
    return Model(strategy, context, state, facts, num_labels, chosen.round)

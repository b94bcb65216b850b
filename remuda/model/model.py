"""Use a trained herd as one generative model that draws a label, then an image."""

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from remuda.data.images import to_bytes
from remuda.engines import Communicator, Engine, SingleProcess
from remuda.errors import UserError
from remuda.gan.interpolation import End, have_common_layers, sample_between
from remuda.gan.sampling import sample_rows
from remuda.model.points import check_noise, read_point
from remuda.record import DataFacts
from remuda.strategies import Context, Strategy
from remuda.system import progress
from remuda.system.memory import available_bytes
from remuda.system.pytorch import tf32
from remuda.system.text import Notify, count, ignore
from remuda.tensors import random, trees

# How many images are generated at a time does not change them, but it limits the memory. With 2^20
# pixels on a GPU, an activation with 256 channels at full size takes 1 GiB. cuDNN refuses tensors
# with 2^31 numbers.
CHUNK = {"cpu": 512, "cuda": 8192}  # images at a time, at most
CHUNK_PIXELS = 2**20

Labels = None | int | str | Sequence[int | str] | Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class Model:
    """A strategy with a state. Sampling does not need the data.

    In a job of several ranks, each rank generates the images of the members that it hosts. Rank 0
    samples the model and then calls ``dismiss``; the other ranks call ``assist``. Only images
    travel between ranks.
    """

    strategy: Strategy
    context: Context
    state: Any
    engine: Engine  # hosts the members of this state
    communicator: Communicator = field(default_factory=SingleProcess)
    facts: DataFacts
    num_labels: int  # labels that ``sample`` accepts; 0 if the model is unconditional
    round: int

    def sample(
        self, n: int, labels: Labels = None, seed: int = 0, noise: Tensor | None = None
    ) -> Tensor:
        """Return n images (n, C, H, W), uint8 (points: float32).

        ``labels`` is one class, given by number or name, or a list of n classes. If it is None,
        classes are drawn according to their frequency in the training data, as in equation 5 of
        the class-parallel paper. Image i depends only on the seed, i and its label. With ``noise``
        (n, latent), it depends only on row i of the noise and its label; the seed then draws only
        labels.
        """
        chosen = self.choose_labels(n, labels, seed)
        return self.generate(chosen, seed, noise)

    def generate(self, labels: Tensor, seed: int, noise: Tensor | None = None) -> Tensor:
        """Return one image for each label, from the noise of the seed or from this noise."""
        if noise is not None:
            noise = check_noise(noise, len(labels), self.context.gan.networks.latent)
        own = None if noise is None else noise.tolist()
        self.communicator.ask("generate", [seed, labels.tolist(), own, False])
        return self._generate(labels, seed, noise)

    def generate_by_member(self, labels: Tensor, seed: int) -> Tensor:
        """Return one image per label from every member's own generator, member by member.

        All members use the same noise and labels.
        """
        self.communicator.ask("generate", [seed, labels.tolist(), None, True])
        return self._generate_by_member(labels, seed)

    def _generate_by_member(self, labels: Tensor, seed: int) -> Tensor:
        size, columns = self.engine.size, len(labels)
        authors = torch.arange(size).repeat_interleave(columns)
        noise = self._noise(columns, seed).repeat(size, 1)
        return self._generate(labels.repeat(size), seed, noise, authors)

    def assist(self, more: Mapping[str, Callable[[Any], None]] | None = None) -> None:
        """Generate images of the members hosted here whenever rank 0 asks for them.

        ``more`` answers other requests, by their names.
        """
        self.communicator.serve({"generate": self._answer, **(more or {})})

    def _answer(self, request: Any) -> None:
        seed, labels, own, is_by_member = request
        noise = None if own is None else torch.tensor(own)
        with suppress(UserError):  # rank 0 reports it
            if is_by_member:
                self._generate_by_member(torch.tensor(labels), seed)
            else:
                self._generate(torch.tensor(labels), seed, noise)

    def dismiss(self) -> None:
        """Tell the ranks that call ``assist`` that rank 0 needs no more images."""
        self.communicator.dismiss()

    def _generate(
        self,
        labels: Tensor,
        seed: int,
        noise: Tensor | None = None,
        authors: Tensor | None = None,  # by default, the strategy chooses them
    ) -> Tensor:
        device = self.engine.device
        noise = self._noise(len(labels), seed) if noise is None else noise.to(device)
        labels = labels.to(device)
        generators = self.strategy.generators(self.engine, self.state)
        if authors is None:
            authors = self.strategy.authors(self.engine, self.state, noise, labels).cpu()
        # Rank 0 decides who generates what: on another kind of processor, the last bit of the
        # noise may differ, and with it a choice that depends on the noise.
        own = [authors.tolist() if self.communicator.is_root else None, list(self.engine.members)]
        everyone = self.communicator.all_gather(own)
        authors = torch.tensor(everyone[0][0])
        host, row = (torch.full((self.engine.size,), -1) for _ in range(2))
        for rank, (_, members) in enumerate(everyone):
            host[members] = rank
            row[members] = torch.arange(len(members))
        chunks = []
        for part in torch.arange(len(labels)).split(chunk_size(self.facts.shape, device)):
            ranks = host[authors[part]]
            mine = part[ranks == self.communicator.rank]
            rows = row[authors[mine]].to(device)
            images = self._images(sample_rows, generators, rows, noise[mine], labels[mine])
            chunks.append(self.communicator.collect(images, ranks))
            progress.step(len(part))
        return torch.cat(chunks)

    def walk(
        self,
        start: int | str,
        end: int | str,
        frames: int = 8,
        rows: int = 1,
        seed: int = 0,
        notify: Notify = ignore,
    ) -> Tensor:
        """Return images (rows, frames, C, H, W) on the way from one point to another.

        A point is a class, given by number or name, or "CLASS:SEED"; ":SEED" if the model is
        unconditional. A class without a seed has the seed ``seed``. The first and the last image
        of row i are image i of ``sample`` with the class and the seed of the start and of the end.
        In a mixture of generators, the one that generates the first image also generates the
        others. ``notify`` receives a message if two independent generators are mixed.
        """
        self._check_walk(frames, rows)
        names = self.facts.classes[: self.num_labels]
        points = [read_point(str(point), names, seed) for point in (start, end)]
        numbers = [self.label_number(point.label) if names else 0 for point in points]
        noises = [self._noise(rows, point.seed) for point in points]
        if numbers[0] == numbers[1] and points[0].seed == points[1].seed:
            raise UserError(
                f"{start} and {end} are the same point: give them different classes or seeds, for "
                f"instance {points[0].label}:0 and {points[0].label}:1"
            )
        ends = []
        for number, noise in zip(numbers, noises, strict=True):
            labels = torch.full((rows,), number, device=noise.device)
            # The noise of the start decides, so that the author does not change on the way.
            authors = self.strategy.authors(self.engine, self.state, noises[0], labels)
            ends.append(End(authors, noise, labels))
        return self._walk(ends[0], ends[1], frames, notify)

    def _check_walk(self, frames: int, rows: int) -> None:
        if self.communicator.num_ranks > 1:
            raise UserError("a walk needs all members in one process: load the run's checkpoint")
        if frames < 2 or rows < 1:
            raise UserError(
                f"a walk needs at least 2 frames and 1 row, not {count(frames, 'frame')} and "
                f"{count(rows, 'row')}"
            )
        self._check_memory(frames * rows)

    def _walk(self, start: End, end: End, frames: int, notify: Notify) -> Tensor:
        generators = self.strategy.generators(self.engine, self.state)
        pairs = [trees.row(generators, int(one.rows[0])) for one in (start, end)]
        if not have_common_layers(*pairs):
            first, second = (self.facts.classes[int(one.labels[0])] for one in (start, end))
            notify(
                f"the generators of {first} and {second} were trained independently, so images "
                "between these classes may resemble neither of them; members that share layers "
                "(strategy.shared_generator) interpolate better"
            )
        chunks = []
        size = chunk_size(self.facts.shape, self.engine.device)
        for part in torch.arange(len(start.rows)).split(size):
            both = trees.row(start, part), trees.row(end, part)
            images = [
                self._images(sample_between, generators, *both, weight)
                for weight in torch.linspace(0, 1, frames).tolist()
            ]
            chunks.append(torch.stack(images, 1))
        return torch.cat(chunks)

    def _noise(self, n: int, seed: int) -> Tensor:
        """Return the noise of samples, (n, latent)."""
        key = torch.tensor(random.key(seed, "sample"), device=self.engine.device)
        return random.normal(key, (n, self.context.gan.networks.latent))

    def _images(self, sample: Callable[..., Tensor], *inputs: Any) -> Tensor:
        """Return ``sample(gan, *inputs)`` as bytes or points; raise if any rank has NaN."""
        is_gpu = self.engine.device.type == "cuda"
        with tf32(True) if is_gpu else nullcontext():  # as in training
            images = sample(self.context.gan, *inputs)
        if self.communicator.max_over_ranks(int(not images.isfinite().all())):
            raise UserError(
                f"the model of round {self.round} generates NaN: use an earlier checkpoint"
            )
        return (images if self.facts.is_points else to_bytes(images)).cpu()

    def draw_labels(self, n: int, seed: int = 0, num_labels: int | None = None) -> Tensor:
        """Draw n labels from p(y), the class frequencies of the training data.

        ``num_labels`` restricts them to the first classes. Return zeros if the model is
        unconditional.
        """
        if not self.num_labels:
            return torch.zeros(n, dtype=torch.int64)
        most = self.num_labels if num_labels is None else num_labels
        counts = torch.tensor(self.facts.counts[:most], dtype=torch.float64)
        steps = (counts / counts.sum()).cumsum(0)
        draws = random.uniform(torch.tensor(random.key(seed, "labels")), (n,)).double()
        return torch.searchsorted(steps, draws, right=True).clamp(max=most - 1)

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
            shown = ", ".join(" ".join(name.split()) for name in names[:12])
            shown += ", ..." if len(names) > 12 else ""
            raise UserError(
                f"label {label} is unknown: labels are 0 to {self.num_labels - 1}, named {shown}"
            )
        return number

    def _check_memory(self, n: int) -> None:
        """Raise if n images, with their labels and noise in double precision, do not fit."""
        latent = self.context.gan.networks.latent
        needed = n * (math.prod(self.facts.shape) + 12 * latent + 16)
        free = available_bytes()
        if free is not None and needed > free:
            raise UserError(
                f"{n:,} samples need {needed / 2**30:,.1f} GiB of memory, but only "
                f"{free / 2**30:,.1f} GiB is free: draw fewer samples"
            )

    def choose_labels(
        self, n: int, labels: Labels, seed: int, num_labels: int | None = None
    ) -> Tensor:
        """Convert the argument ``labels`` of ``sample`` to n label numbers.

        If they are drawn, ``num_labels`` restricts them to the first classes.
        """
        if n < 1:
            raise UserError(f"the number of samples must be at least 1, not {n}")
        self._check_memory(n)
        if labels is None:
            return self.draw_labels(n, seed, num_labels)
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


def chunk_size(shape: Sequence[int], device: torch.device) -> int:
    """Return how many images (C, H, W) to generate at a time."""
    most = CHUNK[device.type]
    if device.type == "cpu":
        return most
    return max(1, min(most, CHUNK_PIXELS // math.prod(shape[1:])))

"""A configuration come to life: data, networks, strategy and engine put together."""

import os
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from remuda import checkpoints
from remuda.checkpoints import Checkpoint
from remuda.config import EngineConfig, RunConfig
from remuda.data import Dataset, partition
from remuda.data import load as load_data
from remuda.data.batches import Batches
from remuda.devices import find_device, usable_cores
from remuda.engines import Engine, Metered, Stacked
from remuda.errors import UserError
from remuda.model import Model
from remuda.record import DataFacts
from remuda.strategies import Strategy


@dataclass(frozen=True)
class Herd:
    """Everything that a loop needs but the state."""

    strategy: Strategy
    engine: Metered
    batches: Batches
    facts: DataFacts
    num_batches: int  # of real data, per member and round

    @property
    def num_steps(self) -> int:
        """Generator updates of every member in a round."""
        return self.strategy.steps_in(self.num_batches)

    @property
    def images_per_round(self) -> int:
        """Real images that the whole herd sees in a round."""
        return self.engine.size * self.num_batches * self.strategy.batch_size

    def start(self) -> Any:
        """The state before the first round."""
        return self.strategy.init(self.engine)

    def restore(self, checkpoint: Checkpoint, members_before: int) -> Any:
        """The state of a checkpoint that a herd with so many members requested has left."""
        size = self.strategy.num_members(members_before, len(self.facts.classes))
        state = checkpoints.load(checkpoint, self.strategy.init(Stacked(size, self.engine.device)))
        return state if size == self.engine.size else self.strategy.resize(state, self.engine.size)

    def round(self, state: Any, t: int) -> tuple[Any, dict[str, list[float]]]:
        """The state after round t, and what each member reports."""
        self.engine.reset()
        real = self.batches.draw((t - 1) * self.num_batches, self.num_batches)
        state, metrics = self.strategy.round(self.engine, state, real, t)
        return state, {name: values.tolist() for name, values in metrics.items()}

    def traffic(self) -> dict[str, int]:
        """Bytes that the members and the server have sent in the last round, by verb and direction."""
        return {f"{verb} {direction}": count for (verb, direction), count in self.engine.bytes.items() if count}

    def model(self, state: Any, t: int) -> Model:
        num_labels = self.strategy.num_labels(self.engine.size, len(self.facts.classes))
        return Model(self.strategy, state, self.facts, num_labels, t)


def assemble(config: RunConfig) -> Herd:
    device = find_device(config.engine.device)
    dataset = load_data(config.data)
    num_classes = len(dataset.classes)
    num_members = config.strategy.num_members(config.run.members, num_classes)
    shares = _shares(config, dataset, num_members)
    sizes = [len(share) for share in shares]
    strategy = config.strategy.bind(config.networks, dataset.shape, num_classes, config.run.seed, sizes)
    engine = Metered(_engine(config.engine, num_members, device))
    batches = Batches(
        dataset,
        shares,
        members=engine.members,
        batch_size=strategy.batch_size,
        seed=config.run.seed,
        device=device,
    )
    facts = DataFacts(name=dataset.name, shape=dataset.shape, classes=list(dataset.classes), counts=dataset.counts)
    num_batches = strategy.batches_per_round(sum(sizes) / num_members)
    return Herd(strategy, engine, batches, facts, num_batches)


def _shares(config: RunConfig, dataset: Dataset, num_members: int) -> list[Tensor]:
    kind, suited = config.data.partition, config.strategy.partitions
    if kind == "auto":
        kind = suited[0]
    if kind not in suited:
        raise UserError(f"data.partition={kind} does not suit this strategy: use {' or '.join(suited)}")
    data = replace(config.data, partition=kind)
    return partition(dataset.labels, num_members, data, len(dataset.classes), config.run.seed)


def _engine(config: EngineConfig, num_members: int, device: torch.device) -> Engine:
    # PyTorch's choice (physical cores, OMP_NUM_THREADS, what the caller has set), but no more than is granted.
    torch.set_num_threads(config.threads or min(torch.get_num_threads(), usable_cores()))
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS asks for
        torch.use_deterministic_algorithms(True)
    return Stacked(
        num_members,
        device,
        config.layout,
        compile=config.compile and device.type == "cuda",
        precision=config.precision,
        chunk=config.chunk,
    )

"""A configuration come to life: data, networks, strategy and engine put together."""

import os
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from remuda.config import EngineConfig, RunConfig
from remuda.data import Dataset, partition
from remuda.data import load as load_data
from remuda.data.batches import Batches
from remuda.data.images import to_bytes
from remuda.data.sources import SOURCES
from remuda.engines import Engine, Metered, Ranks, Stacked, Transport, World
from remuda.engines.mpi.spans import spans
from remuda.errors import UserError
from remuda.model.model import Model
from remuda.record import DataFacts, checkpoints
from remuda.record.checkpoints import Checkpoint
from remuda.scores.features.extractor import find_extractor
from remuda.strategies import Context, Strategy
from remuda.strategies.base import FeatureExtractor
from remuda.system.devices import find_device, usable_cores
from remuda.tensors import trees
from remuda.training import failures as losses


@dataclass(frozen=True)
class Herd:
    """Everything that a loop needs but the state."""

    strategy: Strategy
    context: Context
    engine: Metered
    batches: Batches
    facts: DataFacts
    num_batches: int  # of real data, per member and round
    sites: list[int]  # the members' numbers before any was lost

    @property
    def num_steps(self) -> int:
        """Generator updates of every member in a round."""
        return self.strategy.steps_in(self.num_batches)

    @property
    def num_labels(self) -> int:
        """That the trained model can be asked for."""
        return self.strategy.num_labels(self.context.gan, self.engine.size)

    @property
    def hosted(self) -> list[int]:
        """The members of this process, by their numbers before any was lost."""
        return [self.sites[member] for member in self.engine.members]

    @property
    def images_per_round(self) -> int:
        """Real images that the whole herd sees in a round."""
        return self.engine.size * self.num_batches * self.strategy.batch_size

    def start(self) -> Any:
        """The state before the first round."""
        return self.strategy.init(self.context, self.engine)

    def restore(self, checkpoint: Checkpoint | None) -> Any:
        """The state of a checkpoint; rank 0 reads it, and the others, which have none, receive their rows."""
        whole = self.start() if checkpoint is None else self._read(checkpoint)
        rows = self._bare.scatter(lambda rows: rows, self.strategy.rows(whole))
        return trees.to(self.strategy.with_rows(whole, rows), self.engine.device)

    def _read(self, checkpoint: Checkpoint) -> Any:
        there = checkpoints.members(checkpoint)
        whole = checkpoints.load(checkpoint, self.strategy.init(self.context, Stacked(len(there))))
        if there == self.sites:
            return whole
        if self.strategy.on_failure == "drop" and set(self.sites) < set(
            there
        ):  # it is older than a loss
            kept = torch.tensor([there.index(site) for site in self.sites])
            return self.strategy.with_rows(whole, trees.row(self.strategy.rows(whole), kept))
        return self.strategy.resize(whole, self.engine.size)

    def collect(self, state: Any) -> Any:
        """The state of the whole herd, at rank 0; elsewhere nothing that could be used."""
        rows = self._bare.gather(lambda _, rows: rows, (), self.strategy.rows(state))
        return self.strategy.with_rows(state, rows)

    def round(self, state: Any, t: int) -> tuple[Any, dict[str, list[float]]]:
        """The state after round t, and what each member reports; the latter at rank 0."""
        state, metrics = self.step(state, t)
        return state, self.report(metrics)

    def step(self, state: Any, t: int) -> tuple[Any, dict[str, Tensor]]:
        """The state after round t, and what the members hosted here report."""
        self.engine.reset()
        real = self.batches.draw((t - 1) * self.num_batches, self.num_batches)
        return self.strategy.round(self.context, self.engine, state, real, t)

    def report(self, metrics: dict[str, Tensor]) -> dict[str, list[float]]:
        """What all members report, at rank 0; elsewhere nothing."""
        everyone = self._bare.gather(lambda _, rows: rows, (), metrics) or {}
        return {name: values.tolist() for name, values in everyone.items()}

    @property
    def _bare(self) -> Engine:
        """Book-keeping is no traffic of the algorithm."""
        return self.engine.engine

    def traffic(self) -> dict[str, int]:
        """Bytes that the members and the server have sent in the last round, by verb and direction."""
        return {
            f"{verb} {direction}": count
            for (verb, direction), count in self.engine.bytes.items()
            if count
        }

    def routines(self) -> dict[str, float]:
        """Seconds of the last round's routines, where the strategy names some."""
        return {name: round(seconds, 4) for name, seconds in self.engine.seconds.items()}

    def model(self, state: Any, t: int) -> Model:
        return Model(self.strategy, self.context, state, self.facts, self.num_labels, t)


def assemble(config: RunConfig, world: World | None = None) -> Herd:
    """What this process needs of a herd; with ranks, in a world that it has entered."""
    world = world or World()
    if config.engine.name == "mpi" and not isinstance(world, Transport):
        raise UserError(
            "engine.name=mpi works in a world of ranks: use remuda train or resume, or from Python "
            "remuda.run, remuda.resume or remuda.launch.join"
        )
    device = _device(config.engine, world)
    with world.root_first() if config.data.name in SOURCES else nullcontext():
        dataset = load_data(config.data.at(_home(config, world), world.host))
    num_classes = len(dataset.classes)
    num_members = config.strategy.num_members(config.run.members, num_classes)
    hosts, sites = spans(num_members, world.num_ranks), config.run.sites(num_members)
    shares = _shares(config, dataset, hosts, world)
    sizes, facts = _facts(config, dataset, shares, hosts, world)
    strategy, features = config.strategy, None
    if strategy.needs_features:
        features = _feature_extractor(config, dataset, device, world)
    context = strategy.prepare(
        config.networks, dataset.shape, num_classes, config.run.seed, sizes, features
    )
    engine = Metered(_engine(config.engine, num_members, device, world, config.strategy.grid))
    batches = Batches(
        dataset,
        shares,
        members=[sites[member] for member in engine.members],
        batch_size=strategy.batch_size,
        seed=config.run.seed,
        device=device,
        mirror=config.data.mirror,
    )
    num_batches = strategy.batches_per_round(sum(sizes) / num_members)
    return Herd(strategy, context, engine, batches, facts, num_batches, sites)


def _home(config: RunConfig, world: World) -> int:
    """The rank whose data this one has: where each has its own, members stay with those that they began with."""
    homes = losses.homes(config) or world.origins
    if len(homes) != world.num_ranks:
        raise UserError(
            f"the ranks' own data of this run lie with ranks {', '.join(map(str, homes))}, and {world.num_ranks} were "
            f"started: use --ranks {len(homes)}, or share the data out anew with --members"
        )
    return homes[world.rank]


def _feature_extractor(
    config: RunConfig, dataset: Dataset, device: torch.device, world: World
) -> FeatureExtractor:
    if dataset.images.is_floating_point():
        raise UserError(
            f"no network looks at the points of {dataset.name}: leave strategy.mixture_by at pixels"
        )
    whole = replace(config.data, limit=0, partition="auto")  # the classifier is that of the scores
    with world.root_first():
        say = print if world.is_root else lambda text: None
        network = find_extractor(whole, dataset.shape, config.scores.classifier, device, say)
    return lambda images: network(to_bytes(images)).values


def _shares(config: RunConfig, dataset: Dataset, hosts: list[range], world: World) -> list[Tensor]:
    """What each member trains on, by its number before any was lost.

    Where each rank has its own data, that is empty for the members elsewhere.
    """
    kind, suited = config.data.partition, config.strategy.partitions
    if kind == "auto":
        kind = suited[0]
    if kind not in suited:
        raise UserError(
            f"data.partition={kind} does not suit this strategy: use {' or '.join(suited)}"
        )
    data, num_classes = replace(config.data, partition=kind), len(dataset.classes)
    sites, num_sites = config.run.sites(hosts[-1].stop), hosts[-1].stop + len(config.run.lost)
    if not config.data.is_per_rank:
        return partition(dataset.labels, num_sites, data, num_classes, config.run.seed)
    here = [sites[member] for member in hosts[world.rank]]
    if config.engine.name == "stacked":
        raise UserError(
            "data.path names a folder for each rank, which needs ranks: use --engine mpi"
        )
    if kind == "class":
        own = [torch.nonzero(dataset.labels == site).flatten() for site in here]
        for site, share in zip(here, own, strict=True):
            if len(share) == 0:
                raise UserError(
                    f"class {site} has no images for its member: put some there or change data.partition"
                )
    else:
        own = partition(dataset.labels, len(here), data, num_classes, config.run.seed)
    nothing = torch.empty(0, dtype=torch.int64)
    return [own[here.index(site)] if site in here else nothing for site in range(num_sites)]


def _facts(
    config: RunConfig, dataset: Dataset, shares: list[Tensor], hosts: list[range], world: World
) -> tuple[list[int], DataFacts]:
    """The sizes of all members' shares, and what has to be known of the data of all ranks."""
    sites = config.run.sites(hosts[-1].stop)
    own = {
        "shape": list(dataset.shape),
        "classes": list(dataset.classes),
        "counts": dataset.counts,
        "sizes": [len(shares[sites[member]]) for member in hosts[world.rank]],
    }
    told = world.share(own)
    for rank, other in enumerate(told):
        for name in ("shape", "classes"):
            if other[name] != told[0][name]:
                raise UserError(
                    f"the data of rank {rank} are of another kind than those of rank 0, {name} {_short(other[name])} "
                    f"against {_short(told[0][name])}: give all ranks images of one shape and with the same classes"
                )
    counts = dataset.counts
    if config.data.is_per_rank:
        counts = [sum(column) for column in zip(*(other["counts"] for other in told), strict=True)]
    sizes = [size for other in told for size in other["sizes"]]
    return sizes, DataFacts(
        name=dataset.name, shape=dataset.shape, classes=own["classes"], counts=counts
    )


def _short(values: list[Any]) -> str:
    return ", ".join(map(str, values[:12])) + (", ..." if len(values) > 12 else "")


def _device(config: EngineConfig, world: World) -> torch.device:
    """Where no GPU is named, ranks take the host's in turn."""
    device = find_device(config.device)
    if device.type == "cuda" and device.index is None and world.num_ranks > 1:
        device = torch.device("cuda", world.local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
    return device


def _engine(
    config: EngineConfig,
    num_members: int,
    device: torch.device,
    world: World,
    grid: tuple[int, int] | None,
) -> Engine:
    # PyTorch's choice (physical cores, OMP_NUM_THREADS, what the caller has set), but no more than is granted.
    granted = max(1, usable_cores() // world.num_sharing)
    torch.set_num_threads(config.threads or min(torch.get_num_threads(), granted))
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS asks for
        torch.use_deterministic_algorithms(True)
    settings: dict[str, Any] = dict(
        layout=config.layout,
        compile=config.compile and device.type == "cuda",
        precision=config.precision,
        chunk=config.chunk,
    )
    if isinstance(world, Transport):
        return Ranks(
            world, num_members, device, grid=grid, cuda_aware=config.cuda_aware, **settings
        )
    return Stacked(num_members, device, **settings)

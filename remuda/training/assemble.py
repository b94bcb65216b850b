"""Assemble the data, networks, strategy and engine that a configuration describes."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from remuda.config import EngineConfig, RunConfig, comparable, to_dict
from remuda.data import Dataset
from remuda.data import load as load_data
from remuda.data.batches import Batches
from remuda.data.sources import SOURCES
from remuda.engines import ENGINES, Communicator, Engine, Metered, SingleProcess
from remuda.engines.layouts import is_stacked
from remuda.engines.mpi.spans import spans
from remuda.engines.racing import Arrival
from remuda.engines.stacked import Compile
from remuda.errors import UserError
from remuda.gan import GAN
from remuda.gan.augment import too_small_changes
from remuda.model.sources import data_rank
from remuda.record import Record
from remuda.strategies import Context, Strategy
from remuda.strategies.context import FeatureExtractor
from remuda.system.devices import find_device, usable_cores
from remuda.system.pytorch import loading_libraries, process_settings
from remuda.system.text import Notify, count, ignore
from remuda.training.features import class_distances, feature_extractor
from remuda.training.herd import Herd
from remuda.training.shares import check_round, divide, gather_facts, share_groups


def assemble(
    config: RunConfig,
    communicator: Communicator | None = None,
    notify: Notify = ignore,
    speeds: Sequence[float] = (),
) -> Herd:
    """Return this process's part of a run. Enter the communicator first.

    The number of members on each rank depends on the ranks' ``speeds``, which are equal by default.
    All ranks must pass the same speeds.
    """
    if communicator is None:
        communicator = SingleProcess()
        if ENGINES[config.engine.name].spans_processes:
            raise UserError(
                f"engine.name={config.engine.name} needs ranks: use remuda train or remuda "
                "resume, or remuda.run or remuda.resume from Python"
            )
    device = _device(config.engine, communicator)
    with loading_libraries(device):
        return _assemble(config, communicator, device, notify, speeds)


def _assemble(
    config: RunConfig,
    communicator: Communicator,
    device: torch.device,
    notify: Notify,
    speeds: Sequence[float],
) -> Herd:
    root_notify = notify if communicator.is_root else ignore
    dataset = _load(config, communicator, notify)
    size = config.strategy.num_members(config.run.members, len(dataset.classes))
    hosted = spans(size, communicator.num_ranks, speeds)
    shares = divide(config, dataset, hosted, communicator)
    sizes, class_counts, facts = gather_facts(config, dataset, shares, hosted, communicator)
    extractor = partial(feature_extractor, config, dataset, device, communicator, notify)
    strategy = config.strategy.for_classes(
        dataset.classes[:size],
        lambda: class_distances(dataset, size, extractor(), communicator),
        root_notify,
    )
    features = extractor() if strategy.needs_features else None
    context = _prepare(config, strategy, dataset, sizes, features, class_counts)
    _check_stacking(config.engine, context.gan, device, root_notify)
    _check_changes(context.gan, root_notify)
    engine = Metered(make_engine(config, hosted, device, communicator, notify))
    member_ids = config.run.member_ids(size)
    hosted_ids = [member_ids[member] for member in engine.members]
    groups = share_groups(config, size)
    num_shares = sum(len(groups[member]) for member in member_ids)
    num_batches = strategy.batches_per_round(sum(sizes) / num_shares)
    check_round(dataset, strategy, len(hosted_ids), num_batches)
    return Herd(
        strategy=strategy,
        context=context,
        engine=engine,
        communicator=communicator,
        batches=_batches(config, dataset, shares, groups, hosted_ids, device),
        facts=facts,
        num_batches=num_batches,
        member_ids=member_ids,
        spans=hosted,
        lost=config.run.lost,
        recorded=_recorded(config, len(member_ids)),
    )


def _prepare(
    config: RunConfig,
    strategy: Strategy,
    dataset: Dataset,
    sizes: Sequence[int],
    features: FeatureExtractor | None,
    class_counts: Sequence[Sequence[int]],
) -> Context:
    """Return what the strategy's functions know about the run."""
    return strategy.prepare(
        config.networks,
        dataset.shape,
        len(dataset.classes),
        config.run.seed,
        sizes,
        features,
        class_counts,
        config.run.lost,
    )


def _load(config: RunConfig, communicator: Communicator, notify: Notify) -> Dataset:
    """Return the data of this rank, and tell how many broken files are left out."""
    is_downloaded = config.data.name in SOURCES
    with communicator.root_first() if is_downloaded else nullcontext():
        data = config.data.at(data_rank(config, communicator), communicator.host)
        dataset = load_data(data)
    if dataset.num_skipped and (communicator.is_root or config.data.is_per_rank):
        skipped = count(dataset.num_skipped, "broken file")
        notify(f"{dataset.name}: skipped {skipped}; {len(dataset.labels):,} images are left")
    return dataset


def _check_stacking(config: EngineConfig, gan: GAN, device: torch.device, notify: Notify) -> None:
    """Raise if the networks need another layout, and tell the user which operations are slow."""
    if not is_stacked(config.layout, device):
        return
    gan.stacking.require("use --set engine.layout=loop")
    if slow := gan.stacking.explain_slow():
        notify(slow)


def _check_changes(gan: GAN, notify: Notify) -> None:
    """Tell the user which changes of images are too small to change any pixel."""
    for name, least in too_small_changes(gan.shape, gan.shift, gan.cutout).items():
        notify(
            f"strategy.{name}={getattr(gan, name)} changes no image, because it rounds to 0 "
            f"pixels of {gan.shape[1]}x{gan.shape[2]} images; set it to {least} or more"
        )


def _recorded(config: RunConfig, size: int) -> dict[int, list[Arrival]] | None:
    """Return the order of a recorded run that this run repeats."""
    if not config.engine.replay:
        return None
    if ENGINES[config.engine.name].spans_processes or not config.strategy.is_asynchronous:
        raise UserError(
            "engine.replay repeats the order of an asynchronous run on one device: use "
            "--engine stacked and an asynchronous strategy"
        )
    record = Record.open(config.engine.replay)
    theirs, ours = record.comparable, comparable(to_dict(config))
    keys = ("strategy", "name"), ("run", "seed")
    if any(theirs[section][key] != ours[section][key] for section, key in keys):
        raise UserError(
            f"{record.folder} has another strategy or another seed than this run: use "
            f"{record.folder / 'config.toml'} as the configuration"
        )
    if theirs["run"].get("lost"):
        raise UserError(
            f"{record.folder} has lost members, so its order cannot be repeated: choose a run "
            "without lost members"
        )
    _check_size(record, size, config.run.rounds)
    arrivals = dict(record.arrivals())
    for t in range(1, config.run.rounds + 1):
        if t not in arrivals:
            remedy = "choose another run"
            if t > 1:
                remedy = f"train only {count(t - 1, 'round')} with --rounds"
            raise UserError(f"engine.replay has recorded no usable order for round {t}: {remedy}")
    return {t: [Arrival(m, facts) for m, *facts in order] for t, order in arrivals.items()}


def _check_size(record: Record, size: int, rounds: int) -> None:
    """Raise if a recorded run had another number of members in one of the first ``rounds``."""
    for line in record.rounds():
        t, turns = line["round"], line.get("turns")
        if t <= rounds and isinstance(turns, list) and len(turns) != size:
            remedy = f"train only {t - 1} rounds with --rounds"
            if t == 1:
                remedy = f"train {len(turns)} members as well"
            raise UserError(
                f"{record.folder} had {len(turns)} members in round {t}, and this run has {size}, "
                f"so it cannot repeat the order: {remedy}"
            )


def _batches(
    config: RunConfig,
    dataset: Dataset,
    shares: list[Tensor],
    groups: list[range],
    member_ids: list[int],
    device: torch.device,
) -> Batches:
    return Batches(
        dataset,
        shares,
        members=member_ids,
        groups=groups,
        batch_size=config.strategy.batch_size,
        seed=config.run.seed,
        device=device,
        mirror=config.data.mirror,
    )


def pytorch_settings(
    config: EngineConfig, communicator: Communicator | None = None
) -> AbstractContextManager[None]:
    """Set PyTorch's threads, determinism and TF32 while a run trains, then restore them.

    If ``engine.threads`` is 0, PyTorch chooses the number of threads: the physical cores,
    OMP_NUM_THREADS or the caller's setting, but at most the cores that this process may use.
    """
    num_sharing = 1 if communicator is None else communicator.num_sharing
    granted = max(1, usable_cores() // num_sharing)
    threads = config.threads or min(torch.get_num_threads(), granted)
    is_tf32 = config.precision != "fp32" and find_device(config.device).type == "cuda"
    return process_settings(threads, config.deterministic, is_tf32=is_tf32)


def _device(config: EngineConfig, communicator: Communicator) -> torch.device:
    """Return the device of this process. Ranks on the same host use its GPUs in turn."""
    device = find_device(config.device)
    if device.type == "cuda" and device.index is None and communicator.num_ranks > 1:
        device = torch.device("cuda", communicator.local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
    return device


def make_engine(
    config: RunConfig,
    hosted: list[range],
    device: torch.device,
    communicator: Communicator,
    notify: Notify,
) -> Engine:
    engine = config.engine
    settings: dict[str, Any] = dict(
        layout=engine.layout,
        compile=when_to_compile(engine, device),
        precision=engine.precision,
        chunk=engine.chunk,
        cuda_aware=engine.cuda_aware,
        grid=config.strategy.grid,
        hosted=hosted,
        notify=notify,
    )
    return ENGINES[engine.name].build(communicator, hosted[-1].stop, device, **settings)


def when_to_compile(config: EngineConfig, device: torch.device) -> Compile:
    """Return when to compile. On a CPU nothing is compiled.

    A deterministic run uses compiled steps from the start: if the steps changed during the run, a
    resumed run could change at another round and would differ.
    """
    if device.type != "cuda":
        return False
    if config.compile == "auto" and config.deterministic:
        return True
    return config.compile or "never"

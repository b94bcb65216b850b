"""Save and load checkpoints: the tensors of a state, in one shard per process.

``remuda.record.shards`` describes the files, and ``remuda.record.manifests`` finds checkpoints
without PyTorch. Nothing is pickled.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from remuda.errors import UserError
from remuda.record import manifests, shards
from remuda.record.manifests import Checkpoint, find, list_all, members, newest_valid
from remuda.record.snapshots import DTYPES, Snapshot, Snapshots, new_attempt
from remuda.strategies import Strategy
from remuda.system import disk
from remuda.tensors import trees

__all__ = [
    "Checkpoint",
    "Leaves",
    "Shard",
    "find",
    "list_all",
    "load",
    "members",
    "newest_valid",
    "read",
    "save",
    "write",
]


class Leaves(NamedTuple):
    """The named leaves of a state: those with one row per member, and all others.

    The others belong to the server, or are common to all members. Only rank 0 saves them.
    """

    rows: dict[str, Tensor]
    server: dict[str, Tensor]

    @classmethod
    def of(cls, strategy: Strategy, state: Any) -> "Leaves":
        """Return the leaves of a strategy's state. On most ranks, a server has none."""
        server = dict(trees.named_leaves(strategy.with_rows(state, ())))
        rows = {name: leaf for name, leaf in trees.named_leaves(state) if name not in server}
        return cls(rows, server)


class Shard(NamedTuple):
    """The part of a checkpoint that one file holds."""

    round: int
    number: int
    member_ids: Sequence[int]  # of all members in the checkpoint
    spans: Sequence[range]  # the rows of every shard
    attempt: str


def write(folder: Path, shard: Shard, snapshot: Snapshot, server: Sequence[str]) -> None:
    """Write one shard of a checkpoint. ``server`` names the tensors that are not rows."""
    place = folder / f"round-{shard.round:06d}"
    description = {
        "round": shard.round,
        "shard": shard.number,
        "shards": len(shard.spans),
        "members": list(shard.member_ids),
        "rows": [[span.start, span.stop] for span in shard.spans],
        "server": list(server),
        "attempt": shard.attempt,
    }
    path = place / shards.file_name(shard.number, len(shard.spans))
    with _writing(place, shard.round, is_shared=len(shard.spans) > 1):
        place.mkdir(parents=True, exist_ok=True)
        disk.sync(folder)
        shards.write(path, description, snapshot.tensors, snapshot.data())


@contextmanager
def _writing(place: Path, t: int, *, is_shared: bool) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not is_shared:  # another rank may be about to write to the folder
            with suppress(OSError):
                place.rmdir()  # if it is empty
        raise UserError(
            f"the checkpoint of round {t} could not be written to {place.parent} ({error}): make "
            "room there or check its permissions, then resume; earlier checkpoints are intact"
        ) from None


def save(
    folder: Path,
    t: int,
    leaves: Leaves,
    keep: int,
    member_ids: Sequence[int],
    protected: Collection[int] = (),
) -> None:
    """Write the state of all members after round t; keep the newest ``keep`` checkpoints.

    ``member_ids`` holds the member id of each row; ids do not change when other members are lost.
    The checkpoints of ``protected`` rounds stay as well.
    """
    everything = {**leaves.rows, **leaves.server}
    devices = {leaf.device for leaf in everything.values()}
    snapshot = Snapshots(devices.pop()).take(everything)
    snapshot.wait()
    shard = Shard(t, 0, member_ids, [range(len(member_ids))], new_attempt())
    write(folder, shard, snapshot, list(leaves.server))
    manifests.prune(folder, t, keep, protected)


def load(checkpoint: Checkpoint, strategy: Strategy, like: Any, device: torch.device) -> Any:
    """Load all members of an intact checkpoint into a state with the structure of ``like``.

    ``like`` has a row for each member; only its shapes and types matter.
    """
    source = range(len(members(checkpoint)))
    leaves = Leaves.of(strategy, like)
    return trees.fill(like, read(checkpoint, leaves, source, device, strategy.server_tables))


class _Run(NamedTuple):
    """Consecutive rows of one file, and their place among the rows that are read."""

    file: int
    first: int
    num_rows: int
    place: int


def read(
    checkpoint: Checkpoint,
    like: Leaves,
    source: Sequence[int],
    device: torch.device,
    tables: Collection[str] = (),
) -> dict[str, Tensor]:
    """Read tensors with the names, types and shapes of ``like`` from an intact checkpoint.

    Row i comes from the saved row ``source[i]``. Only the files that hold these rows are read, and
    shard 0, which holds the tensors of the server. Those named in ``tables`` have axes of the
    population's size; they are 0 if it has changed.
    """
    assert all(len(leaf) == len(source) for leaf in like.rows.values())
    first = shards.read_header(checkpoint.files[0])
    if first.tensors.keys() != like.rows.keys() | like.server.keys():
        raise _unfit(checkpoint)
    rows, server = (
        {name: torch.empty(leaf.shape, dtype=leaf.dtype) for name, leaf in part.items()}
        for part in like
    )
    runs = _runs(source, manifests.describe(checkpoint)["rows"])
    for number in sorted({0, *(run.file for run in runs)}):
        path = checkpoint.files[number]
        header = shards.read_header(path) if number else first
        wanted = [run for run in runs if run.file == number]
        with path.open("rb", buffering=0) as file:
            for name, leaf in rows.items():
                start = _find(checkpoint, header, name, leaf, skip=1)
                size = len(trees.as_bytes(leaf)) // max(1, len(leaf))
                for run in wanted:
                    target = leaf[run.place : run.place + run.num_rows]
                    _fill(file, target, start + run.first * size)
            for name, leaf in server.items() if number == 0 else ():
                skip = leaf.ndim if name in tables else 0
                start = _find(checkpoint, header, name, leaf, skip)
                if header.tensors[name].shape == leaf.shape:
                    _fill(file, leaf, start)
                else:
                    leaf.zero_()
    found = {**rows, **server}
    del rows, server
    return {name: found.pop(name).to(device) for name in list(found)}


def _runs(source: Sequence[int], spans: Sequence[Sequence[int]]) -> list[_Run]:
    """Find the file of each row, and join rows that follow each other in the same file."""
    runs: list[_Run] = []
    for place, row in enumerate(source):
        file = next(i for i, (start, stop) in enumerate(spans) if start <= row < stop)
        first = row - spans[file][0]
        last = runs[-1] if runs else None
        if last is not None and (last.file, last.first + last.num_rows) == (file, first):
            runs[-1] = last._replace(num_rows=last.num_rows + 1)
        else:
            runs.append(_Run(file, first, 1, place))
    return runs


def _find(checkpoint: Checkpoint, header: shards.Header, name: str, leaf: Tensor, skip: int) -> int:
    """Return the position of a tensor in its file; raise unless it suits a leaf.

    The first ``skip`` axes may differ in length.
    """
    stored = header.tensors.get(name)
    if stored is None or DTYPES.get(stored.dtype) != leaf.dtype:
        raise _unfit(checkpoint)
    if len(stored.shape) != leaf.ndim or stored.shape[skip:] != leaf.shape[skip:]:
        raise _unfit(checkpoint)
    return header.start + stored.start


def _fill(file: FileIO, target: Tensor, position: int) -> None:
    """Read a tensor's bytes from a position in a file."""
    file.seek(position)
    left = trees.as_bytes(target).numpy().data
    while left:
        num_read = file.readinto(left)
        if not num_read:
            raise UserError(f"{file.name} is incomplete: choose another checkpoint")
        left = left[num_read:]


def _unfit(checkpoint: Checkpoint) -> UserError:
    return UserError(
        f"{checkpoint.folder} does not fit the run's configuration: leave out settings that change "
        "the tensors (--set), undo changes to config.toml, or use the version of remuda that wrote "
        "the checkpoint"
    )

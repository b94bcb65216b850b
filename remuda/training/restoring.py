"""Restore a run from its newest intact checkpoint. Every rank reads its own rows."""

from pathlib import Path
from typing import Any

from remuda.engines import Communicator
from remuda.record import checkpoints, manifests
from remuda.record.checkpoints import Checkpoint, Leaves
from remuda.tensors import trees
from remuda.training import sharing
from remuda.training.herd import Herd


def newest(
    communicator: Communicator, folder: Path, remote: frozenset[int], recorded: int
) -> tuple[Checkpoint | None, list[str]]:
    """Return the newest intact checkpoint, or None, and the problems of newer ones.

    Checkpoints up to the last ``recorded`` round come first: in a copy of a run that was training,
    rounds.jsonl may be older than the newest checkpoint. Only the value of rank 0 counts. Ranks
    that see the folder share the work of checking the files. All ranks get the same result.
    """
    known = manifests.list_all(folder) if communicator.is_root else []
    early = [checkpoint for checkpoint in known if checkpoint.round <= recorded]
    late = [checkpoint for checkpoint in known if checkpoint.round > recorded]
    problems = [
        f"{checkpoint.folder} is newer than the last complete round of the record, {recorded}"
        for checkpoint in reversed(late if early else [])
    ]
    facts = [
        [c.round, c.attempt, c.folder.name, [file.name for file in c.files]] for c in late + early
    ]
    readers = [rank for rank in communicator.original_ranks if rank not in remote]
    for t, attempt, name, files in reversed(communicator.all_gather(facts)[0]):
        place = folder / name
        checkpoint = Checkpoint(t, attempt, place, tuple(place / file for file in files))
        complaint = None
        if communicator.original_rank in readers:
            number = readers.index(communicator.original_rank)
            complaint = manifests.complaint(checkpoint, checkpoint.files[number :: len(readers)])
        complaints = [text for text in communicator.all_gather(complaint) if text]
        if not complaints:
            return checkpoint, problems
        problems.append(complaints[0])
    return None, problems


def restore(herd: Herd, checkpoint: Checkpoint, remote: frozenset[int]) -> Any:
    """Return the state of a checkpoint. All ranks must call this together."""
    communicator = herd.communicator
    is_remote = communicator.original_rank in remote
    state = herd.start() if is_remote else herd.restore(checkpoint)
    if not remote:
        return state
    saved = manifests.members(checkpoint) if communicator.is_root else []
    source = herd.source_rows(communicator.all_gather(saved)[0])
    for rank, original in enumerate(communicator.original_ranks):
        if original in remote:
            state = _relay(herd, checkpoint, source, state, rank)
            communicator.max_over_ranks(0)  # rank 0 holds the rows of one other rank at a time
    return state


def _relay(
    herd: Herd, checkpoint: Checkpoint, source: list[int | None], state: Any, rank: int
) -> Any:
    """Send everything that a rank needs, but cannot see, from rank 0. Return the own state."""
    communicator, span = herd.communicator, herd.spans[rank]
    wanted = source[span.start : span.stop]
    rows, server = Leaves.of(herd.strategy, state)
    whole = {name: leaf[None] for name, leaf in server.items()}  # as rows of one member
    if communicator.rank == rank:
        found = sharing.receive(communicator, 0, rows)
        for name, leaf in found.items():
            places = herd.new_places(source, name, leaf)
            leaf[places] = rows[name][places].cpu()
        for name, leaf in sharing.receive(communicator, 0, whole).items():
            found[name] = leaf[0]
        return trees.to(trees.fill(state, found), herd.engine.device)
    if communicator.is_root:
        like = Leaves(sharing.with_length(rows, len(span)), server)
        read = [row or 0 for row in wanted]  # new members keep their initial rows
        tables = herd.strategy.server_tables
        found = checkpoints.read(checkpoint, like, read, herd.engine.device, tables)
        sharing.send(communicator, rank, {name: found[name] for name in rows})
        sharing.send(communicator, rank, {name: found[name][None] for name in server})
    return state

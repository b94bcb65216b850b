"""Save checkpoints while training continues. Every rank writes its own rows.

A thread writes at most one shard at a time. Ranks do not wait for each other, because each shard
is complete or absent, and a checkpoint exists when all its shards do.
"""

import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, Self

from remuda.config import RunConfig
from remuda.record import checkpoints, manifests
from remuda.record.checkpoints import Checkpoint, Leaves, Shard
from remuda.record.snapshots import Snapshot, Snapshots
from remuda.system.background import Background
from remuda.system.text import Notify, listed
from remuda.tensors import trees
from remuda.training import pace, restoring, sharing
from remuda.training.herd import Herd
from remuda.training.pace import Pace


class Saver:
    """Saves the rows of this process, and on rank 0 those of ranks that cannot see the folder."""

    def __init__(
        self,
        folder: Path,  # of the checkpoints
        config: RunConfig,
        herd: Herd,
        notify: Notify,
        settle: Callable[[], None] = lambda: None,  # waits for files of earlier rounds
        protected: Callable[[], Collection[int]] = tuple,  # rounds whose checkpoints must stay
    ):
        self.folder, self.notify, self.settle = folder, notify, settle
        self.protected = protected
        self.remote = frozenset[int]()  # original numbers of the ranks that cannot see the folder
        self.config, self.herd, self.attempt = config, herd, ""
        self.snapshots = Snapshots(herd.engine.device)
        self.background = Background("checkpoints")
        self.pace = Pace(60 * config.run.checkpoint_minutes, time.monotonic())
        self.copying = 0.0  # seconds for which the last snapshot delayed the GPU
        self._submitted: Shard | None = None

    def follow(self, config: RunConfig, herd: Herd, attempt: str) -> None:
        """Save this herd from now on. Shards of different attempts are never mixed."""
        # After a failure, fewer ranks save the same round again.
        num_lost = len(herd.communicator.lost)
        self.config, self.herd, self.attempt = config, herd, f"{attempt}-{num_lost:03d}"

    def newest(self, recorded: int) -> tuple[Checkpoint | None, list[str]]:
        """Return the newest intact checkpoint, or None, and the problems of newer ones.

        Checkpoints up to the last ``recorded`` round come first.
        """
        self.wait()
        communicator = self.herd.communicator
        remote = sharing.find_remote(communicator, self.folder)
        if communicator.is_root and remote > self.remote:
            ranks = listed([str(rank) for rank in sorted(remote)])
            self.notify(
                f"rank 0 saves the rows of ranks that cannot see {self.folder} ({ranks}), which "
                "takes longer: use a folder that all ranks share"
            )
        self.remote = remote
        return restoring.newest(communicator, self.folder, remote, recorded)

    def restore(self, checkpoint: Checkpoint) -> Any:
        """Return the state of a checkpoint."""
        return restoring.restore(self.herd, checkpoint, self.remote)

    def begin(self, state: Any) -> None:
        """Start the clock. Prepare host memory for this state while training starts."""
        if self.herd.communicator.is_root:  # other ranks write nothing before the next agreement
            manifests.tidy(self.folder)
        self.pace = Pace(60 * self.config.run.checkpoint_minutes, time.monotonic())
        self.background.submit(partial(self.snapshots.reserve, trees.num_bytes(state)))

    def vote(self, t: int, is_over: bool) -> int:
        """Return this rank's number for the agreement on round t; see ``pace``.

        Raise the error of an earlier write, if there is one.
        """
        self.background.check()
        is_due = self.herd.communicator.is_root and self.pace.is_due(time.monotonic())
        return pace.vote(t, self.background.is_busy, is_due, is_over)

    def save(self, t: int, state: Any) -> None:
        """Save the state after round t. All ranks call this; none waits for the files."""
        began = time.monotonic()
        herd, communicator = self.herd, self.herd.communicator
        leaves = Leaves.of(herd.strategy, state)
        if not communicator.is_root:
            leaves = Leaves(leaves.rows, {})  # only rank 0 saves the rest
        shard = Shard(t, communicator.rank, herd.member_ids, herd.spans, self.attempt)
        # An interruption may come after the shard was submitted; its content is the same.
        if communicator.original_rank not in self.remote and shard != self._submitted:
            self._submit(shard, leaves)
            self._submitted = shard
        for rank, original in enumerate(communicator.original_ranks):
            if original in self.remote:
                self._relay(shard._replace(number=rank), leaves)
        now = time.monotonic()
        self.pace.note(now, now - began)

    def _submit(self, shard: Shard, leaves: Leaves) -> None:
        self.background.wait()  # the snapshot may reuse memory that is being written
        snapshot = self.snapshots.take({**leaves.rows, **leaves.server})
        self.background.submit(partial(self._write, shard, snapshot, list(leaves.server)))

    def _write(self, shard: Shard, snapshot: Snapshot, server: list[str]) -> None:
        self.copying = snapshot.wait()
        self.pace.blocked += self.copying
        # A resume does not draw or score rounds before the checkpoint again, and the score of this
        # round decides which checkpoints stay.
        self.settle()
        checkpoints.write(self.folder, shard, snapshot, server)
        if shard.number == 0:
            self._prune(shard.round)

    def _prune(self, t: int) -> None:
        keep = self.config.run.keep_checkpoints
        manifests.prune(self.folder, t, keep, self.protected())

    def _relay(self, shard: Shard, leaves: Leaves) -> None:
        """Send the rows of a rank that cannot see the folder to rank 0, which writes them."""
        communicator = self.herd.communicator
        if communicator.rank == shard.number:
            sharing.send(communicator, 0, leaves.rows)
        if communicator.is_root:
            like = sharing.with_length(leaves.rows, len(shard.spans[shard.number]))
            rows = sharing.receive(communicator, shard.number, like)
            self._submit(shard, Leaves(rows, {}))
            self.background.wait()

    def wait(self) -> None:
        """Wait until this process has written its part; raise if that failed."""
        self.background.wait()

    def finish(self) -> None:
        """Remove old checkpoints at the end, when every rank has written its part."""
        if self._submitted is not None and self.herd.communicator.is_root:
            self._prune(self._submitted.round)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.background.__exit__(*exception)

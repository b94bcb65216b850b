"""The loop: round after round, on every rank alike, how to stop, and how to go on when ranks are lost.

Rounds are pure: state in, state out. So a round that a loss has cut off runs again, from the state with which it began.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from remuda.cluster.coordinator import make_heartbeat
from remuda.cluster.heartbeats import Heartbeat
from remuda.config import RunConfig
from remuda.engines import World
from remuda.errors import Interrupted, RanksLost, UserError, resume_command
from remuda.record import DataFacts, Record
from remuda.training import failures as losses
from remuda.training.assemble import Herd, assemble
from remuda.training.progress import Progress
from remuda.training.recorder import Bystander, is_save_due, is_show_due, scribe_of

Position = tuple[
    int, Any
]  # the last whole round, and the state after it: one name, so that no signal can part them


class Training:
    """One process's part in a run.

    After a loss or an interruption some ranks may have gone further than others, and the next may be lost before they
    are together again. So what is done then depends on nothing but what all ranks that are left have told each other.
    """

    pulse: Heartbeat | None = None
    position: Position | None = None  # None: not yet begun, or to be begun anew
    ahead: Position  # computed, but not yet written down
    record: Record | None = None
    scribe: Bystander  # with the record
    herd: Herd  # with the position, as all that follows: the data and the members when the run was last begun, and
    facts: DataFacts
    num_members: int
    seats: Sequence[int]  # the ranks then

    def __init__(
        self,
        world: World,
        config: RunConfig,
        folder: Path,
        progress: Progress | None,
        *,
        is_new: bool,
    ):
        self.world, self.whole, self.folder, self.progress, self.is_new = (
            world,
            config,
            folder,
            progress,
            is_new,
        )
        self.config = config  # without the members that were lost on the way
        self.action: losses.Action = (
            losses.action(config) if world.num_ranks > 1 or world.lost else "stop"
        )
        self.num_noted = 0  # lost ranks that are written down
        # Whether ranks have to meet, and to decide about losses; some may have happened when the ranks joined.
        self.is_apart = self.has_losses = bool(world.lost)

    def run(self) -> Path:
        with ExitStack() as self.held, ExitStack() as self.beating:
            while not self._is_through():
                self.is_apart = True
            self.scribe.end()
        return self.folder

    def _is_through(self) -> bool:
        """Try to come to the end."""
        try:
            if self.is_apart:
                self._meet()
            if self.has_losses:
                self._regroup()
            if self.world.is_stopping:
                self._stop()
            if self.position is None:
                self._begin()
            self.is_apart = False
            self._rounds()
            return True
        except KeyboardInterrupt:
            if self.position is None:
                raise
            self.world.halt()
        except RanksLost:
            self.world.recover()
            self.has_losses = True
        except OSError as error:
            if self.position is None:
                raise
            raise UserError(
                f"{self.folder} could not be written to ({error}): make room there or check its permissions, then "
                f"go on with: {resume_command(self.folder)}; nothing that was saved is lost"
            ) from None
        return False

    def _begin(self) -> None:
        """From the newest checkpoint, or from the start, with those who are there."""
        world, is_divided = self.world, bool(self.whole.data.ranks) and not self.is_new
        config = self.whole = (
            self.whole if is_divided else losses.with_homes(self.whole, world.origins)
        )
        herd = assemble(config, world)
        self.folder = Path(world.share(str(self.folder))[0])
        if self.record is None:
            is_new = self.is_new and world.is_root
            self.record = (
                Record.create(self.folder, config, herd.facts) if is_new else Record(self.folder)
            )
            if world.is_root and not self.is_new:
                is_part = config.data.is_per_rank and (bool(config.run.lost) or not is_divided)
                self.record.expect(herd.facts, is_part=is_part)
            self.scribe = self.held.enter_context(
                scribe_of(self.record, config, herd, self.progress)
            )
        self.scribe.follow(config, herd)
        checkpoint = self.scribe.newest()
        reached = world.agree(checkpoint.round if checkpoint else -1)
        position = (0, herd.start()) if reached < 0 else (reached, herd.restore(checkpoint))
        if self.pulse is None:  # what is refused up to here has left the record alone
            pulse = make_heartbeat(
                self.folder, config, world, herd.engine.device, herd.hosted, self.scribe.note
            )
            self.pulse = self.beating.enter_context(pulse)
        self.scribe.begin(position[0])
        self._note()  # who was lost before there was a record
        self.herd, self.facts, self.num_members, self.seats = (
            herd,
            herd.facts,
            herd.engine.size,
            world.origins,
        )
        self.config, self.ahead, self.position = config, position, position
        self._keep(*position, is_saved=True)  # what was due then may have been cut off

    def _rounds(self) -> None:
        assert self.pulse is not None and self.position is not None
        herd = self.herd
        with herd.engine:
            for t in range(self.position[0] + 1, self.config.run.rounds + 1):
                self.pulse.start_round(t, self.world.rank, herd.hosted)
                began = time.perf_counter()
                state, metrics = herd.step(self.position[1], t)
                self.ahead = t, state
                everyone = herd.report(metrics)
                self.scribe.round(t, everyone, time.perf_counter() - began)
                self.position = self.world.agree(t), state  # none goes on before it is written down
                self._keep(*self.position)
            self.world.conclude()  # nor leaves before all is kept

    def _keep(self, t: int, state: Any, *, is_saved: bool = False) -> None:
        is_show, is_save = is_show_due(t, self.config), is_save_due(t, self.config) and not is_saved
        if t > 0 and (is_show or is_save):
            whole = self.herd.collect(state)
            if is_show:
                self.scribe.show(t, whole)
            if is_save:
                self.scribe.save(t, whole)

    # Interruptions and losses

    def _meet(self) -> None:
        """All come to one round: what is written down, or agreed to by any rank, has been computed by all.

        If one of them has no state, all begin anew.
        """
        reached = -1 if self.position is None else max(self.position[0], self.scribe.written)
        told = self.world.share([reached, self.has_losses, self.pulse is not None])
        if self.position is None or min(t for t, *_ in told) < 0:
            self.position = None
        elif self.ahead[0] == max(t for t, *_ in told):
            self.position = self.ahead
        self.has_losses = any(has_losses for _, has_losses, _ in told)
        if not all(has_pulse for *_, has_pulse in told):
            self.beating.close()
            self.pulse = None

    def _stop(self) -> None:
        done = "stopped"
        if self.position is not None:
            reached, state = self.position
            self.scribe.save(reached, self.herd.collect(state))
            done = f"stopped after round {reached}"
        self.world.conclude()
        raise Interrupted(self._last_words(done))

    def _last_words(self, done: str) -> str:
        if self.record is None:
            return f"{done} before there was a record: start again"
        self.scribe.end()
        return f"{done}; go on with: {resume_command(self.folder)}"

    def _regroup(self) -> None:
        """Decide what becomes of the members of lost ranks."""
        who = losses.names(self.world.lost)
        if 0 not in self.world.origins:
            raise UserError(self._last_words(who))
        is_drop = self.position is not None and self.action == "drop"
        config = self._remainder(who) if is_drop else self.whole
        self._note()
        if self.action == "stop":
            reached = "" if self.position is None else f" after round {self.position[0]}"
            raise UserError(self._last_words(f"{who}{reached}"))
        if self.position is not None and is_drop:
            self._drop(config, *self.position)
        else:
            self.position = None
        self.has_losses = False

    def _remainder(self, who: str) -> RunConfig:
        """The run without the members of the lost ranks."""
        gone = self._hosted([rank for rank in self.seats if rank not in self.world.origins])
        config = losses.without(self.whole, self.num_members, gone)
        if config.engine.ranks:
            config = replace(
                config, engine=replace(config.engine, ranks=self.world.num_ranks)
            )  # for a resume
        try:
            config.strategy.num_members(config.run.members, len(self.facts.classes))
        except UserError as error:
            raise UserError(self._last_words(f"{who}, and {error}")) from None
        return config

    def _note(self) -> None:
        """For the user and for the record."""
        news = self.world.lost[self.num_noted :]
        if self.record is None or not news:
            return
        t, members = 0, []
        if self.position is not None:
            t, members = self.position[0], self._hosted([lost.rank for lost in news])
        self.scribe.lose(news, members, t, self.action)
        if self.action != "stop":
            self.scribe.note(f"{losses.names(news)}: {losses.fate(members, self.action)}")
        self.num_noted = len(self.world.lost)

    def _hosted(self, ranks: Sequence[int]) -> list[int]:
        return losses.hosted(self.whole, self.num_members, self.seats, ranks)

    def _drop(self, config: RunConfig, t: int, state: Any) -> None:
        """The ranks that are left keep their members, with their rows and data."""
        self.herd = assemble(config, self.world)
        self.config = config
        self.scribe.follow(config, self.herd)
        self.scribe.begin(t)
        self._keep(t, state)  # what was due then may have been cut off

"""Run the training loop, which is the same on every rank.

Rounds are pure functions of the state. If a failure interrupts a round, the round runs again from
the same state. Every phase takes a ``Training`` value and returns a new one; a phase
that fails leaves the old value unchanged.
"""

import time
from dataclasses import replace
from pathlib import Path

from remuda.config import RunConfig
from remuda.engines import Communicator
from remuda.errors import Interrupted, RanksLost, StoppedByFailure, UserError, resume_command
from remuda.training import balance, failures, starting
from remuda.training.assemble import pytorch_settings
from remuda.training.pace import decide, is_due_by_rounds, is_show_due
from remuda.training.progress import Progress
from remuda.training.state import Phase, Position, Result, Session, Training


def train(
    communicator: Communicator,
    config: RunConfig,
    folder: Path,
    progress: Progress,
    *,
    is_new: bool,
) -> Path:
    """Train or resume a run, and return its folder. Enter the communicator first."""
    action = failures.choose_action(config, communicator)
    session = Session(
        communicator=communicator,
        progress=progress,
        is_new=is_new,
        action=action,
        hosts=config.engine.hosts,
    )
    # Ranks may have failed before they could join.
    has_failures = bool(communicator.lost)
    phase = Phase.MEET if has_failures else Phase.ASSEMBLE
    training = Training(
        phase=phase, folder=folder, whole=config, config=config, has_failures=has_failures
    )
    settings = pytorch_settings(config.engine, communicator)
    with settings, session.resources, session.heartbeats:
        try:
            while training.phase is not Phase.DONE:
                training = advance(session, training)
        finally:
            starting.release(training)
        assert training.recorder is not None
        try:
            training.recorder.end()
        except OSError as error:
            raise _unwritable(training.folder, error) from None
    return training.folder


def advance(session: Session, training: Training) -> Training:
    """Run the next phase. If an interruption or a failure stops it, choose the phase to follow."""
    try:
        session.communicator.check_signals()
        return PHASES[training.phase](session, training)
    except KeyboardInterrupt:
        session.communicator.interrupt()
        return replace(training, phase=Phase.MEET)
    except RanksLost:
        try:
            session.communicator.recover()
        except StoppedByFailure as error:  # without rank 0
            raise StoppedByFailure(failures.last_words(session, training, str(error))) from None
        return replace(training, phase=Phase.MEET, has_failures=True)
    except OSError as error:
        if training.reached is None:
            raise
        raise _unwritable(training.folder, error) from None


def _unwritable(folder: Path, error: OSError) -> UserError:
    return UserError(
        f"cannot write to {folder} ({error}): free some space or check the permissions, then run "
        f"{resume_command(folder)}; earlier checkpoints are intact"
    )


# Phases of a round


def compute(session: Session, training: Training) -> Training:
    """Run one round."""
    herd, reached, heartbeat = training.herd, training.reached, training.heartbeat
    assert herd is not None and reached is not None and heartbeat is not None
    t = reached.round + 1
    communicator = session.communicator
    speed = balance.speed(training.timings, len(herd.engine.members))
    heartbeat.start_round(t, herd.hosted_ids, speed)
    herd.engine.expect(training.config.run.rounds - reached.round)
    began, waited = time.perf_counter(), communicator.waited
    with communicator.interruptible():
        state, metrics = herd.step(reached.state, t)
    result = Result(metrics, began, waited, herd.engine.arrivals)
    return replace(training, phase=Phase.RECORD, ahead=Position(t, state), result=result)


def record_round(session: Session, training: Training) -> Training:
    """Record the round. No rank continues before the round is recorded."""
    herd, ahead, result = training.herd, training.ahead, training.result
    assert herd is not None and ahead is not None and result is not None
    assert training.recorder is not None and training.saver is not None
    communicator = session.communicator
    with communicator.interruptible():
        everyone = herd.report(result.metrics)
    seconds = time.perf_counter() - result.began
    own = seconds - (communicator.waited - result.waited)
    timings = balance.add_round(training.timings, own, herd.engine.is_preparing)
    training.recorder.round(ahead.round, everyone, seconds, result.arrivals)
    is_over = training.recorder.ending is not None
    agreed = decide(communicator.max_over_ranks(training.saver.vote(ahead.round, is_over)))
    return replace(
        training,
        phase=Phase.KEEP,
        reached=Position(agreed.round, ahead.state),
        result=None,
        is_due=agreed.is_due,
        is_last=agreed.is_over or agreed.round >= training.config.run.rounds,
        timings=timings,
    )


def keep(session: Session, training: Training) -> Training:
    """Draw samples, compute scores and save a checkpoint after a round, if they are due."""
    herd, reached, recorder = training.herd, training.reached, training.recorder
    assert herd is not None and reached is not None and recorder is not None
    t, config, is_last = reached.round, training.config, training.is_last
    if t > 0 and is_show_due(t, config, is_last):
        recorder.show(herd.model(reached.state, t), is_last)
    phase = failures.next_phase(session, training)
    if training.is_due or is_due_by_rounds(t, config, is_last):
        with session.stopwatch.timed("save"):
            save(training)
        if phase is Phase.COMPUTE and balance.is_possible(config, herd.spans):
            phase = Phase.BALANCE
    return replace(training, phase=phase, is_due=False)


def save(training: Training) -> None:
    """Save the reached round, unless the run started with it."""
    assert training.reached is not None and training.start is not None
    assert training.saver is not None
    t, state = training.reached
    # The checkpoint that the run started from is intact. Replacing its shards one by one would make
    # it incomplete for a moment.
    if t != training.start.round:
        training.saver.save(t, state)


def move(session: Session, training: Training) -> Training:
    """Move members to faster ranks, from the checkpoint of this round, if that saves time."""
    herd, reached, start = training.herd, training.reached, training.start
    assert herd is not None and reached is not None and start is not None
    assert training.recorder is not None and training.saver is not None
    communicator = session.communicator
    own = balance.settled_speed(
        training.timings,
        len(herd.engine.members),
        reached.round - start.round,
        training.num_moves,
    )
    plan = balance.plan(herd.spans, communicator.all_gather(own))
    if plan is None:
        return replace(training, phase=Phase.COMPUTE)
    with session.stopwatch.timed("save"):
        training.saver.wait()
        communicator.max_over_ranks(0)  # all ranks have written their parts
    training.recorder.note(balance.describe(plan))
    # Without a position, all ranks start again if one of them is lost before they continue.
    return replace(
        training,
        phase=Phase.ASSEMBLE,
        whole=training.config,
        start=start._replace(round=reached.round),
        reached=None,
        ahead=None,
        num_moves=training.num_moves + 1,
        speeds=dict(zip(communicator.original_ranks, plan.speeds, strict=True)),
    )


def finish(session: Session, training: Training) -> Training:
    """Wait for the other ranks. No rank leaves before everything is saved."""
    assert training.recorder is not None and training.saver is not None
    with session.stopwatch.timed("show"):
        training.recorder.finish()
    with session.stopwatch.timed("save"):
        training.saver.wait()
    session.communicator.finish()
    training.saver.finish()
    if training.heartbeat is not None and training.recorder.ending is not None:
        training.heartbeat.why = training.recorder.ending.why
    return replace(training, phase=Phase.DONE)


# Phases after an interruption or a failure


def stop(session: Session, training: Training) -> Training:
    """Save the last completed round and end, because the user stopped the run."""
    done = "stopped"
    if training.reached is not None:
        assert training.saver is not None
        save(training)
        training.saver.wait()
        done = f"stopped after round {training.reached.round}"
    session.communicator.finish()
    if training.saver is not None:
        training.saver.finish()
    raise Interrupted(failures.last_words(session, training, done))


PHASES = {
    Phase.MEET: failures.meet,
    Phase.NOTE: failures.note,
    Phase.SHRINK: starting.shrink,
    Phase.STOP: stop,
    Phase.ASSEMBLE: starting.assemble_herd,
    Phase.OPEN: starting.open_record,
    Phase.RESTORE: starting.restore,
    Phase.WATCH: starting.watch,
    Phase.BEGIN: starting.begin,
    Phase.KEEP: keep,
    Phase.BALANCE: move,
    Phase.COMPUTE: compute,
    Phase.RECORD: record_round,
    Phase.FINISH: finish,
}

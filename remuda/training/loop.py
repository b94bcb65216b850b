"""Run the training loop, which is the same on every rank.

Rounds are pure functions of the state. If a failure interrupts a round, the round runs again from
the same state. Every phase takes a ``Training`` value and returns a new one; a phase
that fails leaves the old value unchanged.
"""

import time
from dataclasses import replace
from pathlib import Path

from remuda.cluster.coordinator import make_heartbeat
from remuda.config import RunConfig
from remuda.engines import Communicator
from remuda.errors import Interrupted, RanksLost, UserError, resume_command
from remuda.record import Record
from remuda.training import failures
from remuda.training.assemble import assemble, pytorch_settings
from remuda.training.progress import Progress
from remuda.training.recorder import is_save_due, is_show_due, new_recorder
from remuda.training.state import Phase, Position, Result, Session, Start, Training


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
    session = Session(communicator=communicator, progress=progress, is_new=is_new, action=action)
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
            release(training)
        assert training.recorder is not None
        training.recorder.end()
    return training.folder


def release(training: Training) -> None:
    """Tell the engine that it will run no more rounds."""
    if training.herd is not None:
        training.herd.engine.expect(0)


def advance(session: Session, training: Training) -> Training:
    """Run the next phase. If an interruption or a failure stops it, choose the phase to follow."""
    try:
        return PHASES[training.phase](session, training)
    except KeyboardInterrupt:
        if training.reached is None:
            raise
        session.communicator.interrupt()
        return replace(training, phase=Phase.MEET)
    except RanksLost:
        session.communicator.recover()
        return replace(training, phase=Phase.MEET, has_failures=True)
    except OSError as error:
        if training.reached is None:
            raise
        raise UserError(
            f"cannot write to {training.folder} ({error}): free some space or check the "
            f"permissions, then run {resume_command(training.folder)}; earlier checkpoints are "
            "intact"
        ) from None


# Phases that start a run


def assemble_herd(session: Session, training: Training) -> Training:
    """Assemble the run on all remaining ranks."""
    communicator, config = session.communicator, training.whole
    is_divided = bool(config.data.ranks) and not session.is_new
    if not is_divided:
        config = failures.with_data_ranks(config, communicator.original_ranks)
    release(training)
    herd = assemble(config, communicator, session.progress.note)
    folder = Path(communicator.all_gather(str(training.folder))[0])
    return replace(
        training,
        phase=Phase.OPEN,
        whole=config,
        config=config,
        is_divided=is_divided,
        herd=herd,
        folder=folder,
    )


def open_record(session: Session, training: Training) -> Training:
    """Create the record, or open it and check that the data have not changed."""
    config, herd, record = training.config, training.herd, training.record
    assert herd is not None
    recorder = training.recorder
    if record is None or recorder is None:
        is_root = session.communicator.is_root
        if session.is_new and is_root:
            record = Record.create(training.folder, config, herd.facts)
        else:
            record = Record(training.folder)
        if is_root and not session.is_new:
            is_part = bool(config.run.lost) or not training.is_divided
            record.expect(herd.facts, is_part=config.data.is_per_rank and is_part)
        recorder = new_recorder(record, config, herd, session.progress)
        session.resources.enter_context(recorder)
    recorder.follow(config, herd)
    return replace(training, phase=Phase.RESTORE, record=record, recorder=recorder)


def restore(session: Session, training: Training) -> Training:
    """Start from the newest checkpoint, or from the beginning."""
    assert training.herd is not None and training.recorder is not None
    checkpoint = training.recorder.newest()
    saved = session.communicator.max_over_ranks(checkpoint.round if checkpoint else -1)
    if saved < 0:
        position = Position(0, training.herd.start())
    else:
        position = Position(saved, training.herd.restore(checkpoint))
    return replace(training, phase=Phase.WATCH, ahead=position)


def watch(session: Session, training: Training) -> Training:
    """Start the heartbeat.

    If an earlier phase rejects the run, its record is unchanged.
    """
    herd, heartbeat = training.herd, training.heartbeat
    assert herd is not None and training.recorder is not None
    if heartbeat is None:
        heartbeat = make_heartbeat(
            training.folder,
            training.config,
            session.communicator,
            herd.engine.device,
            herd.hosted_ids,
            training.recorder.note,
        )
        session.heartbeats.enter_context(heartbeat)
    return replace(training, phase=Phase.BEGIN, heartbeat=heartbeat)


def begin(session: Session, training: Training) -> Training:
    """Announce the start, and record ranks that were lost before the record existed."""
    herd, position = training.herd, training.ahead
    assert herd is not None and position is not None and training.recorder is not None
    training.recorder.begin(position.round)
    num_noted = failures.note_lost_ranks(session, training)
    start = Start(herd.engine.size, session.communicator.original_ranks, len(herd.facts.classes))
    # The phase KEEP comes first, because an earlier process may have ended before it drew the
    # samples and computed the scores that were due.
    return replace(
        training,
        phase=Phase.KEEP,
        start=start,
        reached=position,
        num_noted=num_noted,
        is_saved=True,
    )


# Phases of a round


def compute(session: Session, training: Training) -> Training:
    """Run one round."""
    herd, reached, heartbeat = training.herd, training.reached, training.heartbeat
    assert herd is not None and reached is not None and heartbeat is not None
    t = reached.round + 1
    heartbeat.start_round(t, session.communicator.rank, herd.hosted_ids)
    herd.engine.expect(training.config.run.rounds - reached.round)
    began = time.perf_counter()
    state, metrics = herd.step(reached.state, t)
    result = Result(metrics, began)
    return replace(training, phase=Phase.RECORD, ahead=Position(t, state), result=result)


def record_round(session: Session, training: Training) -> Training:
    """Record the round. No rank continues before the round is recorded."""
    herd, ahead, result = training.herd, training.ahead, training.result
    assert herd is not None and ahead is not None and result is not None
    assert training.recorder is not None
    everyone = herd.report(result.metrics)
    seconds = time.perf_counter() - result.began
    training.recorder.round(ahead.round, everyone, seconds)
    agreed = session.communicator.max_over_ranks(ahead.round)
    reached = Position(agreed, ahead.state)
    return replace(training, phase=Phase.KEEP, reached=reached, result=None, is_saved=False)


def keep(session: Session, training: Training) -> Training:
    """Draw samples, compute scores and save a checkpoint after a round, if they are due."""
    herd, reached, recorder = training.herd, training.reached, training.recorder
    assert herd is not None and reached is not None and recorder is not None
    t, config = reached.round, training.config
    is_show = is_show_due(t, config)
    is_save = is_save_due(t, config) and not training.is_saved
    if t > 0 and (is_show or is_save):
        whole = herd.collect(reached.state)
        if is_show:
            recorder.show(t, whole)
        if is_save:
            recorder.save(t, whole)
    return replace(training, phase=failures.next_phase(session, training))


def finish(session: Session, training: Training) -> Training:
    """Wait for the other ranks. No rank leaves before everything is saved."""
    session.communicator.finish()
    return replace(training, phase=Phase.DONE)


# Phases after an interruption or a failure


def stop(session: Session, training: Training) -> Training:
    """Save the last completed round and end, because the user stopped the run."""
    done = "stopped"
    if training.reached is not None:
        assert training.herd is not None and training.recorder is not None
        t, state = training.reached
        training.recorder.save(t, training.herd.collect(state))
        done = f"stopped after round {t}"
    session.communicator.finish()
    raise Interrupted(failures.last_words(training, done))


def shrink(session: Session, training: Training) -> Training:
    """Continue with the remaining members, which keep their rows and data."""
    assert training.reached is not None and training.recorder is not None
    release(training)
    herd = assemble(training.config, session.communicator, session.progress.note)
    training.recorder.follow(training.config, herd)
    training.recorder.begin(training.reached.round)
    return replace(training, phase=Phase.KEEP, herd=herd, has_failures=False, is_saved=False)


PHASES = {
    Phase.MEET: failures.meet,
    Phase.NOTE: failures.note,
    Phase.SHRINK: shrink,
    Phase.STOP: stop,
    Phase.ASSEMBLE: assemble_herd,
    Phase.OPEN: open_record,
    Phase.RESTORE: restore,
    Phase.WATCH: watch,
    Phase.BEGIN: begin,
    Phase.KEEP: keep,
    Phase.COMPUTE: compute,
    Phase.RECORD: record_round,
    Phase.FINISH: finish,
}

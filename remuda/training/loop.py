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
from remuda.record.snapshots import new_attempt
from remuda.training import failures
from remuda.training.assemble import assemble, pytorch_settings
from remuda.training.pace import decide, is_due_by_rounds
from remuda.training.progress import Progress
from remuda.training.recorder import is_show_due, new_recorder
from remuda.training.saving import Saver
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
    folder, attempt = communicator.all_gather([str(training.folder), new_attempt()])[0]
    return replace(
        training,
        phase=Phase.OPEN,
        whole=config,
        config=config,
        is_divided=is_divided,
        herd=herd,
        folder=Path(folder),
        attempt=attempt,
    )


def open_record(session: Session, training: Training) -> Training:
    """Create the record, or open it and check that the data have not changed."""
    config, herd, record = training.config, training.herd, training.record
    assert herd is not None
    recorder, saver = training.recorder, training.saver
    if record is None or recorder is None or saver is None:
        is_root = session.communicator.is_root
        if session.is_new and is_root:
            record = Record.create(training.folder, config, herd.facts)
        else:
            record = Record(training.folder)
        if is_root and not session.is_new:
            is_part = bool(config.run.lost) or not training.is_divided
            record.expect(herd.facts, is_part=config.data.is_per_rank and is_part)
        recorder = new_recorder(record, config, herd, session.progress, session.stopwatch)
        session.resources.enter_context(recorder)
        saver = Saver(training.folder / "checkpoints", config, herd, recorder.note, recorder.finish)
        session.resources.enter_context(saver)
    recorder.follow(config, herd)
    saver.follow(config, herd, training.attempt)
    return replace(training, phase=Phase.RESTORE, record=record, recorder=recorder, saver=saver)


def restore(session: Session, training: Training) -> Training:
    """Start from the newest checkpoint, or from the beginning."""
    herd, recorder, saver = training.herd, training.recorder, training.saver
    assert herd is not None and recorder is not None and saver is not None
    checkpoint, problems = saver.newest()
    recorder.check(checkpoint, problems)
    if checkpoint is None:
        position = Position(0, herd.start())
    else:
        position = Position(checkpoint.round, saver.restore(checkpoint))
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
    assert herd is not None and position is not None
    assert training.recorder is not None and training.saver is not None
    training.recorder.begin(position.round)
    training.saver.begin(position.state)
    num_noted = failures.note_lost_ranks(session, training)
    ranks, num_classes = session.communicator.original_ranks, len(herd.facts.classes)
    start = Start(herd.engine.size, ranks, num_classes, position.round)
    # The phase KEEP comes first, because an earlier process may have ended before it drew the
    # samples and computed the scores that were due.
    return replace(
        training,
        phase=Phase.KEEP,
        start=start,
        reached=position,
        num_noted=num_noted,
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
    assert training.recorder is not None and training.saver is not None
    everyone = herd.report(result.metrics)
    seconds = time.perf_counter() - result.began
    training.recorder.round(ahead.round, everyone, seconds)
    agreed = session.communicator.max_over_ranks(training.saver.vote(ahead.round))
    t, is_due = decide(agreed)
    reached = Position(t, ahead.state)
    return replace(training, phase=Phase.KEEP, reached=reached, result=None, is_due=is_due)


def keep(session: Session, training: Training) -> Training:
    """Draw samples, compute scores and save a checkpoint after a round, if they are due."""
    herd, reached, recorder = training.herd, training.reached, training.recorder
    assert herd is not None and reached is not None and recorder is not None
    t, config = reached.round, training.config
    if t > 0 and is_show_due(t, config):
        recorder.show(herd.model(reached.state, t))
    if training.is_due or is_due_by_rounds(t, config):
        with session.stopwatch.timed("save"):
            save(training)
    return replace(training, phase=failures.next_phase(session, training), is_due=False)


def save(training: Training) -> None:
    """Save the reached round, unless the run started with it."""
    assert training.reached is not None and training.start is not None
    assert training.saver is not None
    t, state = training.reached
    # The checkpoint that the run started from is intact. Replacing its shards one by one would make
    # it incomplete for a moment.
    if t != training.start.round:
        training.saver.save(t, state)


def finish(session: Session, training: Training) -> Training:
    """Wait for the other ranks. No rank leaves before everything is saved."""
    assert training.recorder is not None and training.saver is not None
    with session.stopwatch.timed("show"):
        training.recorder.finish()
    with session.stopwatch.timed("save"):
        training.saver.wait()
    session.communicator.finish()
    training.saver.finish()
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
    raise Interrupted(failures.last_words(training, done))


def shrink(session: Session, training: Training) -> Training:
    """Continue with the remaining members, which keep their rows and data."""
    assert training.reached is not None
    assert training.recorder is not None and training.saver is not None
    release(training)
    herd = assemble(training.config, session.communicator, session.progress.note)
    training.recorder.follow(training.config, herd)
    training.saver.follow(training.config, herd, training.attempt)
    training.recorder.begin(training.reached.round)
    return replace(training, phase=Phase.KEEP, herd=herd, has_failures=False)


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

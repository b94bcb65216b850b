"""Assemble a run on the ranks and start it, also again after a failure or a move of members.

These are phases of the training loop, see ``loop``.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from remuda.cluster.coordinator import make_heartbeat
from remuda.errors import UserError
from remuda.record import Record
from remuda.record.snapshots import new_attempt
from remuda.training import failures
from remuda.training.assemble import assemble
from remuda.training.recorder import new_recorder
from remuda.training.saving import Saver
from remuda.training.state import Phase, Position, Session, Start, Training


def release(training: Training) -> None:
    """Tell the engine that it will run no more rounds."""
    if training.herd is not None:
        training.herd.engine.expect(0)


def assemble_herd(session: Session, training: Training) -> Training:
    """Assemble the run on all remaining ranks."""
    communicator, config = session.communicator, training.whole
    is_divided = bool(config.data.ranks) and not session.is_new
    if not is_divided:
        config = failures.with_data_ranks(config, communicator.original_ranks)
    release(training)
    # After a failure, some ranks may know other speeds than rank 0.
    speeds = [training.speeds.get(rank, 1.0) for rank in communicator.original_ranks]
    facts = [str(training.folder), new_attempt(), speeds, _class_order(session, training)]
    folder, attempt, speeds, classes = communicator.all_gather(facts)[0]
    config = replace(config, data=replace(config.data, classes=tuple(classes)))
    with communicator.interruptible():
        herd = assemble(config, communicator, session.progress.note, speeds)
    # Record settings that depend on the data: the order of all classes, and families.
    data = replace(config.data, classes=tuple(herd.facts.classes) if classes else ())
    config = replace(config, data=data, strategy=herd.strategy)
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


def _class_order(session: Session, training: Training) -> Sequence[str]:
    """Return the classes that come first. Only the answer of rank 0 counts.

    If the population changes its size, new classes may join. Known classes keep their numbers.
    """
    config = training.whole
    if session.is_new or not session.communicator.is_root:
        return config.data.classes
    record = Record(training.folder)
    is_resized = config.run.members != record.setting("run", "members")
    return record.facts.classes if is_resized else config.data.classes


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
            _check_data(record, training)
        recorder = new_recorder(record, config, herd, session.progress, session.stopwatch)
        session.resources.enter_context(recorder)
        saver = Saver(
            training.folder / "checkpoints",
            config,
            herd,
            recorder.note,
            recorder.finish,
            record.protected_rounds,
        )
        session.resources.enter_context(saver)
    recorder.follow(config, herd)
    saver.follow(config, herd, training.attempt)
    return replace(training, phase=Phase.RESTORE, record=record, recorder=recorder, saver=saver)


def _check_data(record: Record, training: Training) -> None:
    """Raise if the data changed since the run started. New classes may join with new members."""
    config, herd = training.config, training.herd
    assert herd is not None
    known, new = record.facts, record.facts.new_classes(herd.facts)
    is_resized = config.run.members != record.setting("run", "members")
    is_part = config.data.is_per_rank and (bool(config.run.lost) or not training.is_divided)
    if is_resized and new and config.data.limit:  # fewer images of every class
        is_part = True
    if new and config.networks.conditional:
        raise UserError(
            f"the networks of {record.folder} have weights for each of its {len(known.classes)} "
            f"classes (networks.conditional), so {new[0]} cannot join: remove it from the data, or "
            "start a new run with remuda train"
        )
    remedy = "start a new run with remuda train"
    is_complete = set(known.classes) <= set(herd.facts.classes)
    if new and is_complete and config.strategy.partitions == ("class",):
        remedy = f"train all classes with --members {len(herd.facts.classes)}"
    record.expect(herd.facts, is_part=is_part, may_grow=is_resized, remedy=remedy)


def restore(session: Session, training: Training) -> Training:
    """Start from the newest checkpoint, or from the beginning."""
    herd, recorder, saver = training.herd, training.recorder, training.saver
    assert herd is not None and recorder is not None and saver is not None
    assert training.record is not None
    recorded = training.record.last_round() if session.communicator.is_root else 0
    checkpoint, problems = saver.newest(recorded)
    recorder.check(checkpoint, problems)
    if checkpoint is not None and session.communicator.is_root and checkpoint.round > recorded:
        recorder.note(
            f"the record of {training.folder} ends with round {recorded}, before its oldest intact "
            f"checkpoint: continuing without the lines of the rounds up to {checkpoint.round}"
        )
    with session.communicator.interruptible():
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
    assert herd is not None and training.recorder is not None and training.record is not None
    if heartbeat is None:
        heartbeat = make_heartbeat(
            training.folder,
            training.config,
            session.communicator,
            herd.engine.device,
            herd.hosted_ids,
            training.recorder.note,
            training.record.is_ours,
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
    # The run may have ended early with this round already. Only the answer of rank 0 counts.
    is_over = session.communicator.all_gather(training.recorder.ending is not None)[0]
    num_noted = failures.note_lost_ranks(session, training)
    hosted = dict(zip(session.communicator.original_ranks, herd.spans, strict=True))
    start = Start(hosted, len(herd.facts.classes), position.round)
    # The phase KEEP comes first, because an earlier process may have ended before it drew the
    # samples and computed the scores that were due.
    return replace(
        training,
        phase=Phase.KEEP,
        start=start,
        reached=position,
        is_last=is_over or position.round >= training.config.run.rounds,
        num_noted=num_noted,
        timings=None,
    )


def shrink(session: Session, training: Training) -> Training:
    """Continue with the remaining members, which keep their rows and data."""
    assert training.reached is not None and training.start is not None
    assert training.recorder is not None and training.saver is not None
    communicator = session.communicator
    release(training)
    # In proportion to the old lengths, the spans of the remaining ranks keep these lengths.
    lengths = [len(training.start.hosted[rank]) for rank in communicator.original_ranks]
    with communicator.interruptible():
        herd = assemble(training.config, communicator, session.progress.note, lengths)
    training.recorder.follow(training.config, herd)
    training.saver.follow(training.config, herd, training.attempt)
    training.recorder.begin(training.reached.round)
    phase = Phase.KEEP if training.result is None else Phase.RECORD
    return replace(training, phase=phase, herd=herd, has_failures=False, timings=None)

"""Handle lost ranks: decide what to do with their members, and synchronise the other ranks."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from remuda.cluster import hosts, lease
from remuda.config import RunConfig
from remuda.engines import Communicator, LostRank
from remuda.errors import StoppedByFailure, UserError, resume_command
from remuda.system.text import listed
from remuda.training.state import Action, Phase, Session, Training

# Decisions about the members of lost ranks


def choose_action(config: RunConfig, communicator: Communicator) -> Action:
    """Return what this job does when it loses ranks."""
    if communicator.num_ranks == 1 and not communicator.lost:
        return "stop"
    return suitable_action(config)


def suitable_action(config: RunConfig) -> Action:
    """Return the action that ``engine.on_failure`` selects; raise if it is impossible."""
    wanted, suited = config.engine.on_failure, config.strategy.on_failure
    if wanted == "drop" and suited != "drop":
        raise UserError(
            "engine.on_failure=drop does not suit this strategy, which needs all its members: "
            "use move or stop"
        )
    if wanted == "move" and config.data.is_per_rank:
        raise UserError(
            "engine.on_failure=move cannot move the data of the members, because data.path gives "
            "each rank its own: use drop or stop"
        )
    if wanted != "auto":
        return wanted
    if suited == "move" and config.data.is_per_rank:
        return "stop"
    return suited


def hosted_ids(config: RunConfig, hosted: Mapping[int, range], ranks: Collection[int]) -> list[int]:
    """Return the ids of the members that these ``ranks`` host; ``hosted`` lists all ranks."""
    ids = config.run.member_ids(sum(map(len, hosted.values())))
    return [ids[member] for rank, span in hosted.items() if rank in ranks for member in span]


def without(config: RunConfig, num_members: int, lost: Sequence[int]) -> RunConfig:
    """Return the configuration of a run after it has lost the members with these ids."""
    gone = tuple(sorted([*config.run.lost, *lost]))
    strategy, members = config.strategy.shrink(num_members - len(lost), config.run.members)
    return replace(config, strategy=strategy, run=replace(config.run, members=members, lost=gone))


def with_data_ranks(config: RunConfig, ranks: Sequence[int]) -> RunConfig:
    """Return a configuration that lists the ranks, if each rank has its own data."""
    if not config.data.is_per_rank:
        return config
    return replace(config, data=replace(config.data, ranks=tuple(ranks)))


# Messages for the user


def names(ranks: Sequence[LostRank]) -> str:
    """Return a clause such as "rank 1 on node7 and rank 2 on node8 were lost"."""
    each = [f"rank {lost.rank} on {lost.host}" for lost in ranks]
    return listed(each) + (" was lost" if len(each) == 1 else " were lost")


def fate(members: Sequence[int], action: Action) -> str:
    """Describe what happens to the members of lost ranks."""
    if not members:
        return "no member was lost"
    is_one = len(members) == 1
    which = ("member " if is_one else "members ") + listed([str(member) for member in members])
    if action == "drop":
        return f"continuing without {which}"
    verb = "moves" if is_one else "move"
    return f"{which} {verb} to the remaining ranks, from the last checkpoint"


def last_words(session: Session, training: Training, done: str) -> str:
    """Finish the record, and return a message that tells the user how to resume the run."""
    if training.recorder is not None:
        training.recorder.end()
    elif session.is_new:
        return f"{done} before anything was recorded: start the run again"
    return f"{done}; resume with: {resume_command(training.folder)}"


# Phases of the training loop


def meet(session: Session, training: Training) -> Training:
    """Bring all ranks to the same round.

    If a round is recorded, or any rank has agreed on it, all ranks have computed it. If all have
    computed a round that is not recorded, they record it later. If a rank has no state, all ranks
    start again.
    """
    reached, heartbeat = training.reached, training.heartbeat
    last = -1
    if reached is not None:
        assert training.recorder is not None
        last = max(reached.round, training.recorder.written)
    ahead = -1 if training.result is None or training.ahead is None else training.ahead.round
    is_over = training.recorder is not None and training.recorder.ending is not None
    facts = [last, training.has_failures, heartbeat is not None, ahead, is_over]
    gathered = session.communicator.all_gather(facts)
    rounds, aheads = [t for t, *_ in gathered], [t for *_, t, _ in gathered]
    if reached is None or min(rounds) < 0:
        reached = None
    elif training.ahead is not None and training.ahead.round == max(rounds):
        reached = training.ahead
    has_result = reached is not None and set(aheads) == {max(rounds) + 1}
    # Only rank 0 knows whether the last recorded round ends the run.
    is_last = any(is_over for *_, is_over in gathered)
    if reached is not None:
        is_last = is_last or reached.round >= training.config.run.rounds
    if not all(has_heartbeat for _, _, has_heartbeat, *_ in gathered):
        session.heartbeats.close()
        heartbeat = None
    result = training.result if has_result else None
    training = replace(
        training,
        reached=reached,
        heartbeat=heartbeat,
        is_due=False,
        is_last=is_last,
        result=result,
    )
    if any(has_failures for _, has_failures, *_ in gathered):
        return replace(training, phase=Phase.NOTE, has_failures=True)
    return replace(training, phase=next_phase(session, training))


def note(session: Session, training: Training) -> Training:
    """Record lost ranks and decide what to do with their members."""
    communicator, action = session.communicator, session.action
    event = names(communicator.lost)
    if 0 not in communicator.original_ranks:
        raise StoppedByFailure(last_words(session, training, event))
    # If rank 0 itself is cut off, the launcher restarts the run elsewhere.
    if not communicator.all_gather(not communicator.is_root or lease.is_held())[0]:
        raise StoppedByFailure(f"{event}, and the launcher does not answer: this rank ends")
    is_drop = training.reached is not None and action == "drop"
    config = _remainder(session, training, event) if is_drop else training.whole
    num_noted = note_lost_ranks(session, training)
    if training.heartbeat is not None:
        training.heartbeat.forget([lost.rank for lost in communicator.lost])
    if action == "stop":
        reached = training.reached
        place = "" if reached is None else f" after round {reached.round}"
        raise StoppedByFailure(last_words(session, training, f"{event}{place}"))
    training = replace(training, num_noted=num_noted)
    if is_drop:
        return replace(training, phase=Phase.SHRINK, config=config)
    training = replace(training, reached=None, result=None, has_failures=False)
    return replace(training, phase=next_phase(session, training))


def note_lost_ranks(session: Session, training: Training) -> int:
    """Record lost ranks and tell the user. Return how many lost ranks are in the record."""
    news = session.communicator.lost[training.num_noted :]
    recorder = training.recorder
    if training.record is None or recorder is None or not news:
        return training.num_noted
    t, members = 0, []
    if training.reached is None and training.start is not None:
        t = training.start.round
    elif training.reached is not None:
        t = training.reached.round
        members = _hosted_ids(training, [lost.rank for lost in news])
    recorder.fail(news, members, t, session.action)
    if session.action != "stop":
        recorder.note(f"{names(news)}: {fate(members, session.action)}")
    return len(session.communicator.lost)


def next_phase(session: Session, training: Training) -> Phase:
    """Return the phase that follows a completed round."""
    if session.communicator.is_stopping:
        return Phase.STOP
    if training.reached is None:
        return Phase.ASSEMBLE
    if training.result is not None:
        return Phase.RECORD
    return Phase.FINISH if training.is_last else Phase.COMPUTE


def _hosted_ids(training: Training, ranks: Sequence[int]) -> list[int]:
    assert training.start is not None
    return hosted_ids(training.whole, training.start.hosted, ranks)


def _remainder(session: Session, training: Training, event: str) -> RunConfig:
    """Return the configuration of the run without the members of the lost ranks."""
    assert training.start is not None
    hosted, num_classes, _ = training.start
    remaining = session.communicator.original_ranks
    gone = _hosted_ids(training, [rank for rank in hosted if rank not in remaining])
    config = without(training.whole, sum(map(len, hosted.values())), gone)
    # A resumed run starts as many ranks as remain, on the same hosts.
    if config.engine.ranks:
        engine = replace(config.engine, ranks=session.communicator.num_ranks)
        config = replace(config, engine=engine)
    if session.hosts:
        left = hosts.of_ranks(hosts.parse(session.hosts), remaining)
        config = replace(config, engine=replace(config.engine, hosts=hosts.describe(left)))
    try:
        config.strategy.num_members(config.run.members, num_classes)
    except UserError as error:
        raise StoppedByFailure(last_words(session, training, f"{event}, and {error}")) from None
    return config

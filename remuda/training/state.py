"""The state of a training run as one value: its progress, and the phase that comes next."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any, Literal, NamedTuple

from torch import Tensor

from remuda.cluster.heartbeats import Heartbeat
from remuda.config import RunConfig
from remuda.engines import Communicator
from remuda.engines.racing import Arrival
from remuda.record import Record
from remuda.system.stopwatch import Stopwatch
from remuda.training.balance import Timings
from remuda.training.herd import Herd
from remuda.training.progress import Progress
from remuda.training.recorder import NoRecorder
from remuda.training.saving import Saver

Action = Literal["drop", "move", "stop"]  # what to do with the members of lost ranks


class Phase(Enum):
    """What a process does next. Each phase is one function in ``loop`` or ``failures``."""

    MEET = auto()  # after a failure or an interruption: agree on the last common round
    NOTE = auto()  # record lost ranks, and decide what to do with their members
    SHRINK = auto()  # assemble the remaining members
    STOP = auto()  # save and end, because the user stopped the run
    ASSEMBLE = auto()  # put data, strategy and engine together
    OPEN = auto()  # create or open the record
    RESTORE = auto()  # read the newest checkpoint, or create the initial state
    WATCH = auto()  # start the heartbeat
    BEGIN = auto()  # announce the start
    KEEP = auto()  # draw samples, compute scores and save a checkpoint, if due
    BALANCE = auto()  # move members to faster ranks, if that saves time
    COMPUTE = auto()  # run one round
    RECORD = auto()  # record the round; every rank agrees that it is done
    FINISH = auto()  # wait for the other ranks
    DONE = auto()


class Position(NamedTuple):
    """A completed round and the state after it."""

    round: int
    state: Any


class Result(NamedTuple):
    """The result of a round that is not recorded yet."""

    metrics: dict[str, Tensor]  # of this process's members
    began: float  # the start of the round on time.perf_counter's clock
    waited: float  # seconds that this process had waited for others before the round
    arrivals: Sequence[Arrival] = ()  # of an asynchronous round, on rank 0


class Start(NamedTuple):
    """The members, ranks and round with which the run last started."""

    hosted: Mapping[int, range]  # by original rank: the positions of its members
    num_classes: int
    round: int  # 0, or the round of the checkpoint


@dataclass(frozen=True, kw_only=True)
class Session:
    """Everything that stays the same while a process trains."""

    communicator: Communicator
    progress: Progress
    is_new: bool  # a new run, not a resumed one
    action: Action
    hosts: str = ""  # engine.hosts at the start of the job, when all its ranks existed
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    resources: ExitStack = field(default_factory=ExitStack)  # the recorder and the saver
    heartbeats: ExitStack = field(default_factory=ExitStack)


@dataclass(frozen=True, kw_only=True)
class Training:
    """The state of one process's part of a run.

    After a failure, some ranks may be ahead of others, and more ranks may fail before all ranks
    have synchronised. Decisions therefore depend only on facts that all remaining ranks share.
    """

    phase: Phase
    folder: Path
    whole: RunConfig  # including members lost since the run last started
    config: RunConfig  # without these lost members
    attempt: str = ""  # names the checkpoints that this assembly writes, see ``manifests``
    is_divided: bool = False  # the record lists the ranks whose data are used
    has_failures: bool = False  # ranks were lost, and the action is not decided yet
    num_noted: int = 0  # lost ranks that are in the record
    record: Record | None = None
    recorder: NoRecorder | None = None
    saver: Saver | None = None
    heartbeat: Heartbeat | None = None
    herd: Herd | None = None
    start: Start | None = None
    reached: Position | None = None  # the last round that is recorded; None before the start
    ahead: Position | None = None  # the last round that is computed
    result: Result | None = None  # of the round ahead
    is_due: bool = False  # all ranks agree that it is time for a checkpoint of the reached round
    is_last: bool = False  # all ranks agree that the run ends with the reached round
    speeds: Mapping[int, float] = field(default_factory=dict)  # by original rank; empty: equal
    num_moves: int = 0  # how often members have moved to faster ranks
    timings: Timings = None

"""Define the sections of a configuration as frozen dataclasses that check their own settings.

The packages data and scores define their own sections. The sections networks and strategy are
instances of the classes in ``NETWORKS`` and ``STRATEGIES``.
"""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from remuda.config.schema import suggestion
from remuda.data.config import DataConfig
from remuda.engines import ENGINES
from remuda.errors import UserError
from remuda.networks import NETWORKS
from remuda.scores.config import ScoreConfig
from remuda.strategies import STRATEGIES
from remuda.system.trackers import TRACKERS

if TYPE_CHECKING:
    from remuda.networks import Networks
    from remuda.strategies import Strategy

MAX_THREADS = 4096  # PyTorch fails, or the machine does, if there are many more
MAX_ROUNDS = 10**11  # names of pictures, and all readers of JSON, can hold these numbers


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """Where the members live, and how they are computed."""

    # stacked: all members in this process; mpi: spread over the ranks of an MPI job
    name: str = "stacked"
    # mpi: ranks to start; 0 = as many as the launcher or batch job provides, otherwise 1
    ranks: int = 0
    # mpi: hosts and the number of ranks on each, such as "a:4,b:4"; empty = this machine
    hosts: str = ""
    # mpi: whether the library reads rows directly from GPU memory; false: copy them to the host
    cuda_aware: bool = False
    device: str = "auto"  # auto (a GPU if available), cpu, cuda, cuda:1, ...
    # loop: members one after the other (auto on a CPU); vmap: as one batch (auto on a GPU)
    layout: Literal["auto", "loop", "vmap"] = "auto"
    # on a GPU: auto = compile the training step while the first rounds run, if the run is long
    # enough; true = before the first round; false = never
    compile: bool | Literal["auto"] = "auto"
    # precision of matrix products; auto: bf16 in compiled steps, tf32 in other steps on a GPU
    precision: Literal["auto", "bf16", "tf32", "fp32"] = "auto"
    chunk: int = 0  # members stacked at a time; 0 = all, or fewer if memory is short
    # on a GPU: use only deterministic algorithms, so that a resumed run is bit-identical
    deterministic: bool = False
    # mpi: what happens to the members of a lost rank
    on_failure: Literal["auto", "drop", "move", "stop"] = "auto"
    # mpi: move members to faster ranks after a checkpoint, if that saves more than 10 % of the time
    balance: bool = True
    # stacked: a run folder; asynchronous rounds repeat the order that it has recorded
    replay: str = ""
    # mpi: how often to restart a run that lost rank 0 or all ranks; 0 = never
    restarts: int = 3
    # mpi: seconds without a sign of life after which a rank or a host counts as lost, >= 2
    failure_timeout: float = 30.0
    # CPU threads; 0 = PyTorch's default, limited to the cores that this process may use
    threads: int = 0
    # mpi: seconds, >= 1; a rank that is silent for longer is reported as delayed
    heartbeat_timeout: float = 15.0
    # mpi: seconds until a silent rank is killed and counts as lost; 0 = never
    heartbeat_limit: float = 120.0

    def __post_init__(self):
        if self.name not in ENGINES:
            raise UserError(
                f"engine.name={self.name!r} is unknown: {suggestion(self.name, ENGINES)}"
            )
        for name in ("chunk", "threads", "ranks", "restarts"):
            if getattr(self, name) < 0:
                raise UserError(f"engine.{name} must be at least 0, not {getattr(self, name)}")
        if self.threads > MAX_THREADS:
            raise UserError(f"engine.threads must be at most {MAX_THREADS}, not {self.threads}")
        self._check_heartbeats()
        if self.ranks and not ENGINES[self.name].spans_processes:
            raise UserError(f"engine.ranks={self.ranks} requires MPI: add --engine mpi")
        if self.hosts and not ENGINES[self.name].spans_processes:
            raise UserError(f"engine.hosts={self.hosts} requires MPI: add --engine mpi")

    def _check_heartbeats(self) -> None:
        if not 2 <= self.failure_timeout < math.inf:
            raise UserError(
                f"engine.failure_timeout must be at least 2 seconds, not {self.failure_timeout}"
            )
        timeout, limit = self.heartbeat_timeout, self.heartbeat_limit
        if not 1 <= timeout < math.inf:
            raise UserError(f"engine.heartbeat_timeout must be at least 1 second, not {timeout}")
        if limit != 0 and not timeout <= limit < math.inf:
            raise UserError(
                f"engine.heartbeat_limit must be 0 or at least engine.heartbeat_timeout={timeout}, "
                f"not {limit}"
            )


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """The population, the length of the training, and how often to save."""

    rounds: int = 10  # rounds to train, >= 1
    members: int = 0  # size of the population; 0 = the strategy's default for the data
    seed: int = 0  # seed of all random numbers
    # rounds between checkpoints; 0 = only by time; the last round always gets a checkpoint
    checkpoint_every: int = 0
    # longest time between checkpoints, > 0, unless saving would take more than 3 % of the run; the
    # first ones follow each other more quickly
    checkpoint_minutes: float = 2.0
    keep_checkpoints: int = 3  # newest checkpoints to keep, >= 1
    # also keep the checkpoint that is best by this score, such as "fid" or
    # "fid_10k_train_inception"; empty: only the newest ones
    keep_best: str = ""
    # stop if run.keep_best has not improved in this many scored rounds, >= 1; 0 = never
    patience: int = 0
    # stop after the round in which the rounds have taken this long in total; 0 = no limit
    max_minutes: float = 0.0
    sample_every: int = 10  # rounds between sample grids, >= 1; the last round always gets one
    # where to show the run as well as in its folder: tensorboard, wandb, mlflow
    trackers: tuple[str, ...] = ()
    # ids of the members that were lost with their data; the run sets this itself
    lost: tuple[int, ...] = ()

    def __post_init__(self):
        for name in ("rounds", "keep_checkpoints", "sample_every"):
            if getattr(self, name) < 1:
                raise UserError(f"run.{name} must be at least 1, not {getattr(self, name)}")
        for name in ("members", "checkpoint_every", "patience"):
            if getattr(self, name) < 0:
                raise UserError(f"run.{name} must be at least 0, not {getattr(self, name)}")
        if self.rounds > MAX_ROUNDS:
            raise UserError(f"run.rounds must be at most {MAX_ROUNDS}, not {self.rounds}")
        if not self.checkpoint_minutes > 0:
            minutes = self.checkpoint_minutes
            raise UserError(f"run.checkpoint_minutes must be above 0, not {minutes}")
        if not 0 <= self.max_minutes < math.inf:
            raise UserError(
                f"run.max_minutes must be a number of minutes, or 0 for no limit, not "
                f"{self.max_minutes}"
            )
        if self.patience and not self.keep_best:
            raise UserError(
                f"run.patience={self.patience} needs a score to watch: set run.keep_best, for "
                "example with --set run.keep_best=fid"
            )
        for name in self.trackers:
            if name not in TRACKERS:
                raise UserError(f"run.trackers: {name!r} is unknown: {suggestion(name, TRACKERS)}")
        if len(set(self.trackers)) < len(self.trackers):
            raise UserError(f"run.trackers={list(self.trackers)} names a tracker twice: remove one")
        if len(set(self.lost)) < len(self.lost):
            raise UserError(f"run.lost={list(self.lost)} names a member twice: remove one")
        known = range(self.members + len(self.lost))
        if self.lost and not (self.members and set(self.lost) <= set(known)):
            raise UserError(
                f"run.lost={list(self.lost)} does not fit run.members={self.members}: run.members "
                "counts the members that are left, and every number in run.lost must be below "
                "the sum of both counts"
            )

    def member_ids(self, num_members: int) -> list[int]:
        """Return the members' original numbers, which do not change when others are lost."""
        return [i for i in range(num_members + len(self.lost)) if i not in self.lost]


# The default for ``name`` in the sections networks and strategy.
DEFAULT_NAMES = {"networks": "dcgan", "strategy": "standalone"}


def _default_networks() -> "Networks":
    return NETWORKS[DEFAULT_NAMES["networks"]]()


def _default_strategy() -> "Strategy":
    return STRATEGIES[DEFAULT_NAMES["strategy"]]()


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines a run."""

    about: str = ""  # one sentence that describes the run
    paper: dict[str, Any] = field(default_factory=dict)  # a paper's results for this experiment
    data: DataConfig = field(default_factory=DataConfig)
    networks: "Networks" = field(default_factory=_default_networks)
    strategy: "Strategy" = field(default_factory=_default_strategy)
    engine: EngineConfig = field(default_factory=EngineConfig)
    run: LoopConfig = field(default_factory=LoopConfig)
    scores: ScoreConfig = field(default_factory=ScoreConfig)

    def __post_init__(self):
        if self.run.keep_best and not self.scores.every:
            raise UserError(
                f"run.keep_best={self.run.keep_best} needs scores during training: set "
                "scores.every, for example with --set scores.every=10"
            )

    def with_full_paths(self) -> "RunConfig":
        """Return the same settings with absolute paths, which are valid in any working folder."""
        engine = self.engine
        if engine.replay:
            engine = replace(engine, replay=str(Path(engine.replay).expanduser().resolve()))
        return replace(self, data=self.data.with_full_paths(), engine=engine)

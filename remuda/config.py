"""A run's configuration: frozen dataclasses, TOML in and out, ``--set a.b=c``.

Each section is a dataclass; ``name`` in the sections networks and strategy says which. What is not known is an error
that gives the nearest name; nothing is converted silently.
"""

import difflib
import math
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

import cattrs
import tomli_w
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError

from remuda.data import DataConfig
from remuda.errors import UserError
from remuda.networks import DCGAN, NETWORKS, Networks
from remuda.scores.config import ScoreConfig
from remuda.strategies import STRATEGIES, Standalone, Strategy


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    name: Literal["stacked", "mpi"] = (
        "stacked"  # all members in this process, or spread over the ranks of an MPI job
    )
    ranks: int = (
        0  # mpi: how many to start; 0 = those that a launcher or a batch job has, or else one
    )
    cuda_aware: bool = False  # mpi: whether its library takes rows from a GPU's memory; false: they pass the host's
    device: str = "auto"  # auto (a GPU if there is one), cpu, cuda, cuda:1, ...
    layout: Literal["auto", "loop", "vmap"] = (
        "auto"  # members one after the other (CPU), or as one batch (GPU)
    )
    compile: bool = True  # on a GPU: compile the herd's step and replay it from a CUDA graph
    precision: Literal["auto", "bf16", "tf32", "fp32"] = (
        "auto"  # of matrix products; auto: bf16 if compiled on a GPU
    )
    chunk: int = 0  # members stacked at a time; 0 = all, and fewer where memory asks for it
    deterministic: bool = (
        False  # on a GPU: only algorithms that repeat to the bit, so that resume is exact there too
    )
    on_failure: Literal["auto", "drop", "move", "stop"] = (
        "auto"  # mpi: what becomes of a lost rank's members
    )
    threads: int = (
        0  # CPU threads; 0 = PyTorch's choice, but no more than the cores that this process may use
    )
    heartbeat_timeout: float = (
        15.0  # mpi: seconds, >= 1; a rank that is not heard for longer is named as delayed
    )
    heartbeat_limit: float = (
        120.0  # mpi: seconds after which such a rank is killed and counts as lost; 0 = never
    )

    def __post_init__(self):
        for name in ("chunk", "threads", "ranks"):
            if getattr(self, name) < 0:
                raise UserError(f"engine.{name} must be at least 0, not {getattr(self, name)}")
        if not 1 <= self.heartbeat_timeout < math.inf:
            raise UserError(
                f"engine.heartbeat_timeout must be at least 1 second, not {self.heartbeat_timeout}"
            )
        if (
            self.heartbeat_limit != 0
            and not self.heartbeat_timeout <= self.heartbeat_limit < math.inf
        ):
            raise UserError(
                f"engine.heartbeat_limit must be 0 or at least engine.heartbeat_timeout={self.heartbeat_timeout}, "
                f"not {self.heartbeat_limit}"
            )
        if self.ranks and self.name != "mpi":
            raise UserError(
                f"engine.ranks={self.ranks} has a meaning with MPI alone: add --engine mpi"
            )


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    rounds: int = 10  # rounds to train, >= 1
    members: int = 0  # size of the population; 0 = what the strategy and the data suggest
    seed: int = 0  # of every random draw
    checkpoint_every: int = 10  # rounds between checkpoints, >= 1; the last round always gets one
    keep_checkpoints: int = 3  # newest ones kept, >= 1
    sample_every: int = 10  # rounds between sample grids, >= 1; the last round always gets one
    tensorboard: bool = False  # write event files too
    lost: tuple[
        int, ...
    ] = ()  # numbers, among members and lost ones, of those lost on the way with their data

    def __post_init__(self):
        for name in ("rounds", "checkpoint_every", "keep_checkpoints", "sample_every"):
            if getattr(self, name) < 1:
                raise UserError(f"run.{name} must be at least 1, not {getattr(self, name)}")
        if self.members < 0:
            raise UserError(f"run.members must be at least 0, not {self.members}")
        if len(set(self.lost)) < len(self.lost):
            raise UserError(f"run.lost={list(self.lost)} names a member twice: leave one out")
        if self.lost and not (
            self.members and set(self.lost) <= set(range(self.members + len(self.lost)))
        ):
            raise UserError(
                f"run.lost={list(self.lost)} with run.members={self.members}: the first has numbers below that of "
                "members and lost ones together, the second the number of those left"
            )

    def sites(self, num_members: int) -> list[int]:
        """What the members were numbered as before any was lost: by that they have their data."""
        return [site for site in range(num_members + len(self.lost)) if site not in self.lost]


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines a run."""

    about: str = ""  # one sentence for people
    paper: dict[str, Any] = field(
        default_factory=dict
    )  # what a paper reports of the same experiment
    data: DataConfig = field(default_factory=DataConfig)
    networks: Networks = field(default_factory=DCGAN)
    strategy: Strategy = field(default_factory=Standalone)
    engine: EngineConfig = field(default_factory=EngineConfig)
    run: LoopConfig = field(default_factory=LoopConfig)
    scores: ScoreConfig = field(default_factory=ScoreConfig)


NAMED: dict[str, dict[str, type]] = {
    "networks": cast(dict[str, type], NETWORKS),
    "strategy": cast(dict[str, type], STRATEGIES),
}
PLAIN: dict[str, type] = {
    "data": DataConfig,
    "engine": EngineConfig,
    "run": LoopConfig,
    "scores": ScoreConfig,
}
DEFAULT_NAMES = {"networks": "dcgan", "strategy": "standalone"}


def from_dict(values: dict[str, Any]) -> RunConfig:
    """The configuration that nested dicts describe, as read from TOML."""
    _known(values, [f.name for f in fields(RunConfig)], "section")
    parts: dict[str, Any] = {}
    for section, cls in PLAIN.items():
        parts[section] = _structure(section, cls, _table(values, section))
    for section, classes in NAMED.items():
        table = dict(_table(values, section))
        name = table.pop("name", DEFAULT_NAMES[section])
        if not isinstance(name, str) or name not in classes:
            raise UserError(
                f"{section}.name={name!r} is unknown: {_suggestion(str(name), classes)}"
            )
        parts[section] = _structure(section, classes[name], table)
    about, paper = values.get("about", ""), values.get("paper", {})
    if not isinstance(about, str) or not isinstance(paper, dict):
        raise UserError("about must be a text and paper a table")
    return RunConfig(about=about, paper=paper, **parts)


def to_dict(config: RunConfig) -> dict[str, Any]:
    """The inverse of ``from_dict``, every setting spelled out."""
    values: dict[str, Any] = {"about": config.about, "paper": config.paper}
    for section in PLAIN:
        values[section] = _converter.unstructure(getattr(config, section))
    for section, classes in NAMED.items():
        part = getattr(config, section)
        names = [name for name, cls in classes.items() if cls is type(part)]
        if not names:
            raise UserError(
                f"{type(part).__name__} has no name in the {section} section, so that no record could be read again: "
                "give it an entry in the dict of its package"
            )
        values[section] = {"name": names[0]} | _converter.unstructure(part)
    return {
        key: values[key]
        for key in (f.name for f in fields(RunConfig))
        if values[key] or key in NAMED
    }


def to_toml(config: RunConfig) -> str:
    return tomli_w.dumps(to_dict(config))


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from None


def override(values: dict[str, Any], assignments: list[str]) -> dict[str, Any]:
    """Values with every "section.key=value" applied; a value is TOML, or else taken as text."""
    result = {
        key: dict(value) if isinstance(value, dict) else value for key, value in values.items()
    }
    # Names first: a key that the class does not have is the user's error, whatever the order.
    for assignment in sorted(
        assignments, key=lambda text: not text.partition("=")[0].strip().endswith(".name")
    ):
        path, equals, text = assignment.partition("=")
        section, dot, key = path.strip().partition(".")
        if not (equals and dot and key):
            raise UserError(
                f"--set {assignment}: write section.key=value, for example strategy.batch_size=32"
            )
        _known({section: None}, [*PLAIN, *NAMED], "section")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()
        table = _table(result, section)
        result[section] = table
        if key == "name" and isinstance(value, str) and value in NAMED.get(section, {}):
            # Another class: of the recipe's settings those stay that it knows too.
            known = {f.name for f in fields(NAMED[section][value])}
            table = result[section] = {
                name: setting for name, setting in table.items() if name in known
            }
        table[key] = value
    return result


def _table(values: dict[str, Any], section: str) -> dict[str, Any]:
    table = values.get(section, {})
    if not isinstance(table, dict):
        raise UserError(f"{section} must be a table of settings, not {table!r}")
    return table


def _structure(section: str, cls: type, table: dict[str, Any]) -> Any:
    names = [f.name for f in fields(cls) if f.init]
    _known(
        table,
        names if section in PLAIN else ["name", *names],
        f"key in [{section}]",
        prefix=f"{section}.",
    )
    try:
        return _converter.structure(table, cls)
    except ClassValidationError as group:
        raise UserError(_first_complaint(group, section)) from None


def _first_complaint(group: BaseException, path: str) -> str:
    """The first leaf of cattrs' tree of errors, as a sentence with the key's full name."""
    if isinstance(group, ClassValidationError):
        with_notes, without_notes = group.group_exceptions()
        if with_notes:
            error, note = with_notes[0]
            return _first_complaint(error, f"{path}.{note.name}")
        return _first_complaint(without_notes[0], path)
    if isinstance(group, UserError):
        return str(group)
    if isinstance(group, BaseExceptionGroup):
        return _first_complaint(group.exceptions[0], path)
    assert not isinstance(group, ForbiddenExtraKeysError)
    return f"{path}: {group}"


def _known(given: dict[str, Any], known: Any, kind: str, prefix: str = "") -> None:
    for name in given:
        if name not in known:
            raise UserError(f"unknown {kind}: {prefix}{name}; {_suggestion(name, known)}")


def _suggestion(name: str, known: Any) -> str:
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(known)}"


def _strict(kind: str, *types: type):
    def hook(value: Any, wanted: Any) -> Any:
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise ValueError(f"expected {kind}, not {value!r}")
        return float(value) if wanted is float else value

    return hook


def _literal(value: Any, wanted: Any) -> Any:
    if value not in wanted.__args__:
        raise ValueError(f"{value!r} is unknown, {_suggestion(str(value), wanted.__args__)}")
    return value


def _number_or_word(value: Any, wanted: Any) -> Any:
    words = [word for part in get_args(wanted) for word in get_args(part)]
    if isinstance(value, bool) or not (isinstance(value, int) or value in words):
        raise ValueError(
            f"expected a whole number or {' or '.join(map(repr, words))}, not {value!r}"
        )
    return value


def _several(value: Any, wanted: Any) -> Any:
    parts = get_args(wanted)
    count = "" if Ellipsis in parts else f"{len(parts)} "
    if not isinstance(value, list | tuple) or (count and len(value) != len(parts)):
        raise ValueError(f"expected {count}numbers in brackets, not {value!r}")
    return tuple(_converter.structure(item, parts[0]) for item in value)


_converter = cattrs.Converter(forbid_extra_keys=True)
_converter.register_structure_hook_func(lambda t: get_origin(t) is tuple, _several)
_converter.register_structure_hook(int, _strict("a whole number", int))
_converter.register_structure_hook(float, _strict("a number", int, float))
_converter.register_structure_hook(bool, _strict("true or false", bool))
_converter.register_structure_hook(str, _strict("a text", str))
_converter.register_structure_hook_func(
    lambda t: getattr(t, "__origin__", None) is Literal, _literal
)
_converter.register_structure_hook_func(
    lambda t: get_origin(t) in (Union, UnionType) and int in get_args(t), _number_or_word
)

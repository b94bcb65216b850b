"""The configuration of a run: frozen dataclasses, TOML files, and ``--set section.key=value``.

Each section is a dataclass. In the sections networks and strategy, the key ``name`` chooses the
class. An unknown name raises an error that suggests the nearest known name. Values are never
converted silently.
"""

from remuda.config.deprecated import DEPRECATED, DEPRECATED_VALUES, DeprecatedSetting
from remuda.config.files import (
    NAMED,
    PLAIN,
    comparable,
    from_dict,
    override,
    read_toml,
    to_dict,
    to_toml,
    write_toml,
)
from remuda.config.schema import suggestion
from remuda.config.sections import DEFAULT_NAMES, EngineConfig, LoopConfig, RunConfig
from remuda.data.config import DataConfig
from remuda.engines import ENGINES
from remuda.networks import NETWORKS
from remuda.scores.config import ScoreConfig
from remuda.strategies import STRATEGIES

__all__ = [
    "DEFAULT_NAMES",
    "DEPRECATED",
    "DEPRECATED_VALUES",
    "ENGINES",
    "NAMED",
    "NETWORKS",
    "PLAIN",
    "STRATEGIES",
    "DataConfig",
    "DeprecatedSetting",
    "EngineConfig",
    "LoopConfig",
    "RunConfig",
    "ScoreConfig",
    "comparable",
    "from_dict",
    "override",
    "read_toml",
    "suggestion",
    "to_dict",
    "to_toml",
    "write_toml",
]

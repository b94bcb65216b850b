"""Group runs that repeat each other, and name the groups."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remuda.errors import UserError
from remuda.reports.compare.runs import Run

# These settings change the result at most by rounding errors: they concern the device, speed,
# folders, and how often to save.
IGNORED = {
    "about",
    "paper",
    "engine",
    "scores",
    "data.path",
    "run.seed",
    "run.checkpoint_every",
    "run.checkpoint_minutes",
    "run.keep_checkpoints",
    "run.keep_best",
    "run.sample_every",
    "run.tensorboard",  # the old name of run.trackers
    "run.trackers",
}
CONTENT = "data.content"  # not a setting, but the facts in data.json

Settings = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs that differ only in their seed."""

    name: str
    runs: list[Run]
    settings: Settings

    @property
    def strategy(self) -> str:
        """The name of the strategy."""
        return self.settings["strategy.name"]


def relevant(settings: Settings) -> Settings:
    """Return every setting that changes the result as {"section.key": value}, without the seed.

    The settings are those of ``Record.comparable``.
    """
    found = {}
    for section, values in settings.items():
        if section not in IGNORED:
            found.update({f"{section}.{key}": value for key, value in values.items()})
    return {key: value for key, value in found.items() if key not in IGNORED}


def group(runs: list[Run]) -> list[Group]:
    """Group runs that repeat each other, in the order of each group's first run."""
    groups: list[Group] = []
    for run in runs:
        # Compare the actual number of members, whether the user or the strategy chose it.
        content = content_of(run), run.facts.classes, run.facts.counts
        members, seed = run.settings["run"]["members"], run.settings["run"]["seed"]
        known = relevant(run.settings)
        known |= {"run.members": members or run.num_members, CONTENT: content}
        same = next((one for one in groups if one.settings == known), None)
        if same is None:
            groups.append(Group(name="", runs=[run], settings=known))
            continue
        for other in same.runs:
            if other.settings["run"]["seed"] == seed:
                raise UserError(
                    f"{other.folder} and {run.folder} have the same settings and the same seed "
                    f"{seed}, so they are not repeats: leave one out"
                )
        same.runs.append(run)
    return [replace(one, name=name) for one, name in zip(groups, _names(groups), strict=True)]


def content_of(run: Run) -> str:
    """Describe the run's data."""
    shape = "x".join(map(str, run.facts.shape))
    return f"{run.facts.name}, {sum(run.facts.counts):,} of {shape}"


def _names(groups: list[Group]) -> list[str]:
    """Name repeats after their strategy and differing settings, single runs after their folders."""
    repeated = [i for i, one in enumerate(groups) if len(one.runs) > 1]
    by_strategy = defaultdict(list)
    for i in repeated:
        by_strategy[groups[i].strategy].append(i)
    names: dict[int, str] = {}
    for strategy, places in by_strategy.items():
        additions = _distinguish({i: groups[i] for i in places})
        names |= {i: " ".join([strategy, *additions[i]]) for i in places}
    folders = {i: one.runs[0].folder for i, one in enumerate(groups) if i not in names}
    names |= _short_paths(folders, set(names.values()))
    return [names[i] for i in range(len(groups))]


def _distinguish(groups: dict[int, Group]) -> dict[int, list[str]]:
    """Return a few settings that distinguish the groups; those with the most values come first."""
    if len(groups) == 1:
        return {i: [] for i in groups}
    keys = [key for key in differing(groups.values()) if key != CONTENT]
    if not keys:
        return {i: [one.runs[0].folder.name] for i, one in groups.items()}
    key = max(keys, key=lambda key: len({repr(one.settings.get(key)) for one in groups.values()}))
    names = {}
    for value in {repr(one.settings.get(key)): None for one in groups.values()}:
        part = {i: one for i, one in groups.items() if repr(one.settings.get(key)) == value}
        for i, rest in _distinguish(part).items():
            names[i] = [_short(key, groups[i].settings.get(key)), *rest]
    return names


def differing(groups: Iterable[Group]) -> list[str]:
    """Return the settings that differ between groups; strategy and networks come first."""
    groups = list(groups)
    keys = {key: None for one in groups for key in one.settings}
    found = [key for key in keys if len({repr(one.settings.get(key)) for one in groups}) > 1]
    places = {section: i for i, section in enumerate(("strategy", "networks", "data", "run"))}
    return sorted(found, key=lambda key: places.get(key.split(".")[0], len(places)))


def plain(value: object) -> str:
    """Format the value of a setting as readable text."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(plain, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _short(key: str, value: object) -> str:
    name = key.split(".")[1]
    return plain(value) if name == "name" else f"{name}={plain(value)}"


def _short_paths(folders: dict[int, Path], taken: set[str]) -> dict[int, str]:
    """Return the shortest unique end of each folder's path."""
    whole = {i: folder.resolve().parts for i, folder in folders.items()}
    for length in range(1, max(map(len, whole.values()), default=0) + 1):
        names = {i: str(Path(*parts[-length:])) for i, parts in whole.items()}
        if len(set(names.values()) - taken) == len(names):
            return names
    assert not folders, "two groups have different folders"
    return {}

"""Which runs repeat each other, and what to call them."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remuda.config import RunConfig, to_dict
from remuda.errors import UserError
from remuda.reports.compare.gathering import Run

# Neither of these changes what is learnt, up to rounding: where and how fast, from which folder, how often to save.
IGNORED = {
    "about",
    "paper",
    "engine",
    "scores",
    "data.path",
    "run.seed",
    "run.checkpoint_every",
    "run.keep_checkpoints",
    "run.sample_every",
    "run.tensorboard",
}
CONTENT = "data.content"  # not a setting: what data.json says of the images

Settings = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs that differ by their seed alone."""

    name: str
    runs: list[Run]
    settings: Settings

    @property
    def strategy(self) -> str:
        return self.settings["strategy.name"]


def settings(config: RunConfig) -> Settings:
    """Every setting that changes what is learnt, as {"section.key": value}, but for the seed."""
    found = {}
    for section, values in to_dict(config).items():
        if section not in IGNORED:
            found.update({f"{section}.{key}": value for key, value in values.items()})
    return {key: value for key, value in found.items() if key not in IGNORED}


def group(runs: list[Run]) -> list[Group]:
    """Runs that repeat each other put together, in the order of their first ones."""
    groups: list[Group] = []
    for run in runs:
        # How many members there are counts, not whether the number was given or left to the strategy.
        content = content_of(run), run.facts.classes, run.facts.counts
        known = settings(run.config) | {"run.members": run.num_members, CONTENT: content}
        same = next((one for one in groups if one.settings == known), None)
        if same is None:
            groups.append(Group(name="", runs=[run], settings=known))
            continue
        for other in same.runs:
            if other.config.run.seed == run.config.run.seed:
                raise UserError(
                    f"{other.folder} and {run.folder} have the same settings and the same seed "
                    f"{run.config.run.seed}, so that neither repeats the other: leave one out"
                )
        same.runs.append(run)
    return [replace(one, name=name) for one, name in zip(groups, _names(groups), strict=True)]


def content_of(run: Run) -> str:
    shape = "x".join(map(str, run.facts.shape))
    return f"{run.facts.name}, {sum(run.facts.counts):,} of {shape}"


def _names(groups: list[Group]) -> list[str]:
    """Repeats are called by their strategy and what tells them from each other, a single run by its folder."""
    repeated = [i for i, one in enumerate(groups) if len(one.runs) > 1]
    by_strategy = defaultdict(list)
    for i in repeated:
        by_strategy[groups[i].strategy].append(i)
    names: dict[int, str] = {}
    for strategy, places in by_strategy.items():
        additions = _tell_apart({i: groups[i] for i in places})
        names |= {i: " ".join([strategy, *additions[i]]) for i in places}
    folders = {i: one.runs[0].folder for i, one in enumerate(groups) if i not in names}
    names |= _short_paths(folders, set(names.values()))
    return [names[i] for i in range(len(groups))]


def _tell_apart(groups: dict[int, Group]) -> dict[int, list[str]]:
    """The fewest settings that give each group another name: first the one with the most different values."""
    if len(groups) == 1:
        return {i: [] for i in groups}
    keys = [key for key in differing(groups.values()) if key != CONTENT]
    if not keys:
        return {i: [one.runs[0].folder.name] for i, one in groups.items()}
    key = max(keys, key=lambda key: len({repr(one.settings.get(key)) for one in groups.values()}))
    names = {}
    for value in {repr(one.settings.get(key)): None for one in groups.values()}:
        part = {i: one for i, one in groups.items() if repr(one.settings.get(key)) == value}
        for i, rest in _tell_apart(part).items():
            names[i] = [_short(key, groups[i].settings.get(key)), *rest]
    return names


def differing(groups: Iterable[Group]) -> list[str]:
    """Settings that are not the same in all groups; strategy and networks first, since papers differ there."""
    groups = list(groups)
    keys = {key: None for one in groups for key in one.settings}
    found = [key for key in keys if len({repr(one.settings.get(key)) for one in groups}) > 1]
    sections = ["strategy", "networks", "data", "run"]
    return sorted(
        found,
        key=lambda key: (
            sections.index(s) if (s := key.split(".")[0]) in sections else len(sections)
        ),
    )


def plain(value: object) -> str:
    """A setting's value for people."""
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
    """For each folder the shortest end of its path that is no other's name."""
    whole = {i: folder.resolve().parts for i, folder in folders.items()}
    for length in range(1, max(map(len, whole.values()), default=0) + 1):
        names = {i: str(Path(*parts[-length:])) for i, parts in whole.items()}
        if len(set(names.values()) - taken) == len(names):
            return names
    assert not folders, "two groups have different folders"
    return {}

"""Describe a table or figure of a paper: its values, the runs behind it, and how to show it.

A description is data. ``remuda.experiments.papers.executor`` runs every description in the same
way; everything that is special about one table is in its description.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from remuda import recipes
from remuda.config import RunConfig
from remuda.errors import UserError
from remuda.system.text import Notify, ignore

if TYPE_CHECKING:
    from remuda.training.progress import Progress

State = Literal["measured", "runnable", "needs data", "analytic", "not a result"]
SHORT = "-short"  # ends the names of folders and files of --short


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper, and the beginning of the names of its tables and figures."""

    name: str
    source: str  # authors, year, title


@dataclass(frozen=True, kw_only=True)
class Options:
    """Choices of the user that apply to all runs of a reproduction."""

    out: Path = Path("runs/reproduce")
    short: bool = False
    seeds: int = 0  # 0 = as the description says
    device: str | None = None
    data: Path | None = None  # folder with the data sets, and with folders of images
    settings: Sequence[str] = ()  # assignments that override those of the description
    new_progress: "Callable[[], Progress] | None" = None  # None = train silently
    notify: Notify = ignore


@dataclass(frozen=True, kw_only=True)
class Work(ABC):
    """Something to run: a recipe with settings, in a folder whose name says what it is."""

    name: str
    home: str  # the result in whose folder it runs; several results can use the same work
    recipe: str
    settings: tuple[str, ...] = ()
    short: tuple[str, ...] = ()  # further settings of --short

    resumes: ClassVar[bool] = True  # whether interrupted runs continue, or start from round 1

    def folder(self, options: Options) -> Path:
        """Return the folder of the work."""
        return options.out / (self.home + (SHORT if options.short else "")) / self.name

    def assignments(self, options: Options) -> list[str]:
        """Return all changes of the recipe, in the form that --set accepts.

        If the recipe reads a folder of images, its data are the sub-folder of ``options.data`` with
        the name in the recipe.
        """
        found = [*self.settings, *(self.short if options.short else ()), *options.settings]
        if options.device is not None:
            found.append(f'engine.device="{options.device}"')
        if options.data is not None:
            data = recipes.recipe(self.recipe, *found).data
            folder = options.data / data.images_path if data.is_images else options.data
            found.append(
                f'data.name="folder:{folder}"' if data.is_images else f'data.path="{folder}"'
            )
        return found

    def config(self, options: Options) -> RunConfig:
        """Return the configuration, and check its settings."""
        return recipes.recipe(self.recipe, *self.assignments(options))

    @abstractmethod
    def execute(self, options: Options, seeds: int) -> tuple[list[Path], list[str]]:
        """Run what has no result yet. Return the folders with results, and why others failed."""

    @abstractmethod
    def plan(self, options: Options, seeds: int) -> list[tuple[Path, RunConfig]]:
        """Return the folder and the configuration of every run."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The folders that a result is computed from, by the name of the work."""

    folders: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    gaps: Mapping[str, str] = field(default_factory=dict)  # why folders are missing
    short: bool = False

    def of(self, name: str) -> Sequence[Path]:
        """Return the folders of a work; raise a Missing with the reason if there are none."""
        if folders := self.folders.get(name):
            return folders
        raise Missing(self.gaps.get(name, f"{name} was not run"))


class Missing(UserError):
    """Report why a value of a table or figure is missing."""


class Form(ABC):
    """How a result is shown, with the values of the paper."""

    @abstractmethod
    def render(self, evidence: Evidence, stem: Path) -> list[str]:
        """Write STEM.csv and, for figures, pictures STEM*.png; return the lines of STEM.md."""

    @property
    def numbers(self) -> list[float]:
        """All numbers of the paper."""
        return []

    @property
    def names(self) -> set[str]:
        """The names of the works that it reads."""
        return set()


@dataclass(frozen=True, kw_only=True)
class Result:
    """A table or figure of a paper."""

    name: str  # such as cellular-table-3; the name of a paper comes first
    paper: Paper
    number: str  # as printed, such as "table III"
    caption: str  # in our words
    state: State
    form: Form | None = None  # None if it is not a result
    works: tuple[Work, ...] = ()
    seeds: int = 1
    finding: str = ""  # what the paper says about it, where it prints no numbers
    protocol: str = ""  # how our values differ from the paper's
    page: str = ""  # of docs, with our values
    scope: str = ""  # what is measured, if it is only a part
    needs: str = ""  # data that users must bring, and their folder

    def stem(self, options: Options) -> Path:
        """Return the path of the result's files, without their suffix."""
        name = self.name + (SHORT if options.short else "")
        return options.out / name / name

    def num_seeds(self, options: Options) -> int:
        """Return the number of seeds; --short has one unless the user asks for more."""
        if options.seeds < 0:
            raise UserError(f"--seeds must be at least 1, not {options.seeds}")
        return options.seeds or (1 if options.short else self.seeds)

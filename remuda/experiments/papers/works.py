"""The kinds of work behind a result: training with several seeds, and scaling over ranks."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from remuda.config import RunConfig
from remuda.experiments.papers.description import Options, Work
from remuda.system.devices import usable_cores


@dataclass(frozen=True, kw_only=True)
class Training(Work):
    """Train a recipe with several seeds."""

    def plan(self, options: Options, seeds: int) -> list[tuple[Path, RunConfig]]:
        """Return the folder and the configuration of every seed."""
        config, folder = self.config(options), self.folder(options)
        return [
            (folder / f"seed-{seed:03d}", replace(config, run=replace(config.run, seed=seed)))
            for seed in range(seeds)
        ]

    def execute(self, options: Options, seeds: int) -> tuple[list[Path], list[str]]:
        """Train the runs that are not finished."""
        from remuda.experiments.repeats import repeat
        from remuda.training.progress import Progress

        progress = options.new_progress or Progress
        config, folder = self.config(options), self.folder(options)
        repeats = repeat(config, folder, seeds, progress=progress)
        failed = [f"{place}: {reason}" for place, reason in repeats.failed.items()]
        return repeats.finished, failed


@dataclass(frozen=True, kw_only=True)
class Study(Work):
    """Time a recipe on one rank and on several ranks of this machine's CPU."""

    most_ranks: int  # use as many ranks as there are cores, but not more than this
    weak: bool = False
    rounds: int = 5
    repeats: int = 3

    resumes: ClassVar[bool] = False  # else the rounds would include a second start-up

    @property
    def ranks(self) -> list[int]:
        """The numbers of ranks: powers of two, and as many as this machine allows."""
        most = max(1, min(self.most_ranks, usable_cores()))
        powers = [2**i for i in range(most.bit_length()) if 2**i < most]
        return [*powers, most]

    def length(self, options: Options) -> int:
        """Return the rounds of each run; the first one is not timed."""
        return 2 if options.short else self.rounds

    def assignments(self, options: Options) -> list[str]:
        """Return all changes; a study always runs on the CPU, with one thread per rank."""
        changes = super().assignments(replace(options, device="cpu"))
        return [*changes, "engine.threads=1", f"run.rounds={self.length(options)}"]

    def num_repeats(self, options: Options) -> int:
        """Return how often each number of ranks is timed."""
        return options.seeds or (1 if options.short else self.repeats)

    def plan(self, options: Options, seeds: int) -> list[tuple[Path, RunConfig]]:
        """Return the folder and the configuration of every run, without checking the data."""
        config, folder = self.config(options), self.folder(options)
        return [
            (
                folder / f"{ranks}-ranks-{i + 1}",
                replace(config, engine=replace(config.engine, name="mpi", ranks=ranks)),
            )
            for i in range(self.num_repeats(options))
            for ranks in self.ranks
        ]

    def execute(self, options: Options, seeds: int) -> tuple[list[Path], list[str]]:
        """Time the ranks that have no result yet, and write scaling.json and scaling.png."""
        from remuda.experiments.scaling import scale

        folder = self.folder(options)
        scale(
            self.recipe,
            self.config(options),
            folder,
            self.ranks,
            self.weak,
            self.num_repeats(options),
            self.length(options),
            options.notify,
        )
        return [folder], []

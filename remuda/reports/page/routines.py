"""Compare the times of a strategy's routines with table IV and figure 4 of the cellular paper."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remuda.errors import UserError
from remuda.reports.page.run import Run, read
from remuda.system.text import count

# Table IV describes a 4x4 grid.
PAPER_CELLS, PAPER_ITERATIONS, PAPER_BATCHES = 16, 200, 600
# Minutes on a single core, and distributed over 17 cores.
PAPER: Mapping[str, tuple[float, float]] = {
    "gather": (19.4, 19.4),
    "train": (264.9, 43.8),
    "update_genomes": (199.8, 16.8),
    "mutate": (25.6, 17.9),
}
PAPER_OVERALL = 509.6, 97.9  # as printed; the sum of the first column is 509.7
COLOUR = "#3f8fd8"
PAPER_COLOUR, PAPER_PALE = "#c8622d", "#e3b094"


@dataclass(frozen=True)
class Profile:
    """The time that a run spent in each routine; the paper calls rounds iterations."""

    seconds: dict[str, float]  # total; first the paper's routines in the paper's order, then others
    num_rounds: int
    num_cells: int
    num_batches: int  # batches of real images per cell and round
    batch_size: int
    seconds_of_rounds: float  # including the time between routines

    @property
    def total(self) -> float:
        """The seconds of all routines."""
        return math.fsum(self.seconds.values())

    @property
    def scale(self) -> float:
        """The factor that converts this run's seconds to minutes at the paper's scale."""
        return PAPER_CELLS / self.num_cells * PAPER_ITERATIONS / self.num_rounds / 60

    def rows(self) -> list[list[str]]:
        """Return one row per routine and one for the total, with the columns of HEADER."""
        rows = [self._row(name, seconds, PAPER.get(name)) for name, seconds in self.seconds.items()]
        return [*rows, self._row("overall", self.total, PAPER_OVERALL)]

    def _row(self, name: str, seconds: float, paper: tuple[float, float] | None) -> list[str]:
        own = [f"{seconds:,.2f}", _share(seconds, self.total), f"{seconds / self.num_rounds:,.4f}"]
        theirs = [""] * 4
        if paper is not None:
            theirs = []
            for minutes, total in zip(paper, PAPER_OVERALL, strict=True):
                theirs += [f"{minutes:.1f}", _share(minutes, total)]
        return [name, *own, f"{seconds * self.scale:,.2f}", *theirs]

    def notes(self) -> list[str]:
        """Explain to what extent this run and the paper are comparable."""
        texts = [
            f"This run: {count(self.num_rounds, 'iteration')} of {count(self.num_cells, 'cell')} "
            f"with {self.num_batches:,} batches of {self.batch_size:,} images each. The paper: "
            f"{PAPER_ITERATIONS} iterations of {PAPER_CELLS} cells with {PAPER_BATCHES} batches of "
            "100, on one core and on 17.",
        ]
        if self.scale * 60 != 1:
            texts.append(
                f"The minutes of this run are its seconds times {self.scale * 60:,.4g} / 60. They "
                "are scaled by cells and iterations only, not by the length of an iteration, the "
                "networks, or a device that runs cells in parallel."
            )
        rest = max(0.0, self.seconds_of_rounds - self.total)
        texts.append(
            f"The iterations spent {rest:,.2f} s outside these routines, mostly drawing batches."
        )
        return texts


HEADER = [
    "routine",
    "s",
    "share",
    "s/iteration",
    "min at 4x4, 200 iterations",
    "paper, 1 core, min",
    "share",
    "paper, 17 cores, min",
    "share",
]


def profile(folder: Path) -> Profile:
    """Return the profile of a run, which may still be training."""
    run = read(folder)
    found = of_run(run)
    if found is None:
        raise UserError(
            f"the rounds of {folder} report no routines: choose a run of the strategy cellular"
        )
    return found


def of_run(run: Run) -> Profile | None:
    """Return the profile; None if the strategy reports no routines."""
    rounds = run.rounds
    if not rounds.routines:
        return None
    names = [name for name in PAPER if name in rounds.routines]
    names += [name for name in rounds.routines if name not in PAPER]
    cells, batch_size = run.num_members, run.setting("strategy", "batch_size")
    return Profile(
        seconds={name: rounds.routines[name] for name in names},
        num_rounds=rounds.num_timed,
        num_cells=cells,
        num_batches=round(rounds.last.get("images", 0) / (run.reached * cells * batch_size)),
        batch_size=batch_size,
        seconds_of_rounds=rounds.seconds_timed,
    )


def draw(found: Profile, path: Path) -> None:
    """Draw the profile and the paper's to a PNG file."""
    _figure(found).savefig(path, format="png", dpi=150)


def _figure(found: Profile) -> Any:
    """Draw two panels with separate axes, because the times differ by orders of magnitude."""
    from matplotlib.figure import Figure  # slow to import, and only needed at the end of a run

    figure = Figure(figsize=(8.4, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = list(found.seconds)
    left.barh(names, [found.seconds[name] / found.num_rounds for name in names], color=COLOUR)
    left.set_xlabel(f"seconds per iteration, {count(found.num_cells, 'cell')}")
    for i, (shift, colour) in enumerate(((-0.2, PAPER_COLOUR), (0.2, PAPER_PALE))):
        places = [place + shift for place in range(len(PAPER))]
        widths, label = [minutes[i] for minutes in PAPER.values()], ("1 core", "17 cores")[i]
        right.barh(places, widths, height=0.4, color=colour, label=label)
    right.set_yticks(range(len(PAPER)), list(PAPER))
    right.set_xlabel(f"minutes in the paper, {PAPER_CELLS} cells")
    right.legend(frameon=False, loc="lower right")
    for axes in (left, right):
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x", color="black", alpha=0.15, linewidth=0.6)
    return figure


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else ""

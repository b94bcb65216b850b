"""What has been found out of a recipe's scaling: as rows, notes and a file."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from remuda.config import RunConfig
from remuda.experiments.scaling.measure import Measured
from remuda.experiments.scaling.model import Link, Prediction, predict_all
from remuda.strategies import Cellular
from remuda.system import disk
from remuda.system.devices import usable_cores

FORESEEN = [10, 30, 100, 300, 1000]  # ranks
# Table III of the cellular paper: cores and speed-up of the grids. One core more than cells: the coordinator's.
PAPER = {"2x2": (5, 8.53), "3x3": (10, 13.65), "4x4": (17, 15.17)}


@dataclass(frozen=True)
class Scaling:
    name: str  # of the recipe
    weak: bool
    config: RunConfig
    measured: list[Measured]  # the first on one rank
    link: Link
    load: (
        float | None
    )  # of the machine before the first run; None where all runs were there already

    @property
    def kind(self) -> str:
        return "weak" if self.weak else "strong"

    def efficiency(self, seconds: float, ranks: int, alone: float) -> float:
        """1 where nothing is lost: R ranks take an R-th of the time, or for R times the members the same."""
        return alone / seconds / (1 if self.weak else ranks)

    def predictions(self, ranks: list[int]) -> list[Prediction]:
        return predict_all(self.config, self.measured[0], self.link, ranks, self.weak)

    def foreseen(self) -> list[Prediction]:
        """As far as members suffice: where a herd does not grow, at last on as many ranks as it has members."""
        size = self.measured[0].members
        ranks = (
            FORESEEN
            if self.weak
            else sorted({number for number in FORESEEN if number < size} | {size})
        )
        return self.predictions([number for number in ranks if number > self.measured[-1].ranks])

    # As text

    def header(self) -> list[str]:
        times = ["s a round", "best", "speed-up", "best", "efficiency", "best", "model"]
        return ["ranks", "members", *times, *self._verbs(), "rest", "MB a round"]

    def rows(self) -> list[list[str]]:
        """HEADER's columns; seconds are medians, what is beside them as "best" is that of the fastest rounds."""
        first, found = self.measured[0], []
        models = self.predictions([each.ranks for each in self.measured])
        for each, model in zip(self.measured, models, strict=True):
            middle = self.efficiency(each.median, each.ranks, first.median)
            best = self.efficiency(each.best, each.ranks, first.best)
            spent = [each.verbs.get(verb, 0.0) for verb in self._verbs()]
            cells = [f"{each.ranks}", f"{each.members}", f"{each.median:.4f}", f"{each.best:.4f}"]
            cells += [
                f"{middle * each.ranks:.2f}",
                f"{best * each.ranks:.2f}",
                f"{middle:.1%}",
                f"{best:.1%}",
            ]
            cells += [f"{model.seconds:.4f}", *(f"{seconds:.4f}" for seconds in spent)]
            found.append(
                [*cells, f"{max(0.0, each.median - sum(spent)):.4f}", f"{each.bytes / 1e6:,.2f}"]
            )
        return found

    def _verbs(self) -> list[str]:
        return list(dict.fromkeys(verb for each in self.measured for verb in each.verbs))

    FORESEEN_HEADER = ("ranks", "members", "s a round", "speed-up", "efficiency", "of it messages")

    def foreseen_rows(self) -> list[list[str]]:
        alone = self.measured[0].median
        found = []
        for each in self.foreseen():
            efficiency = self.efficiency(each.seconds, each.ranks, alone)
            share = sum(each.messages.values()) / each.seconds
            cells = [
                f"{each.ranks:,}",
                f"{each.members:,}",
                f"{each.seconds:.4f}",
                f"{efficiency * each.ranks:,.2f}",
            ]
            found.append([*cells, f"{efficiency:.1%}", f"{share:.1%}"])
        return found

    def notes(self) -> list[str]:
        """How these were measured, and what they do not say."""
        cores, most = usable_cores(), self.measured[-1].ranks
        texts = [
            "A round's time is that of its slowest rank; the first round of each run is left out. Verbs are rank 0's, "
            "waiting included.",
            f"Between ranks: {1e6 * self.link.latency:.1f} µs a message, {self.link.bandwidth / 1e6:,.0f} MB/s.",
        ]
        if self.load is not None:
            texts.append(
                f"Load of this machine before the first run: {self.load:.1f} on {cores} cores."
            )
        if most > cores and self.config.engine.device in ("cpu", "auto"):
            texts.append(
                f"Up to {most} ranks shared {cores} cores on this machine, unless others took part."
            )
        if "loop" in self.measured[0].verbs:
            texts.append(
                "On one rank the iterations ran as one compiled program, which several ranks do not have, so that the "
                "model does not hold: compare like with like by --set engine.compile=false."
            )
        if isinstance(self.config.strategy, Cellular):
            told = ", ".join(
                f"{speedup} on {cores} cores ({grid})" for grid, (cores, speedup) in PAPER.items()
            )
            texts.append(f"Speed-ups in table III of the cellular paper: {told}.")
        return texts

    def write(self, path: Path) -> None:
        values = {
            "recipe": self.name,
            "kind": self.kind,
            "load_before": self.load,
            "cores": usable_cores(),
            "link": asdict(self.link),
            "measured": [
                asdict(each) | {"median": each.median, "best": each.best} for each in self.measured
            ],
            "predicted": [
                asdict(each) | {"seconds": each.seconds}
                for each in [
                    *self.predictions([each.ranks for each in self.measured]),
                    *self.foreseen(),
                ]
            ],
        }
        disk.write_text(path, json.dumps(values, indent=1) + "\n")

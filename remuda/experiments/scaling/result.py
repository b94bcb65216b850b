"""The result of a scaling experiment as table rows, notes and a JSON file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from remuda.config import RunConfig
from remuda.experiments.scaling.measure import Measured
from remuda.experiments.scaling.model import Link, Prediction, predict_all
from remuda.strategies.facts import Averaging
from remuda.system import disk
from remuda.system.devices import usable_cores
from remuda.system.text import count

PREDICTED_RANKS = [10, 30, 100, 300, 1000]


@dataclass(frozen=True)
class Scaling:
    """The measured rounds of a recipe, and everything that predictions for more ranks need."""

    name: str  # of the recipe
    weak: bool
    config: RunConfig
    measured: list[Measured]  # the first entry is for one rank
    link: Link
    load: float | None  # of the machine before the first run; None if all runs had finished before
    other_link: Link | None = None  # predict for ranks that have this link between them
    averaging: Averaging | None = None  # what members average, if they share tensors
    # What they could average instead, by how often.
    other_averagings: Mapping[str, Averaging] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The kind of scaling, weak or strong."""
        return "weak" if self.weak else "strong"

    def efficiency(self, seconds: float, ranks: int, one_rank: float) -> float:
        """Return the efficiency of rounds that take ``one_rank`` seconds on one rank.

        The efficiency is 1 if R ranks need 1/R of the time or, for weak scaling, if they need the
        same time for R times as many members.
        """
        speedup = one_rank / seconds
        return speedup if self.weak else speedup / ranks

    def predictions(self, ranks: list[int], link: Link | None = None) -> list[Prediction]:
        """Return the cost model's predictions for these numbers of ranks.

        The ranks have the measured link between them, or the given one.
        """
        return self._predict(ranks, link or self.link, self.averaging)

    def _predict(
        self, ranks: list[int], link: Link, averaging: Averaging | None
    ) -> list[Prediction]:
        both = (self.averaging, averaging) if self.averaging and averaging else None
        return predict_all(self.config, self.measured[0], link, ranks, self.weak, both)

    def predicted(self) -> list[Prediction]:
        """Return predictions for more ranks than were measured, or also for another link.

        In strong scaling, the population runs on at most as many ranks as it has members.
        """
        ranks = PREDICTED_RANKS
        if not self.weak:
            size = self.measured[0].members
            ranks = sorted({number for number in ranks if number < size} | {size})
        more = [number for number in ranks if number > self.measured[-1].ranks]
        return [*self._over_other_link(), *self.predictions(more, self.other_link)]

    def _over_other_link(self) -> list[Prediction]:
        """Return predictions for the measured ranks, if they had the other link between them."""
        if self.other_link is None:
            return []
        several = self.measured[1:]
        ranks = [each.ranks for each in several]
        here, there = self.predictions(ranks), self.predictions(ranks, self.other_link)
        return [
            over.after(each.median, before)
            for each, before, over in zip(several, here, there, strict=True)
        ]

    def compared(self) -> dict[str, list[Prediction]]:
        """Return predictions for the other amounts that members could average, by how often."""
        link = self.other_link or self.link
        ranks = [each.ranks for each in self.predicted()]
        others = self.other_averagings.items()
        return {name: self._predict(ranks, link, averaging) for name, averaging in others}

    def verbs(self) -> list[str]:
        """Return the verbs that at least one of the runs used."""
        return list(dict.fromkeys(verb for each in self.measured for verb in each.verbs))

    # The results as text

    def header(self) -> list[str]:
        """Return the titles of the columns of ``rows``."""
        times = ["s per round", "best", "speed-up", "best", "efficiency", "best", "model"]
        return ["ranks", "members", *times, *self.verbs(), "rest", "MB per round"]

    def rows(self) -> list[list[str]]:
        """Return a row per number of ranks; each median is followed by the best round's value."""
        models = self.predictions([each.ranks for each in self.measured])
        return [self._row(each, model) for each, model in zip(self.measured, models, strict=True)]

    def _row(self, each: Measured, model: Prediction) -> list[str]:
        first = self.measured[0]
        middle = self.efficiency(each.median, each.ranks, first.median)
        best = self.efficiency(each.best, each.ranks, first.best)
        return [
            f"{each.ranks}",
            f"{each.members}",
            f"{each.median:.4f}",
            f"{each.best:.4f}",
            f"{middle * each.ranks:.2f}",
            f"{best * each.ranks:.2f}",
            f"{middle:.1%}",
            f"{best:.1%}",
            f"{model.seconds:.4f}",
            *(f"{each.verbs.get(verb, 0.0):.4f}" for verb in self.verbs()),
            f"{each.rest:.4f}",
            f"{each.bytes / 1e6:,.2f}",
        ]

    def predicted_header(self) -> list[str]:
        """Return the titles of the columns of ``predicted_rows``."""
        return ["ranks", "members", "s per round", "speed-up", "efficiency", "messages"]

    def predicted_rows(self) -> list[list[str]]:
        """Return a row per prediction; the last column is the share of time for messages."""
        return [self._predicted_row(each) for each in self.predicted()]

    def _predicted_row(self, each: Prediction) -> list[str]:
        efficiency = self.efficiency(each.seconds, each.ranks, self.measured[0].median)
        return [
            f"{each.ranks:,}",
            f"{each.members:,}",
            f"{each.seconds:.4f}",
            f"{efficiency * each.ranks:,.2f}",
            f"{efficiency:.1%}",
            f"{each.share:.1%}",
        ]

    def compared_header(self) -> list[str]:
        """Return the titles of the columns of ``compared_rows``."""
        return ["ranks", "members", *(f"averaged {name}" for name in self.other_averagings)]

    def compared_rows(self) -> list[list[str]]:
        """Return a row per number of ranks: seconds of a round, and the share of messages."""
        return [
            [f"{row[0].ranks:,}", f"{row[0].members:,}", *map(_seconds_and_share, row)]
            for row in zip(*self.compared().values(), strict=True)
        ]

    def notes(self) -> list[str]:
        """Return sentences that explain how the times were measured and what they leave out."""
        cores, most = usable_cores(), self.measured[-1].ranks
        shown = count(cores, "core")
        latency, rate = 1e6 * self.link.latency, self.link.bandwidth / 1e6
        texts = [
            "A round takes as long as its slowest rank; the first round of each run is left out. "
            "The verbs are timed on rank 0, including waiting.",
            f"Between ranks: {latency:.1f} µs per message, {rate:,.0f} MB/s.",
        ]
        if self.link.adding and "mean" in self.verbs():
            texts.append(
                f"Ranks add up numbers at {self.link.adding / 1e6:,.0f} MB/s at most, even over "
                "faster links."
            )
        if other := self.other_link:
            texts.append(
                f"The predictions assume {1e6 * other.latency:.1f} µs per message and "
                f"{other.bandwidth / 1e6:,.1f} MB/s between ranks, each on its own host."
            )
        if self.load is not None:
            texts.append(f"Load of this machine before the first run: {self.load:.1f} on {shown}.")
        if most > cores and self.config.engine.device in ("cpu", "auto"):
            texts.append(
                f"Up to {most} ranks shared the {shown} of this machine, unless the job had "
                "other hosts."
            )
        if "loop" in self.measured[0].verbs:
            texts.append(
                "One rank ran the iterations as one program, which several ranks cannot do, so "
                "the model does not apply. For a fair comparison use --set engine.layout=loop."
            )
        if paper := self.config.strategy.paper_speedups:
            speedups = ", ".join(
                f"{speedup} on {cores} cores ({grid})" for grid, (cores, speedup) in paper.items()
            )
            texts.append(f"Speed-ups in table III of the cellular paper: {speedups}.")
        return texts

    def write(self, path: Path) -> None:
        """Write all measured and predicted values to a JSON file."""
        same_ranks = self.predictions([each.ranks for each in self.measured])
        values = {
            "recipe": self.name,
            "kind": self.kind,
            "load_before": self.load,
            "cores": usable_cores(),
            "link": asdict(self.link),
            "other_link": asdict(self.other_link) if self.other_link else None,
            "measured": [
                asdict(each) | {"median": each.median, "best": each.best} for each in self.measured
            ],
            "predicted": [
                asdict(each) | {"seconds": each.seconds}
                for each in [*same_ranks, *self.predicted()]
            ],
            "compared": {
                name: [asdict(each) | {"seconds": each.seconds} for each in found]
                for name, found in self.compared().items()
            },
        }
        disk.write_text(path, json.dumps(values, indent=1) + "\n")


def _seconds_and_share(each: Prediction) -> str:
    return f"{each.seconds:.4f} ({each.share:.1%})"

"""Draw scores over iterations, as in figures 3, 5 and 6 of the MD-GAN paper."""

import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remuda.experiments.papers.description import Evidence, Form, Missing
from remuda.experiments.papers.tables import Gaps, markdown, write_csv
from remuda.experiments.papers.values import kind_of, mean, own_scores, text_of
from remuda.record.reader import Reader

TITLES = ("curve", "run", "iteration", "name", "value", "real_images")
LAST_SCORES = 5  # scorings behind a value of the table
TICKS = [factor * 10**power for power in range(-1, 4) for factor in (1, 2, 5)]


@dataclass(frozen=True, kw_only=True)
class Line:
    """How to draw the runs of a work."""

    work: str
    label: str
    colour: str
    style: str = "-"


@dataclass(frozen=True, kw_only=True)
class Point:
    """One score of one run. Iterations are updates of the generator."""

    run: str
    iteration: float
    name: str
    value: float
    real: float | None  # the same score of real images


@dataclass(frozen=True, kw_only=True)
class Scored:
    """The scores of a work by kind, and the iterations at which its runs lose members."""

    points: Mapping[str, list[Point]]
    crashes: list[float]

    @classmethod
    def read(cls, folders: list[Path] | Any) -> "Scored":
        """Read the runs of a work."""
        points: dict[str, list[Point]] = defaultdict(list)
        crashes: list[float] = []
        for folder in folders:
            run = Reader.open(folder)
            per_round = iterations_per_round(run)
            for score in own_scores(run):
                iteration = score.round * per_round
                point = Point(
                    run=folder.name,
                    iteration=iteration,
                    name=score.name,
                    value=score.value,
                    real=score.floor,
                )
                points[kind_of(score)].append(point)
            crashes = _crashes(run, per_round)
        return cls(points=points, crashes=crashes)

    def means(self, kind: str) -> dict[float, float]:
        """Return the mean over seeds at every iteration."""
        found: dict[float, list[float]] = defaultdict(list)
        for point in self.points.get(kind, []):
            found[point.iteration].append(point.value)
        return {iteration: statistics.fmean(found[iteration]) for iteration in sorted(found)}

    def real(self, kind: str) -> float | None:
        """Return the score of real images, if it is known."""
        values = [point.real for point in self.points.get(kind, []) if point.real is not None]
        return values[-1] if values else None


def iterations_per_round(run: Reader) -> float:
    """Return the updates of a generator in a round, from the first line of rounds.jsonl."""
    lines = run.rounds()
    if not lines:
        raise Missing(f"{run.folder} has not trained a round yet")
    num_members = len(lines[0]["discriminator_loss"])
    return lines[0]["images"] / (num_members * run.setting("strategy", "batch_size"))


def _crashes(run: Reader, per_round: float) -> list[float]:
    """Return the iterations after which the strategy loses a member; the last one stays."""
    every = run.settings["strategy"].get("lose_every", 0)
    if not every:
        return []
    last, num_members = run.rounds()[-1]["round"], run.setting("run", "members")
    lost = min((last - 1) // every, num_members - 1)
    return [(i + 1) * every * per_round for i in range(lost)]


@dataclass(frozen=True, kw_only=True)
class Curves(Form):
    """One diagram for each kind of score, with one curve for each work."""

    lines: tuple[Line, ...]
    axes: tuple[tuple[str, str], ...]  # kind of a score, and the label of its axis

    @property
    def names(self) -> set[str]:
        """The names of the works that it reads."""
        return {line.work for line in self.lines}

    def render(self, evidence: Evidence, stem: Path) -> list[str]:
        """Draw STEM.png, write STEM.csv, and return a table of the last scores."""
        found, gaps = {}, Gaps()
        for line in self.lines:
            try:
                found[line] = Scored.read(evidence.of(line.work))
            except Missing as reason:
                gaps.mark(f"{line.label}: {reason}")
        write_csv(stem.with_name(f"{stem.name}.csv"), TITLES, _records(found))
        has_scores = {kind for scored in found.values() for kind in scored.points}
        axes = [(kind, label) for kind, label in self.axes if kind in has_scores]
        for kind, label in self.axes:
            if found and kind not in has_scores:
                name = label.partition(" (")[0]
                gaps.mark(f"{name}: no run has this score")
        lines = _last_scores(found, [kind for kind, _ in axes])
        if axes:
            picture = stem.with_name(f"{stem.name}.png")
            self.draw(found, axes, picture, "short" if evidence.short else "")
            lines = [f"![scores over iterations]({picture.name})", "", *lines]
        return [*lines, *gaps.notes()]

    def draw(
        self,
        found: Mapping[Line, Scored],
        axes_of: list[tuple[str, str]],
        path: Path,
        title: str = "",
    ) -> None:
        """Draw the curves. Grey vertical lines mark the loss of a member."""
        from matplotlib.figure import Figure  # slow to import, and used only here
        from matplotlib.ticker import FuncFormatter

        figure = Figure(figsize=(9, 3.9))
        places = figure.subplots(1, len(axes_of), squeeze=False)[0]
        for axes, (kind, label) in zip(places, axes_of, strict=True):
            for line, scored in found.items():
                _draw_line(axes, line, scored, kind)
            real = [value for scored in found.values() if (value := scored.real(kind)) is not None]
            if real:
                axes.axhline(real[0], ls="--", color="0.5", zorder=0, label="real images")
            last = max((x for scored in found.values() for x in scored.means(kind)), default=None)
            axes.set(xlabel="iterations", ylabel=label, xlim=(0, last))
            axes.set_title(_names(found, kind), fontsize=8, color="0.4", loc="right")
            axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
            axes.spines[["top", "right"]].set_visible(False)
            if kind == "fid":
                _use_log_scale(axes)
        handles = places[0].get_legend_handles_labels()
        figure.legend(*handles, ncols=4, loc="upper center", frameon=False)
        if title:
            figure.text(0.995, 0.01, title, ha="right", color="#a00000", weight="bold")
        figure.tight_layout(rect=(0, 0, 1, 0.88))
        figure.savefig(path, dpi=100)


def _names(found: Mapping[Line, Scored], kind: str) -> str:
    """Return the names of the scores in a diagram, which state their protocol."""
    points = (point for scored in found.values() for point in scored.points.get(kind, []))
    return ", ".join(dict.fromkeys(point.name for point in points))


def _draw_line(axes: Any, line: Line, scored: Scored, kind: str) -> None:
    means = scored.means(kind)
    marker = "." if len(means) < 10 else ""
    axes.plot(
        list(means),
        list(means.values()),
        line.style,
        color=line.colour,
        label=line.label,
        marker=marker,
    )
    for crash in scored.crashes:
        axes.axvline(crash, color="0.85", linewidth=0.8, zorder=0)


def _use_log_scale(axes: Any) -> None:
    # Leave out vertical lines: they reach from 0 to 1.
    heights = [float(y) for line in axes.get_lines() for y in line.get_ydata() if y > 1]
    if not heights:
        return
    low, high = 0.85 * min(heights), 1.15 * max(heights)
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.set_yticks([tick for tick in TICKS if low <= tick <= high])
    axes.yaxis.set(major_formatter="{x:g}", minor_formatter="")


def _records(found: Mapping[Line, Scored]) -> list[list[object]]:
    return [
        [line.label, point.run, point.iteration, point.name, point.value, point.real]
        for line, scored in found.items()
        for points in scored.points.values()
        for point in points
    ]


def _last_scores(found: Mapping[Line, Scored], kinds: list[str]) -> list[str]:
    """Return a table with the means of the last scorings, over training and seeds."""
    rows, names, real = [], dict.fromkeys(kinds, ""), dict.fromkeys(kinds, "")
    for line, scored in found.items():
        row = [line.label]
        for kind in kinds:
            last = list(scored.means(kind))[-LAST_SCORES:]
            points = [point for point in scored.points.get(kind, []) if point.iteration in last]
            row.append(text_of(mean([point.value for point in points])) if points else "none")
            if points:
                names[kind] = points[-1].name
                real[kind] = f"{points[-1].real:.3f}" if points[-1].real is not None else ""
        row.append(f"{max((x for kind in kinds for x in scored.means(kind)), default=0):,.0f}")
        rows.append(row)
    if not rows or not kinds:
        return []
    rows.append(["real images", *real.values(), ""])
    header = ["run", *(name or kind for kind, name in names.items()), "last iteration"]
    note = f"Values are means and deviations of the last {LAST_SCORES} scorings of all seeds."
    return [*markdown(header, rows), "", note]

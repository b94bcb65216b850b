"""Draw the other figures: scores over workers, times of routines, weak scaling, sample grids."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remuda.errors import UserError
from remuda.experiments.papers.description import Evidence, Form, Missing
from remuda.experiments.papers.tables import Gaps, markdown, write_csv
from remuda.experiments.papers.values import Value, last_score, study, text_of
from remuda.record.reader import Reader


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line of final scores: the work at every place of the horizontal axis."""

    label: str
    colour: str
    style: str
    works: Mapping[int, str]


@dataclass(frozen=True, kw_only=True)
class FinalScores(Form):
    """Scores after training over a number, such as the number of workers."""

    axis: str
    series: tuple[Series, ...]
    scores: tuple[tuple[str, str], ...]  # kind of a score, and the label of its axis

    @property
    def names(self) -> set[str]:
        """The names of the works that it reads."""
        return {work for series in self.series for work in series.works.values()}

    def render(self, evidence: Evidence, stem: Path) -> list[str]:
        """Draw STEM.png, write STEM.csv, and return the same values as a table."""
        gaps, found = Gaps(), dict[tuple[str, int, str], Value]()
        for series in self.series:
            for place, work in series.works.items():
                for kind, _ in self.scores:
                    try:
                        found[series.label, place, kind] = last_score(kind)(evidence.of(work), "")
                    except Missing as reason:
                        gaps.mark(f"{series.label}, {self.axis} {place}: {reason}")
        records = [
            [label, place, value.name, value.mean, value.deviation, value.count]
            for (label, place, _), value in found.items()
        ]
        titles = ["series", self.axis, "name", "value", "deviation", "count"]
        write_csv(stem.with_name(f"{stem.name}.csv"), titles, records)
        if not found:
            return gaps.notes()
        picture = stem.with_name(f"{stem.name}.png")
        self._draw(found, picture, "short" if evidence.short else "")
        rows = [
            [label, str(place), value.name, text_of(value)]
            for (label, place, _), value in found.items()
        ]
        table = markdown(["series", self.axis, "score", "here"], rows)
        return [f"![scores over {self.axis}]({picture.name})", "", *table, *gaps.notes()]

    def _draw(self, found: Mapping[Any, Value], path: Path, title: str) -> None:
        from matplotlib.figure import Figure  # slow to import, and used only here

        figure = Figure(figsize=(9, 3.9))
        places = figure.subplots(1, len(self.scores))
        for axes, (kind, label) in zip(places, self.scores, strict=True):
            for one in self.series:
                points = {
                    place: found[one.label, place, kind].mean
                    for place in one.works
                    if (one.label, place, kind) in found
                }
                heights = list(points.values())
                axes.plot(list(points), heights, one.style, color=one.colour, label=one.label)
            axes.set(xlabel=self.axis, ylabel=label)
            axes.spines[["top", "right"]].set_visible(False)
        finish(figure, places[0].get_legend_handles_labels(), path, title)


@dataclass(frozen=True, kw_only=True)
class Bars(Form):
    """Times of routines as bars: those of our runs on the left, the paper's on the right."""

    rows: tuple[str, ...]
    columns: tuple[tuple[str, str, Any], ...]  # title, name of the work, how to extract a value
    paper: Mapping[str, tuple[float, ...]]  # by title, in the order of the rows
    unit: str

    @property
    def numbers(self) -> list[float]:
        """All numbers of the paper."""
        return [value for values in self.paper.values() for value in values]

    @property
    def names(self) -> set[str]:
        """The names of the works that it reads."""
        return {work for _, work, _ in self.columns}

    def render(self, evidence: Evidence, stem: Path) -> list[str]:
        """Draw STEM.png, and write STEM.csv."""
        gaps, ours = Gaps(), dict[str, list[float]]()
        for title, work, extract in self.columns:
            try:
                folders = evidence.of(work)
                ours[title] = [extract(folders, row).mean for row in self.rows]
            except UserError as reason:
                gaps.mark(f"{title}: {reason}")
        sources = [(f"{title}, here", values) for title, values in ours.items()]
        sources += [(f"{title}, paper", list(values)) for title, values in self.paper.items()]
        rows = [
            [row, *(f"{values[i]:,.4g}" for _, values in sources)]
            for i, row in enumerate(self.rows)
        ]
        header = ["", *(title for title, _ in sources)]
        write_csv(stem.with_name(f"{stem.name}.csv"), header, rows)
        picture = stem.with_name(f"{stem.name}.png")
        self._draw(ours, picture, "short" if evidence.short else "")
        return [f"![bars]({picture.name})", "", *markdown(header, rows), *gaps.notes()]

    def _draw(self, ours: Mapping[str, Sequence[float]], path: Path, title: str) -> None:
        from matplotlib.figure import Figure  # slow to import, and used only here

        figure = Figure(figsize=(9, 3.6))
        places = figure.subplots(1, 2)
        for axes, values, name in zip(places, (ours, self.paper), ("here", "paper"), strict=True):
            height = 0.8 / max(1, len(values))
            for i, (label, widths) in enumerate(values.items()):
                heights = [place + i * height for place in range(len(widths))]
                axes.barh(heights, widths, height=height, label=label, align="edge")
            axes.set_yticks([place + 0.4 for place in range(len(self.rows))], self.rows)
            axes.invert_yaxis()
            axes.set(xlabel=f"{self.unit}, {name}")
            axes.spines[["top", "right"]].set_visible(False)
            if values:
                axes.legend(frameon=False)
        finish(figure, None, path, title)


@dataclass(frozen=True, kw_only=True)
class WeakScaling(Form):
    """Seconds of a round over the number of ranks, each rank with its own classes."""

    works: Mapping[str, str]  # the label of a line, and the study

    @property
    def names(self) -> set[str]:
        """The names of the works that it reads."""
        return set(self.works.values())

    def render(self, evidence: Evidence, stem: Path) -> list[str]:
        """Draw STEM.png, and write STEM.csv."""
        gaps, rows, lines = Gaps(), [], dict[str, dict[int, float]]()
        for label, work in self.works.items():
            try:
                measured = study(evidence.of(work))["measured"]
            except Missing as reason:
                gaps.mark(f"{label}: {reason}")
                continue
            lines[label] = {each["ranks"]: each["median"] for each in measured}
            for each in measured:
                efficiency = measured[0]["median"] / each["median"]
                cells = each["ranks"], each["members"], f"{each['median']:.4g}"
                rows.append([label, *map(str, cells), f"{efficiency:.1%}"])
        header = ["line", "ranks", "members", "seconds per round", "efficiency"]
        write_csv(stem.with_name(f"{stem.name}.csv"), header, rows)
        if not lines:
            return gaps.notes()
        picture = stem.with_name(f"{stem.name}.png")
        _draw_scaling(lines, picture, "short" if evidence.short else "")
        return [f"![weak scaling]({picture.name})", "", *markdown(header, rows), *gaps.notes()]


def _draw_scaling(lines: Mapping[str, Mapping[int, float]], path: Path, title: str) -> None:
    from matplotlib.figure import Figure  # slow to import, and used only here

    figure = Figure(figsize=(5.6, 3.9))
    axes = figure.add_subplot()
    for label, seconds in lines.items():
        axes.plot(list(seconds), list(seconds.values()), "o-", label=label)
    ranks = sorted({number for seconds in lines.values() for number in seconds})
    axes.set_xticks(ranks)
    axes.set(xlabel="ranks, each with one class", ylabel="seconds per round", ylim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    finish(figure, axes.get_legend_handles_labels(), path, title)


@dataclass(frozen=True, kw_only=True)
class SampleGrids(Form):
    """The last grids of samples of some runs."""

    works: Mapping[str, str]  # the caption of a picture, and the work

    @property
    def names(self) -> set[str]:
        """The names of the works that it reads."""
        return set(self.works.values())

    def render(self, evidence: Evidence, stem: Path) -> list[str]:
        """Copy the last grid of the first seed to STEM.png, or STEM-WORK.png if there are more."""
        lines, gaps, rows = [], Gaps(), []
        for caption, work in self.works.items():
            name = stem.name if len(self.works) == 1 else f"{stem.name}-{work}"
            try:
                grid = _last_grid(evidence.of(work)[0])
            except Missing as reason:
                gaps.mark(f"{caption}: {reason}")
                continue
            picture = stem.with_name(f"{name}.png")
            shutil.copyfile(grid, picture)
            rows.append([caption, picture.name, str(grid)])
            lines += [f"![{caption}]({picture.name})", "", f"{caption}: `{grid}`", ""]
        write_csv(stem.with_name(f"{stem.name}.csv"), ["caption", "picture", "grid"], rows)
        return [*lines, *gaps.notes()]


def _last_grid(folder: Path) -> Path:
    grids = Reader.open(folder).sample_grids()
    if not grids:
        raise Missing(f"{folder} has no samples yet")
    return grids[-1]


def finish(figure: Any, handles: Any, path: Path, title: str) -> None:
    """Add the legend and the mark of a short run, and save the figure."""
    if handles is not None:
        widest = 4 * max(map(len, handles[1]), default=0)  # characters of a row with four labels
        ncols = 4 if widest <= 100 else 2
        figure.legend(*handles, ncols=ncols, loc="upper center", frameon=False)
    if title:
        figure.text(0.995, 0.01, title, ha="right", color="#a00000", weight="bold")
    figure.tight_layout(rect=(0, 0, 1, 0.9 if handles is not None else 1))
    figure.savefig(path, dpi=100)

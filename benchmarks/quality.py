"""Draw the chart and write the tables of docs/quality.md from docs/quality.toml.

    python benchmarks/quality.py              # after a change of docs/quality.toml
    python benchmarks/quality.py --add RUN    # first add the scores of a run folder to this file

``--add`` reads the recipe, command, time and scores of a CIFAR-10 run that was trained and scored
on one H200, and copies its last grid of samples to docs/pictures.
"""

import argparse
import json
import re
import shlex
import shutil
import textwrap
import tomllib
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from remuda import UserError, recipes
from remuda.record import Reader

DOCS = Path(__file__).parents[1] / "docs"
FILE = DOCS / "quality.toml"
PAGE = DOCS / "quality.md"
PICTURES = DOCS / "pictures"
CHART = PICTURES / "quality.png"

FID_50K, FID_10K = "fid_50k_train_inception", "fid_10k_train_inception"
KIDS = ("kid_50k_train_inception", "kid_10k_train_inception")
PLACES = {FID_50K: 2, FID_10K: 2, KIDS[0]: 4, KIDS[1]: 4}  # decimal places in the file
LOCAL = ("--out", "--data")  # flags with paths of one machine, which the page leaves out
COLOURS = {
    "standalone": "#0072b2",
    "class-parallel": "#d55e00",
    "md-gan": "#009e73",
    "fl-gan": "#cc79a7",
    "cellular": "#8a6d00",
}

Entry = dict[str, Any]


def read() -> dict[str, list[Entry]]:
    """Return the measured runs and the anchors in docs/quality.toml."""
    return tomllib.loads(FILE.read_text())


# Tables


def table(head: list[str], rows: list[list[Any]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def runs_block(runs: list[Entry]) -> str:
    """Return the table of runs, their notes and their commands."""
    head = ["recipe", "minutes", "FID, 50k", "FID, 10k", "KID", "rounds", "seed", "samples"]
    rows, notes = [], []
    runs = sorted(runs, key=best)
    for run in runs:
        kid = next((f"{run[name]:.4f}" for name in KIDS if name in run), "-")
        fids = [run.get(name, "-") for name in (FID_50K, FID_10K)]
        picture = f"[picture](pictures/{run['picture']})" if "picture" in run else "-"
        name, rounds = f"`{run['recipe']}`", f"{run['rounds']:,}"
        rows.append([name, run["minutes"], *fids, kid, rounds, run["seed"], picture])
        if "note" in run:
            notes.append(wrap(f"- `{run['recipe']}`, {rounds} rounds: {run['note']}"))
    commands = [run["command"] for run in runs]
    code = "\n".join(["```sh", *commands, "```"])
    return "\n\n".join([table(head, rows), "\n".join(notes), "The commands were:", code])


def best(run: Entry) -> float:
    """Return a run's FID with the most samples."""
    return run.get(FID_50K, run[FID_10K])


def wrap(text: str) -> str:
    """Break an item of a list into lines, as in the other pages."""
    return textwrap.fill(text, 120, subsequent_indent="  ", break_on_hyphens=False)


def anchors_block(anchors: list[Entry]) -> str:
    """Return the table of published results."""
    head = ["model", "FID", "labels", "FID's protocol", "cost of training"]
    rows = [
        [
            f"[{anchor['name']}]({anchor['source']})",
            f"{anchor['fid']:.2f}",
            "yes" if anchor["labels"] else "no",
            anchor["protocol"],
            anchor["cost"] + (f" ({anchor['hours']} GPU-hours)" if "hours" in anchor else ""),
        ]
        for anchor in anchors
    ]
    return table(head, rows)


def unmeasured_block(runs: list[Entry]) -> str:
    """Return a list of the CIFAR-10 recipes without an entry."""
    measured = {run["recipe"] for run in runs}
    missing = [name for name in cifar10_recipes() if name not in measured]
    return "\n".join(f"- `{name}`" for name in missing)


def cifar10_recipes() -> list[str]:
    """Return the names of all recipes on CIFAR-10."""
    return [name for name in recipes.names() if recipes.recipe(name).data.name == "cifar10"]


def filled(page: str, data: dict[str, list[Entry]]) -> str:
    """Return the page with the three blocks between its markers written again."""
    blocks = {
        "runs": runs_block(data["run"]),
        "anchors": anchors_block(data["anchor"]),
        "unmeasured": unmeasured_block(data["run"]),
    }
    for name, text in blocks.items():
        before, after = f"<!-- {name} -->\n", "<!-- end -->"
        pattern = f"{re.escape(before)}.*?{re.escape(after)}"
        block = f"{before}\n{text}\n\n{after}"
        page, count = re.subn(pattern, lambda _, block=block: block, page, flags=re.DOTALL)
        assert count == 1, f"{PAGE} needs the marker <!-- {name} --> exactly once"
    return page


# The chart


def plotted(data: dict[str, list[Entry]]) -> str:
    """Return the numbers in the chart as text, which the picture stores for a test."""
    keys = ("recipe", "minutes", FID_50K, FID_10K)
    runs = [[run.get(key) for key in keys] for run in data["run"]]
    return json.dumps([runs, [[anchor["name"], anchor["fid"]] for anchor in data["anchor"]]])


def draw(data: dict[str, list[Entry]], path: Path) -> None:
    """Draw FID over minutes of training, with the anchors as horizontal lines."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots()
    for anchor in data["anchor"]:
        style = "-" if anchor["comparable"] else "--"
        axes.axhline(anchor["fid"], ls=style, color="0.7", linewidth=0.9, zorder=0)
        hours = f", {anchor['hours']} GPU-hours" if "hours" in anchor else ""
        text = f" {anchor['name']} {anchor['fid']:.2f}{hours}"
        axes.text(1, anchor["fid"], text, transform=axes.get_yaxis_transform(), va="center", size=8)
    for recipe in dict.fromkeys(run["recipe"] for run in data["run"]):
        draw_runs(axes, [run for run in data["run"] if run["recipe"] == recipe])
    axes.plot([], [], "o", color="0.3", label="50,000 samples")
    axes.plot([], [], "o", color="0.3", mfc="white", label="10,000 samples")
    axes.plot([], [], "-", color="0.7", label="published, 50,000 samples")
    axes.plot([], [], "--", color="0.7", label="published, other protocols")
    axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 0.12))
    axes.set(xscale="log", yscale="log", xlim=(3, 45), ylim=(1.5, 250))
    axes.set(xticks=[5, 10, 20, 40], yticks=[2, 5, 10, 20, 50, 100, 200])
    axes.set(xlabel="minutes on one H200", ylabel="FID")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set(major_formatter="{x:g}", minor_formatter="")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100, metadata={"Description": plotted(data)})


def draw_runs(axes: Any, runs: list[Entry]) -> None:
    """Draw the one or two FIDs of each run of a recipe, and its name next to the best run."""
    _, settings = recipes.read(runs[0]["recipe"])
    colour = COLOURS.get(settings["strategy"]["name"], "black")
    for run in runs:
        fids = [(name, run[name]) for name in (FID_50K, FID_10K) if name in run]
        values = [value for _, value in fids]
        axes.plot([run["minutes"]] * len(fids), values, "-", color=colour, linewidth=0.9)
        for name, value in fids:
            face = colour if name == FID_50K else "white"
            axes.plot(run["minutes"], value, "o", color=colour, markerfacecolor=face)
    shown = min(runs, key=best)
    side = shown.get("label_side", "right")  # of the point
    axes.annotate(
        f"{shown['recipe']} {best(shown):.4g}",
        (shown["minutes"], best(shown)),
        (-8, 0) if side == "left" else (8, 0),
        textcoords="offset points",
        ha="right" if side == "left" else "left",
        va="center",
        size=8,
        color=colour,
        zorder=1,  # below all points
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},  # cover the lines below
    )


# A new run


def entry(run: Reader) -> Entry:
    """Return the entry of a run folder."""
    environments, last = run.environments(), run.num_rounds()
    if not all("seconds" in part for part in environments):
        raise UserError(
            f"{run.folder} does not record how long each of its parts took, perhaps because one "
            f"was killed: write the entry into {FILE} by hand"
        )
    scores = {score.name: score.value for score in run.scores() if score.round == last}
    if FID_10K not in scores:
        raise UserError(
            f"{run.folder} has no {FID_10K} of its last round: run "
            f"remuda score {run.folder} --n 10000 --with fid, and the same with --n 50000"
        )
    words = environments[0]["command"][1:]
    for flag in LOCAL:
        if flag in words:
            at = words.index(flag)
            words = words[:at] + words[at + 2 :]
    recipe = words[1]
    return {
        "recipe": recipe,
        "command": shlex.join(["remuda", *words]),
        "seed": run.setting("run", "seed"),
        "rounds": last,
        "minutes": round(sum(part["seconds"]["total"] for part in environments) / 60, 1),
        **{name: round(scores[name], places) for name, places in PLACES.items() if name in scores},
        "picture": f"{recipe}-{last}-rounds.png",
    }


def add(folder: Path) -> None:
    """Add a run folder to docs/quality.toml, and its last grid of samples to the pictures."""
    run = Reader.open(folder)
    new = entry(run)
    if any(old["command"] == new["command"] for old in read()["run"]):
        raise UserError(f"{FILE} already has a run of this command; remove the old entry first")
    shutil.copyfile(run.sample_grids()[-1], PICTURES / new["picture"])
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in new.items())
    text = FILE.read_text()
    at = text.index("# Anchors")
    FILE.write_text(f"{text[:at]}[[run]]\n{lines}\n\n{text[at:]}")


def main() -> None:
    """Write the chart and the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--add", type=Path, metavar="RUN", help="a run folder to add first")
    options = parser.parse_args()
    if options.add is not None:
        try:
            add(options.add)
        except UserError as error:
            parser.error(str(error))
    data = read()
    draw(data, CHART)
    PAGE.write_text(filled(PAGE.read_text(), data))


if __name__ == "__main__":
    main()

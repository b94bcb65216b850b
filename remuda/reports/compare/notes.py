"""Write the footnotes of a comparison: how to read it, and what may make it unfair."""

from remuda.reports.compare.columns import Column
from remuda.reports.compare.groups import CONTENT, Group, content_of, differing, plain
from remuda.reports.compare.significance import MIN_REPEATS, smallest_p

MAX_SETTINGS = 8  # settings shown with their values; for the others, only the names are shown
# Settings that have their own columns or notes.
SHOWN = {"strategy.name", "run.members", "run.rounds", CONTENT}


def notes(groups: list[Group], columns: list[Column], last_round: int | None) -> list[str]:
    """Return the footnotes."""
    return [
        *_how_to_read(groups, columns),
        *_significance(groups, columns),
        *_different_protocols(columns),
        *_different_rounds(groups, columns),
        *_unfinished(groups, last_round),
        *_different_data(groups),
        *different_settings(groups),
        *_different_machines(groups),
    ]


def _how_to_read(groups: list[Group], columns: list[Column]) -> list[str]:
    cells = [cell for column in columns for cell in column.cells if cell is not None]
    found = []
    if not columns:
        found.append("None of these runs has scores. To add them, run `remuda score RUN`.")
    if any(cell.over_seeds for cell in cells):
        found.append("±: mean and standard deviation (n - 1) over seeds.")
    if any(cell.spread is not None and not cell.over_seeds for cell in cells):
        found.append(
            "†: one run; the spread is over splits or subsets of its images and says nothing "
            "about seeds."
        )
    if any(column.all_floors for column in columns):
        found.append(
            "Real images: the same score of real images that are not in the reference. At most "
            "10,000 images are used, or fewer if there are fewer data or samples. With fewer "
            "images, a distance is larger, and an Inception score is smaller."
        )
    if any(len(group.runs) > 1 for group in groups):
        found.append("Seconds and bytes: the median over seeds.")
    return found


def _significance(groups: list[Group], columns: list[Column]) -> list[str]:
    tested = {
        (len(column.cells[0].values), len(cell.values))
        for column in columns
        for cell in column.cells
        if column.cells[0] is not None and cell is not None and cell.p is not None
    }
    if tested:
        limits = [
            f"{one} against {other} give at least {smallest_p(one, other):.2g}"
            for one, other in tested
        ]
        return [
            f"p: two-sided Mann-Whitney U test against {groups[0].name}, exact for up to ten "
            f"against ten seeds ({', '.join(sorted(limits))}), not corrected for the number of "
            "tests."
        ]
    if columns and len(groups) > 1:
        return [
            f"No p: the test needs at least {MIN_REPEATS} scored seeds of {groups[0].name} and of "
            "another group."
        ]
    return []


def _different_protocols(columns: list[Column]) -> list[str]:
    split = {column.name: None for column in columns if column.label != column.name}
    found = [
        f"{name}: measured against different references, or with different networks or counts. "
        "Do not compare values in different columns."
        for name in split
    ]
    for column in columns:
        precisions = {p for cell in column.cells if cell is not None for p in cell.precisions}
        if len(precisions) > 1:
            listed = ", ".join(sorted(precisions))
            found.append(f"{column.label}: the network ran in different precisions ({listed}).")
    return found


def _different_rounds(groups: list[Group], columns: list[Column]) -> list[str]:
    found = []
    for column in columns:
        for group, cell in zip(groups, column.cells, strict=True):
            if cell is None:
                continue
            what, t = f"{column.label} of {group.name}", cell.round
            scored = [run for run in group.runs if run.folder not in cell.lacking]
            lasts = zip(scored, cell.rounds, strict=True)
            if any(run.num_rounds != last for run, last in lasts):
                found.append(f"{what}: after round {t}, not the last one trained.")
            if cell.lacking:
                names = ", ".join(str(folder) for folder in cell.lacking)
                verb = "has" if len(cell.lacking) == 1 else "have"
                found.append(f"{what}: without {names}, which {verb} no score of round {t}.")
    return found


def _unfinished(groups: list[Group], last_round: int | None) -> list[str]:
    found = []
    for run in (run for group in groups for run in group.runs):
        rounds = run.settings["run"]["rounds"]
        wanted = min(rounds, last_round or rounds)
        if run.num_rounds < wanted:
            end = "" if run.ending is None else f", {run.ending.why}"
            found.append(f"{run.folder}: reached round {run.num_rounds} of {wanted}{end}.")
    return found


def _different_data(groups: list[Group]) -> list[str]:
    if CONTENT not in differing(groups):
        return []
    listed = "; ".join(f"{group.name}: {content_of(group.runs[0])}" for group in groups)
    return [f"The runs were trained on different data ({listed})."]


def different_settings(groups: list[Group]) -> list[str]:
    """List all differing settings that columns do not show, because any may affect a score."""
    keys = [key for key in differing(groups) if key not in SHOWN]
    found = []
    for key in keys[:MAX_SETTINGS]:
        values: dict[str, list[str]] = {}
        for group in groups:
            values.setdefault(plain(group.settings.get(key)), []).append(group.name)
        listed = "; ".join(f"{value} ({', '.join(names)})" for value, names in values.items())
        found.append(f"{key}: {listed}.")
    if keys[MAX_SETTINGS:]:
        found.append(f"Also different: {', '.join(keys[MAX_SETTINGS:])}.")
    return found


def _different_machines(groups: list[Group]) -> list[str]:
    runs = [run for group in groups for run in group.runs]
    found = []
    devices = sorted({run.device for run in runs if run.device})
    if len(devices) > 1:
        found.append(f"Seconds were measured on different devices ({', '.join(devices)}).")
    precisions = sorted({run.settings["engine"]["precision"] for run in runs})
    if len(precisions) > 1:
        listed = ", ".join(precisions)
        found.append(f"engine.precision differs ({listed}), possibly within groups.")
    return found

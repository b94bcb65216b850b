"""Write the Markdown file of a result: its values, the paper's finding, and how runs were made."""

from pathlib import Path

from remuda.experiments.papers.description import Evidence, Options, Result
from remuda.experiments.papers.tables import markdown
from remuda.record.reader import Reader
from remuda.system import disk
from remuda.system.text import count

WARNING = (
    "**short**: these runs are much shorter than the paper's. They only show that the experiment "
    "works; do not compare their values with anything."
)


def write(result: Result, evidence: Evidence, options: Options) -> list[Path]:
    """Write all files of the result, and return their paths; the Markdown file is the first."""
    assert result.form is not None
    stem = result.stem(options)
    stem.parent.mkdir(parents=True, exist_ok=True)
    title = result.number[:1].upper() + result.number[1:]
    lines = [f"# {title} of the {result.paper.name} paper{' (short)' if options.short else ''}", ""]
    lines += [f"{result.caption[:1].upper()}{result.caption[1:]}. {result.paper.source}.", ""]
    lines += [WARNING, ""] if options.short else []
    lines += [*result.form.render(evidence, stem), ""]
    if result.finding:
        lines += [f"**The paper says:** {result.finding}", ""]
    about = " of the full runs" if options.short else ""
    lines += [f"**Differences in protocol{about}.** {result.protocol}", ""]
    lines += _runs(evidence) + _failures(evidence)
    path = stem.with_name(f"{stem.name}.md")
    disk.write_text(path, "\n".join(lines).rstrip() + "\n")
    return [path, *_others(stem)]


def _others(stem: Path) -> list[Path]:
    """Return the CSV file and the pictures; the folder has no files of other results."""
    found = stem.parent.glob(f"{stem.name}*")
    return sorted(path for path in found if path.suffix in (".csv", ".png"))


def _runs(evidence: Evidence) -> list[str]:
    """Return a table with the length, the scores and the device of every run."""
    rows = []
    for name, folders in evidence.folders.items():
        for folder in folders:
            rows += _facts(name, folder)
    if not rows:
        return []
    header = ["run", "folder", "seed", "rounds", "scores", "device"]
    return ["**Runs.**", "", *markdown(header, rows)]


def _failures(evidence: Evidence) -> list[str]:
    """Name the runs of which only some seeds finished; their means may be too good."""
    found = [
        f"- {name}: {why}" for name, why in evidence.gaps.items() if evidence.folders.get(name)
    ]
    return ["", "**Seeds that failed, and are not in the means:**", "", *found] if found else []


def _facts(name: str, folder: Path) -> list[list[str]]:
    """Return a row for a run, or a row for each run of a study."""
    if not (folder / "config.toml").is_file():
        inner = sorted(path.parent for path in folder.glob("*/config.toml"))
        return [row for run in inner for row in _facts(name, run)]
    run = Reader.open(folder)
    last = run.last_rounds(1)
    scores = dict.fromkeys(score.name for score in run.scores())
    rounds = f"{last[-1]['round']:,}" if last else "0"
    seed = str(run.setting("run", "seed"))
    shown = ", ".join(f"`{one}`" for one in scores)
    return [[name, str(folder), seed, rounds, shown, _device(run)]]


def _device(run: Reader) -> str:
    environments = run.environments()
    if not environments:
        return ""
    device, threads = str(environments[-1].get("device", "")), environments[-1].get("threads")
    return f"{device}, {count(threads, 'thread')}" if device == "cpu" and threads else device

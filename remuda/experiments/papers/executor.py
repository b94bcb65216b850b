"""Run everything that a result needs, and write its table or figure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote

from remuda.errors import Interrupted, UserError, command, explain, is_user_error
from remuda.experiments.papers.description import Evidence, Options, Result, Work
from remuda.experiments.papers.report import write
from remuda.record.reader import Reader
from remuda.system.text import count, duration, listed


@dataclass(frozen=True)
class Outcome:
    """The files of a reproduced result, and the runs that are missing in it."""

    result: Result
    files: list[Path]
    gaps: dict[str, str] = field(default_factory=dict)


def reproduce(result: Result, options: Options) -> Outcome:
    """Train the runs that are not finished, and write the result's files.

    Finished runs are kept, and interrupted runs are resumed. If a run fails, the others continue;
    the result then has a gap with the reason.
    """
    if not result.works:
        options = replace(options, short=False)  # nothing is trained
    seeds = result.num_seeds(options)
    folders: dict[str, list[Path]] = {}
    gaps: dict[str, str] = {}
    for work in result.works:
        options.notify(f"{work.folder(options)}: {work.recipe}")
        found, reasons = _execute(work, options, seeds)
        folders[work.name] = found
        if reasons:
            gaps[work.name] = "; ".join(reasons)
            options.notify(f"{work.folder(options)} failed: {gaps[work.name]}")
    evidence = Evidence(folders=folders, gaps=gaps, short=options.short)
    return Outcome(result, write(result, evidence, options), gaps)


def redraw(result: Result, evidence: Evidence, options: Options) -> Outcome:
    """Write the result's files from run folders that exist, without training."""
    return Outcome(result, write(result, evidence, options))


def _execute(work: Work, options: Options, seeds: int) -> tuple[list[Path], list[str]]:
    try:
        return work.execute(options, seeds)
    except (Interrupted, KeyboardInterrupt):
        raise
    except Exception as error:
        if not is_user_error(error):
            raise
        return [], [explain(error)]


# What would be run


@dataclass(frozen=True)
class Planned:
    """A run that a result needs."""

    folder: Path
    command: str
    rounds: int
    reached: int  # 0 if it starts from the first round
    seconds: float | None  # for the remaining rounds; None if not known

    @property
    def state(self) -> str:
        """What would happen to the run."""
        if self.reached >= self.rounds:
            return "finished"
        rest = f", about {duration(self.seconds)}" if self.seconds is not None else ""
        return f"resume at round {self.reached}{rest}" if self.reached else f"new{rest}"


def plan(result: Result, options: Options) -> list[Planned]:
    """Return all runs that a result needs, without starting one.

    The time is known if the run, or the same run with another seed, has recorded rounds.
    """
    found = []
    for work in result.works:
        runs = work.plan(options, result.num_seeds(options))
        pace = _pace([folder for folder, _ in runs])
        changes = "".join(f" --set {quote(text)}" for text in work.assignments(options))
        for folder, config in runs:
            reached, rounds = _reached(folder), config.run.rounds
            if not work.resumes and reached < rounds:
                reached = 0
            engine = config.engine
            ranks = f" --engine mpi --ranks {engine.ranks}" if engine.name == "mpi" else ""
            seed = f" --seed {config.run.seed} --out {quote(str(folder))}"
            text = f"remuda train {work.recipe}{changes}{ranks}{seed}"
            if _is_run(folder) and reached < rounds:
                text = _again(work, folder, rounds, text)
            seconds = None if pace is None else pace * max(0, rounds - reached)
            found.append(Planned(folder, text, rounds, reached, seconds))
    return found


def _again(work: Work, folder: Path, rounds: int, train: str) -> str:
    """Return the command for an interrupted run, whose folder remuda train would refuse."""
    if work.resumes:
        return f"{command('resume', folder)} --rounds {rounds}"
    return f"rm -r {quote(str(folder))} && {train}"


def _is_run(folder: Path) -> bool:
    return (folder / "config.toml").is_file()


def _reached(folder: Path) -> int:
    if not _is_run(folder):
        return 0
    lines = Reader.open(folder).last_rounds(1)
    return lines[-1]["round"] if lines else 0


def _pace(folders: Sequence[Path]) -> float | None:
    """Return the median seconds of recorded rounds, without the first one of each run."""
    seconds = [
        line["seconds"]
        for folder in folders
        if _is_run(folder)
        for line in Reader.open(folder).last_rounds(20)
        if line["round"] > 1
    ]
    return statistics.median(seconds) if seconds else None


def refuse_gaps(outcomes: Sequence[Outcome]) -> None:
    """Raise if runs failed, because tables with gaps should not pass for complete ones."""
    failed: dict[str, list[str]] = {}
    for outcome in outcomes:
        for name, why in outcome.gaps.items():
            needs = f" ({outcome.result.name} needs {outcome.result.needs})"
            failed.setdefault(why + (needs if outcome.result.needs else ""), []).append(name)
    if failed:
        number = count(sum(map(len, failed.values())), "run")
        reasons = "; ".join(f"{listed(names)}: {why}" for why, names in failed.items())
        raise UserError(f"{number} failed, so the result has gaps: {reasons}")

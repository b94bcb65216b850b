"""Train the same settings with several seeds, to measure the spread of the scores."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch

from remuda.config import RunConfig, comparable, to_dict
from remuda.engines import ENGINES
from remuda.errors import UserError
from remuda.record import Reader, Record
from remuda.record.endings import ending
from remuda.reports.compare.groups import relevant
from remuda.training.progress import Progress
from remuda.training.run import Interrupted, resume, run

LENGTH = {"run.rounds", "run.max_minutes", "run.patience"}  # a repeat may train runs longer


@dataclass(frozen=True)
class Repeats:
    """The folders of the runs that reached their last round, and why the others failed."""

    finished: list[Path] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)

    def refuse_failures(self) -> None:
        """Raise if a seed failed, because a mean over only the finished seeds would be too good."""
        if self.failed:
            reasons = "; ".join(f"{folder}: {reason}" for folder, reason in self.failed.items())
            number, total = len(self.failed), len(self.finished) + len(self.failed)
            raise UserError(
                f"{number} of {total} seeds did not finish and are not compared: {reasons}"
            )


def repeat(
    config: RunConfig,
    out: str | Path,
    num_seeds: int,
    first_seed: int = 0,
    progress: Callable[[], Progress] = Progress,
) -> Repeats:
    """Train with seeds first_seed, first_seed + 1, ... into OUT/seed-000, OUT/seed-001, ...

    Finished runs are kept and interrupted runs are resumed. If a run diverges, its error is
    recorded and the next seed starts.

    Before each seed, ``torch.compiler.reset`` drops all functions that this process has compiled.
    PyTorch compiles a function for at most eight different callers, and each seed is a new one.
    """
    if num_seeds < 1 or first_seed < 0:
        raise UserError(
            f"--seeds must be at least 1 and --first-seed at least 0, not {num_seeds} and "
            f"{first_seed}"
        )
    if ENGINES[config.engine.name].spans_processes:
        raise UserError(
            "remuda repeat trains in one process: leave engine.name at stacked, or run remuda "
            "train with --seed for each seed"
        )
    if _is_run(Path(out)):
        raise UserError(f"{out} is a run: choose another --out, in which each seed gets a folder")
    plan = _plan(config, Path(out), range(first_seed, first_seed + num_seeds))
    for folder, wanted in plan.items():  # check all folders before hours of training
        _refuse_another_run(folder, wanted)
    repeats = Repeats()
    for folder, wanted in plan.items():
        try:
            _train(folder, wanted, progress())
            repeats.finished.append(folder)
        except Interrupted as stop:
            raise Interrupted(
                f"{stop}; to continue with all seeds, run the same command again"
            ) from None
        except UserError as error:
            if not _is_run(folder):
                raise  # the run could not start, and other seeds would fail in the same way
            repeats.failed[folder] = str(error)
            progress().note(f"{folder}: {error}")
    return repeats


def _plan(config: RunConfig, out: Path, seeds: range) -> dict[Path, RunConfig]:
    """Return the folder and the configuration of each seed."""
    config = config.with_full_paths()
    return {
        out / f"seed-{seed:03d}": replace(config, run=replace(config.run, seed=seed))
        for seed in seeds
    }


def _train(folder: Path, config: RunConfig, progress: Progress) -> None:
    torch.compiler.reset()
    if not _is_run(folder):
        run(config, folder, progress)
    elif _has_ended(folder, config) and not _lacks_scores(folder, config):
        progress.note(f"{folder} is finished")
    else:
        # Settings that do not affect training, of the scores and the engine, may have changed.
        resume(folder, progress=progress, config=config)


def _has_ended(folder: Path, config: RunConfig) -> bool:
    """Return whether a run has reached its last round, or has ended early with these settings."""
    reader, reached = Reader.open(folder), _reached(folder)
    if reached >= config.run.rounds:
        return True
    seconds = sum(line["seconds"] for line in reader.rounds() if line["round"] <= reached)
    # config.toml has the whole name of the score.
    run = asdict(config.run) | {"keep_best": reader.chosen_score}
    return ending(run, reader.training_scores(), reached, seconds) is not None


def _lacks_scores(folder: Path, config: RunConfig) -> bool:
    """Return whether the scores of the last round are missing because of an interruption."""
    return config.scores.every > 0 and not Reader.open(folder).has_scores(_reached(folder))


def _refuse_another_run(folder: Path, config: RunConfig) -> None:
    """Raise if the folder contains a run with different settings or with more rounds."""
    if not _is_run(folder):
        return
    found, wanted = Record.open(folder).comparable, comparable(to_dict(config))
    old, new = relevant(found), relevant(wanted)
    differing = [key for key in old | new if old.get(key) != new.get(key) and key not in LENGTH]
    if found["run"]["seed"] != config.run.seed:
        differing.append("run.seed")
    if differing:
        raise UserError(
            f"{folder} was trained with a different {', '.join(differing)}: choose another --out"
        )
    if (reached := _reached(folder)) > config.run.rounds:
        raise UserError(
            f"{folder} has already reached round {reached}, more than "
            f"run.rounds={config.run.rounds}: choose another --out"
        )


def _is_run(folder: Path) -> bool:
    return (folder / "config.toml").is_file()


def _reached(folder: Path) -> int:
    checkpoint, _ = Reader.open(folder).newest()
    return checkpoint.round if checkpoint is not None else 0

"""Hints for near misses: options, commands and names that other tools taught people."""

import difflib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from remuda.errors import UserError, command

RUNS = Path("runs")  # where commands create runs by default

# Replacements for options of other tools, where {} is the value. A command that lacks an option of
# a replacement tries the next one.
OPTIONS: dict[str, tuple[str, ...]] = {
    "--rounds {}": (
        *("--epochs", "--epoch", "--num-epochs", "--n-epochs", "--max-epochs", "--niter"),
        *("--iterations", "--iters", "--steps", "--max-steps", "--num-rounds"),
    ),
    "--checkpoint {}": ("--ckpt", "--epoch", "--round", "--rounds", "--step"),
    "--set strategy.generator_lr={} --set strategy.discriminator_lr={}": (
        *("--lr", "--learning-rate", "--learningrate"),
    ),
    "--set strategy.batch_size={}": ("--batch-size", "--batchsize", "--batch", "--bs"),
    "--set data.name={}": ("--dataset", "--data-name", "--dataset-name"),
    "--set data.size={}": ("--image-size", "--img-size", "--imagesize", "--size", "--resolution"),
    "--set networks.latent={}": ("--nz", "--latent-dim", "--latent", "--z-dim"),
    "--set strategy.name={}": ("--strategy", "--algorithm", "--method"),
    "--set networks.name={}": ("--network", "--networks", "--model", "--arch"),
    "--set strategy.loss={}": ("--loss",),
    "--device cuda:{}": ("--gpu", "--gpus", "--cuda", "--gpu-id", "--gpu-ids"),
    "--device cpu": ("--cpu", "--no-cuda"),
    "--out {}": (
        *("--output", "--output-dir", "--outdir", "--outf", "--out-dir", "--save-dir", "--dir"),
        *("--logdir", "--log-dir", "--run-dir", "--results-dir", "--save"),
    ),
    "--out runs/{}": ("--name", "--run-name", "--exp-name", "--experiment"),
    "--data {}": ("--data-dir", "--dataroot", "--data-path", "--data-root", "--root"),
    "--engine mpi --ranks {}": ("--np", "--nproc", "--nproc-per-node", "--processes"),
    "--members {}": ("--population", "--num-members", "--workers"),
    "--n {}": ("--num", "--num-samples", "--n-samples", "--samples", "--num-images", "--count"),
    "--label {}": ("--class", "--classes", "--labels", "--cls"),
    "--with {}": ("--metrics", "--metric", "--kinds", "--kind", "--scores"),
    "--seed {}": ("--random-seed", "--manual-seed", "--manualseed", "--seeds"),
    "--to {}": ("--format", "--type"),
}
COMMANDS: dict[str, tuple[str, ...]] = {
    "train": ("fit", "run", "start"),
    "resume": ("continue", "restart"),
    "sample": ("generate", "draw", "predict", "infer"),
    "score": ("evaluate", "eval", "test", "fid", "metrics"),
    "list": ("ls", "recipes", "help"),
    "status": ("info", "ps", "state"),
    "watch": ("serve", "view", "dashboard", "monitor", "tensorboard", "ui"),
    "report": ("plot", "html", "page"),
    "bench": ("benchmark", "estimate", "time"),
    "compare": ("diff",),
}


def usage_error(error: Any, words: Sequence[str]) -> str:
    """Return click's error message about the arguments as one sentence, with a hint."""
    message = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    if context is None:
        return f"{_lower(message)}; see remuda --help"
    if option := getattr(error, "option_name", ""):
        options = {name for parameter in context.command.params for name in parameter.opts}
        name = option.replace("_", "-")
        message = f"no such option: {option}"
        remedy = option_remedy(name, options, _value_of(option, words))
    elif unknown := re.match(r"No such command '(.*?)'", message):
        message = unknown[0]
        remedy = command_remedy(unknown[1], list(context.command.commands))
    else:
        remedy = ""
    return f"{_lower(message)}; {remedy or f'see {context.command_path} --help'}"


def _lower(message: str) -> str:
    return f"{message[:1].lower()}{message[1:]}"


def option_remedy(name: str, known: Iterable[str], value: str | None) -> str:
    """Return what to type instead of an unknown option, or an empty string."""
    known, name = set(known), name.lower()
    trains = not known.isdisjoint({"recipe", "--rounds"})
    for template, others in OPTIONS.items():
        is_possible = trains or not re.search(r"(strategy|networks)\.", template)
        needed = set(re.findall(r"--[a-z-]+", template))
        if name in others and is_possible and needed <= known:
            return f"use {_filled(template, value)}"
    if name == "--resume":
        return "use the command remuda resume RUN"
    if name == "--config":
        return f"use remuda train {quote(value or 'FILE.toml')}"
    nearest = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.7)
    return f"did you mean {nearest[0]}?" if nearest else ""


def _filled(template: str, value: str | None) -> str:
    if template.startswith("--device cuda"):
        is_number = value is not None and value.isdigit()
        return f"--device cuda:{value}" if is_number else "--device cuda"
    return template.replace("{}", "VALUE" if value is None else quote(value))


def _value_of(name: str, words: Sequence[str]) -> str | None:
    """Return the value that follows an option on the command line."""
    for i, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option == name and equals:
            return value
        if option == name and i + 1 < len(words) and not words[i + 1].startswith("-"):
            return words[i + 1]
    return None


def command_remedy(name: str, known: Sequence[str]) -> str:
    """Return the command that the user probably meant, or an empty string."""
    for wanted, others in COMMANDS.items():
        if name.lower() in others and wanted in known:
            return f"use remuda {wanted}"
    nearest = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f"did you mean remuda {nearest[0]}?" if nearest else ""


def found_run(folder: Path) -> Path:
    """Return the folder of a run; ``NAME`` stands for ``runs/NAME`` if only that one exists.

    If neither exists, name the nearest run.
    """
    if folder.exists():
        return folder
    inside = RUNS / folder
    if len(folder.parts) == 1 and (inside / "config.toml").is_file():
        return inside
    names = [path.parent.name for path in RUNS.glob("*/config.toml")]
    nearest = difflib.get_close_matches(folder.name, sorted(names), n=1, cutoff=0.6)
    if nearest:
        raise UserError(f"{folder} is not a run: did you mean {RUNS / nearest[0]}?")
    return folder


def found_runs(folders: list[Path]) -> list[Path]:
    """Return the folders of several runs, each as ``found_run`` does."""
    return [found_run(folder) for folder in folders]


def refuse_run(recipe: str) -> str:
    """Return the name of a recipe; raise if it is a run folder, which only ``resume`` continues.

    A recipe keeps its name if a run folder has the same name, as after ``--out runs/RECIPE``.
    """
    for folder in (Path(recipe), RUNS / recipe):
        if (folder / "config.toml").is_file():
            from remuda import recipes

            if recipe in recipes.names():
                return recipe
            repeat = f"remuda train {quote(str(folder / 'config.toml'))}"
            raise UserError(
                f"{folder} is a run, not a recipe: continue it with {command('resume', folder)}, "
                f"or repeat it with {repeat}"
            )
    return recipe


def found_class(label: str, classes: Sequence[str]) -> str:
    """Return the class that a label means, also if it is written in another case."""
    if label in classes:
        return label
    same = [name for name in classes if name.casefold() == label.casefold()]
    return same[0] if len(same) == 1 else label


def found_point(point: str, classes: Sequence[str]) -> str:
    """Return a point of a walk, ``CLASS``, ``CLASS:SEED`` or ``:SEED``, with the exact class."""
    whole = found_class(point, classes)
    if whole in classes:
        return whole
    name, colon, seed = point.rpartition(":")
    return f"{found_class(name, classes)}{colon}{seed}" if colon else whole

"""Complete arguments in the shell. If nothing matches, the shell completes file names itself."""

from pathlib import Path


def complete_recipe(incomplete: str) -> list[str]:
    """Return the recipes and TOML files that start with the text typed so far."""
    from remuda import recipes

    files = [str(path) for path in _folder(incomplete).glob("*.toml")]
    return [name for name in [*recipes.names(), *sorted(files)] if name.startswith(incomplete)]


def complete_run(incomplete: str) -> list[str]:
    """Return the run folders that start with the text typed so far, including those in ./runs.

    The names of runs in ./runs match as well, because commands accept them.
    """
    inside = list(Path("runs").glob("*/config.toml"))
    configs = [*inside, *_folder(incomplete).glob("*/config.toml")]
    folders = sorted({str(path.parent) for path in configs})
    found = [name for name in folders if name.startswith(incomplete)]
    if found:
        return found
    return sorted(path.parent.name for path in inside if path.parent.name.startswith(incomplete))


def complete_result(incomplete: str) -> list[str]:
    """Return the tables and figures of the papers that start with the text typed so far."""
    from remuda.experiments.papers.registry import RESULTS

    names = [name for name, result in RESULTS.items() if result.form is not None]
    return [name for name in names if name.startswith(incomplete)]


def _folder(incomplete: str) -> Path:
    """Return the folder part of the path typed so far."""
    if incomplete.endswith("/"):
        return Path(incomplete)
    return Path(incomplete).parent

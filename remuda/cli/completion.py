"""Complete arguments in the shell. If nothing matches, the shell completes file names itself."""

from pathlib import Path


def complete_recipe(incomplete: str) -> list[str]:
    """Return the recipes and TOML files that start with the text typed so far."""
    from remuda import recipes

    files = [str(path) for path in _folder(incomplete).glob("*.toml")]
    return [name for name in [*recipes.names(), *sorted(files)] if name.startswith(incomplete)]


def complete_run(incomplete: str) -> list[str]:
    """Return the run folders that start with the text typed so far, including those in ./runs."""
    configs = [*Path("runs").glob("*/config.toml"), *_folder(incomplete).glob("*/config.toml")]
    folders = sorted({str(path.parent) for path in configs})
    return [name for name in folders if name.startswith(incomplete)]


def _folder(incomplete: str) -> Path:
    """Return the folder part of the path typed so far."""
    if incomplete.endswith("/"):
        return Path(incomplete)
    return Path(incomplete).parent

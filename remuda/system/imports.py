"""Find out where the modules come from that a user's file imports, without importing them."""

import ast
from importlib.machinery import PathFinder
from pathlib import Path

from remuda.errors import UserError

ONE_FILE = "put all the code into one file, or install it as a package and name its module"


def check_imports(tree: ast.Module, path: Path) -> None:
    """Raise if a file imports another file next to it, of which a run would keep no copy."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names = [node.module]
        for name in (name.partition(".")[0] for name in names):
            spec = PathFinder.find_spec(name)
            # A package next to the file may well be installed from there, in editable mode.
            if spec is None or not spec.origin or spec.submodule_search_locations is not None:
                continue
            if Path(spec.origin).parent == path.parent and not installed(name):
                raise UserError(
                    f"{path} imports {name} from its folder, but a run keeps copies only of files "
                    f"that its settings name: {ONE_FILE}"
                )


def installed(package: str) -> str:
    """Return the name and the version of the distribution that contains a package."""
    from importlib.metadata import packages_distributions, version  # takes 20 ms

    names = packages_distributions().get(package, [])
    return f"{names[0]} {version(names[0])}" if names else ""

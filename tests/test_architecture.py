"""The shape of the code: which folder may import which, and how long things may grow."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "remuda"
FILES = sorted(PACKAGE.rglob("*.py"))

BASE = {"errors", "seeds", "trees", "calculus", "devices", "disk"}  # below everything
# What each part may import besides BASE and itself; a part is a folder or a file directly in remuda/.
ALLOWED = {
    **dict.fromkeys(BASE, BASE),
    "data": BASE,
    "networks": BASE,
    "engines": BASE,
    "gan": BASE | {"networks"},
    "population": BASE,
    "strategies": BASE | {"data", "networks", "gan", "engines", "population"},
    "config": BASE | {"data", "networks", "strategies", "scores"},
    "recipes": BASE | {"config"},
    "checkpoints": BASE,
    "images": BASE,
    "environment": BASE | {""},
    "record": BASE | {"config", "checkpoints", "scores"},
    "scoring": BASE | {"config", "model", "record", "report", "scores"},
    "report": {"disk", "errors"},
    "progress": BASE,
    "model": BASE | {"data", "engines", "record", "checkpoints", "strategies"},
    "samples": BASE | {"model", "images"},
    "mixtures": BASE | {"config", "data", "herd", "model", "population", "record", "scores", "scoring", "strategies"},
    "bench": BASE | {"config", "herd"},
    "scores": BASE | {"data"},
    "compare": BASE | {"config", "record", "scores"},
    "repeat": BASE | {"compare", "config", "progress", "record", "run"},
    "traffic": BASE | {"config", "data", "networks", "strategies"},
    "losses": BASE | {"config", "engines"},
    "heartbeats": BASE,
    "watch": BASE | {"config", "engines", "environment", "heartbeats"},
    "status": BASE | {"heartbeats", "progress", "record", "report"},
    "mpirun": BASE,
    "launch": BASE | {"config", "engines", "mpirun"},
    "scaling": BASE | {"config", "data", "doctor", "engines", "launch", "population", "record", "strategies"},
    "doctor": BASE | {"", "config", "data", "engines", "launch", "mpirun"},
    "scribe": BASE
    | {"checkpoints", "config", "engines", "environment", "herd", "progress", "record", "report", "samples", "scoring"},
    "herd": BASE | {"checkpoints", "config", "data", "engines", "losses", "model", "record", "scores", "strategies"},
}
FREE = {"run", "training", "cli", "commands", "", "__main__"}  # the loop and the facades know all the others


def part(path: Path) -> str:
    name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if name == "__init__" else name


def imports(path: Path) -> set[str]:
    """Parts of remuda that a file imports; full names of other modules."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "remuda":
            names = [f"remuda.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found.update(names)
    return found


def own_parts(path: Path) -> set[str]:
    names = [name for name in imports(path) if name == "remuda" or name.startswith("remuda.")]
    return {name.split(".")[1] if "." in name else "" for name in names}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_arrows_between_parts(path):
    if part(path) in FREE:
        return
    assert own_parts(path) <= ALLOWED[part(path)] | {part(path)}


def test_strategies_know_only_the_type_of_engine():
    for path in (PACKAGE / "strategies").glob("*.py"):
        engines = {name for name in imports(path) if name.startswith("remuda.engines")}
        assert engines <= {f"remuda.engines.base.{name}" for name in ("Engine", "Pieces", "Scan")}, path


def test_mpi_is_imported_in_two_places():
    users = [path for path in FILES if any(name.split(".")[0] == "mpi4py" for name in imports(path))]
    assert users == [PACKAGE / "engines" / name for name in ("communicators.py", "mpi.py")]


def test_every_part_has_its_place_in_the_table():
    assert {part(path) for path in FILES} == set(ALLOWED) | FREE


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_size_budget(path):
    text = path.read_text()
    assert text.count("\n") <= 300, "a file this long hides a missing concept"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 45, f"{node.name} is too long"


def test_the_loop_stays_small():
    assert (PACKAGE / "training.py").read_text().count("\n") <= 225


def test_nothing_is_pickled():
    """Only the data sets' own Python files are read that way, by a restricted unpickler."""
    users = [path for path in FILES if "pickle" in {name.split(".")[0] for name in imports(path)}]
    assert users == [PACKAGE / "data" / "cifar.py"]

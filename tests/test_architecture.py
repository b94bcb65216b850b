"""Check the structure of the code: its layout, its imports, and the lengths of its files."""

import ast
import graphlib
from functools import cache
from pathlib import Path

import pytest

from remuda.engines import ENGINES
from remuda.strategies import STRATEGIES

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "remuda"
FILES = sorted(PACKAGE.rglob("*.py"))

# Imports point downwards: a part may import parts on the lines above its own, and no others. Parts
# on the same line do not import each other.
LAYERS = [
    ["errors"],
    ["system", "tensors"],
    ["data", "networks", "engines"],
    ["gan", "population", "scores"],
    ["strategies"],
    ["config"],
    ["recipes", "record"],
    ["reports"],
    ["model", "cluster"],
    ["training"],
    ["experiments"],
    ["cli"],
]
FACADES = {"__init__", "__main__"}  # modules of the package itself, which import all parts
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in FILES}


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the full names of everything that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def own_modules(path: Path) -> set[str]:
    """Return the modules of remuda that a file imports."""
    names = {name for name in imports(path) if name == "remuda" or name.startswith("remuda.")}
    return {name if name in MODULES else name.rpartition(".")[0] for name in names}


def each_file(*excluded: str):
    files = [path for path in FILES if part_of(path) not in excluded]
    return pytest.mark.parametrize("path", files, ids=lambda path: str(path.relative_to(PACKAGE)))


def test_the_layout_is_small_and_documented():
    entries = {path.name for path in PACKAGE.iterdir() if not path.name.startswith("__")}
    entries.discard("py.typed")
    assert {name.removesuffix(".py") for name in entries} == set(LEVEL)
    assert len(entries) <= 20
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    missing = [name for name in entries if f"`{name.removesuffix('.py')}" not in contributing]
    assert not missing, f"CONTRIBUTING.md does not explain {missing}"


def test_the_tests_mirror_the_layout():
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert packages - {"recipes"} <= folders


@each_file(*FACADES)
def test_imports_point_downwards(path):
    own = part_of(path)
    for module in own_modules(path):
        other = module.removeprefix("remuda").removeprefix(".").split(".")[0]
        allowed = other in ("", own) or LEVEL[other] < LEVEL[own]
        assert allowed, f"{own} must not import {module}"


def test_there_are_no_import_cycles():
    graph = {name: own_modules(path) - {name} for name, path in MODULES.items()}
    list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError


def test_strategies_import_only_the_interface_of_engines():
    for path in (PACKAGE / "strategies").glob("*.py"):
        engines = {name for name in imports(path) if name.startswith("remuda.engines")}
        interface = "remuda.engines.base.", "remuda.engines.racing"
        assert all(name.startswith(interface) for name in engines), path


def test_only_the_mpi_engine_imports_mpi4py():
    users = [path for path in FILES if any(name.startswith("mpi4py") for name in imports(path))]
    folders = {path.parent for path in users}
    cluster = PACKAGE / "cluster"
    assert folders <= {PACKAGE / "engines" / "mpi", cluster, cluster / "doctor"}
    inside_cluster = {path.name for path in users if path.parent.name == "cluster"}
    assert inside_cluster <= {"rank.py"}


@each_file("strategies", "engines")
def test_no_code_checks_for_a_concrete_strategy_or_engine(path):
    """Code outside their packages asks them through a method or class variable."""
    concrete = {part.__name__ for part in (*STRATEGIES.values(), *ENGINES.values())}
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            asked = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
            assert not asked & concrete, f"line {node.lineno}: isinstance on {asked & concrete}"
        if isinstance(node, ast.Compare):
            values = [node.left, *node.comparators]
            constants = {value.value for value in values if isinstance(value, ast.Constant)}
            named = constants & set(STRATEGIES)
            assert not named, f"line {node.lineno}: compares a strategy's name"


@each_file()
def test_files_and_functions_are_short(path):
    text = path.read_text()
    assert text.count("\n") <= 300, "the file is too long: split it along a concept"
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < 45, f"{node.name} is too long"


@each_file()
def test_lines_are_easy_to_read(path):
    long = [i for i, line in enumerate(path.read_text().splitlines(), 1) if len(line) > 100]
    assert not long, f"lines over 100 characters: {long}"
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.IfExp):
            inner = [child for child in ast.walk(node) if isinstance(child, ast.IfExp)]
            assert inner == [node], f"line {node.lineno}: nested conditional; use if"


def test_no_code_uses_pickle():
    """The only exception is CIFAR's own pickled files, which a restricted unpickler reads."""
    users = [path for path in FILES if "pickle" in {name.split(".")[0] for name in imports(path)}]
    assert users == [PACKAGE / "data" / "cifar.py"]

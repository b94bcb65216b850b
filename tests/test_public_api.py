"""Documentation and examples import public names only, and the documentation lists all of them."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from keyword import iskeyword
from pathlib import Path

import pytest

import remuda

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "python-api.md"
# This page shows a file of the package itself, which imports from modules.
INTERNAL = {ROOT / "docs" / "extending.md"}
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - INTERNAL)
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def programs(path: Path) -> list[str]:
    """Return the Python code in a page or a script."""
    text = path.read_text()
    if path.suffix == ".py":
        return [text]
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def imported(path: Path) -> list[tuple[str, str]]:
    """Return each import of remuda as module and name; the name is empty for a whole module."""
    found = []
    for program in programs(path):
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.Import):
                found += [(alias.name, "") for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                found += [(node.module or "", alias.name) for alias in node.names]
    return [(module, name) for module, name in found if module.split(".")[0] == "remuda"]


@pytest.mark.parametrize("path", [*PAGES, *EXAMPLES], ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_in_documentation_and_examples_are_public(path):
    for module, name in imported(path):
        assert module.count(".") <= 1, f"{module} is a module inside of a subpackage"
        if name:
            assert name in import_module(module).__all__, f"{module} does not export {name}"


@pytest.mark.parametrize("path", [*PAGES, *EXAMPLES], ids=lambda path: str(path.relative_to(ROOT)))
def test_names_after_remuda_are_public(path):
    """Such as ``remuda.run``; ``remuda.data.load`` names a subpackage first."""
    text = "\n".join(programs(path)) + "\n".join(re.findall(r"`(remuda\.[^`]*)`", path.read_text()))
    for first, second in re.findall(r"\bremuda\.(\w+)(?:\.(\w+))?", text):
        if first in remuda.__all__ or first.startswith("__") or iskeyword(first):
            continue  # remuda.def is a file
        package = import_module(f"remuda.{first}")
        assert not second or second in package.__all__, f"remuda.{first}.{second}"


def listed() -> dict[str, list[str]]:
    """Return the names that the reference lists for each package."""
    text = REFERENCE.read_text()
    sections = re.findall(r"^### (remuda[.\w]*)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    return {package: re.findall(r"^\| `(\w+)`", body, re.MULTILINE) for package, body in sections}


def test_the_reference_lists_every_public_name():
    for package, names in listed().items():
        assert sorted(names) == sorted(import_module(package).__all__), package
    packages = [path.parent.name for path in (ROOT / "remuda").glob("*/__init__.py")]
    with_exports = [
        name for name in packages if getattr(import_module(f"remuda.{name}"), "__all__", None)
    ]
    assert set(listed()) == {"remuda", *(f"remuda.{name}" for name in with_exports)} - {
        "remuda.cli"
    }


def test_public_functions_and_classes_have_docstrings():
    for name in remuda.__all__:
        part = getattr(remuda, name)
        if callable(part):
            assert part.__doc__ and not part.__doc__.startswith(f"{name}("), name


def test_importing_remuda_does_not_import_pytorch():
    program = "import sys, remuda, remuda.config, remuda.recipes; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)

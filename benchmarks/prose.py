"""Draw a random sample of the project's prose for a reader.

Give the output to somebody who did not write it, and count the passages that they would rewrite:

    python benchmarks/prose.py --seed 2026

The sample has 25 paragraphs of the documentation, 25 docstrings, and 10 comments or messages.
"""

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FEWEST_WORDS = 12  # in a paragraph; shorter ones are skipped
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

Passage = tuple[str, str]  # where it is, and its text


def paragraphs() -> Iterator[Passage]:
    """Yield the paragraphs of all Markdown files, without tables, headings and code."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    for path in [*top, *sorted((ROOT / "docs").rglob("*.md"))]:
        text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
        for paragraph in re.split(r"\n\s*\n", text):
            words = paragraph.strip()
            if len(words.split()) >= FEWEST_WORDS and not words.startswith(("|", "#", "!")):
                yield str(path.relative_to(ROOT)), words


def docstrings() -> Iterator[Passage]:
    """Yield the docstrings of the package."""
    for path, _, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
                yield f"{path}:{getattr(node, 'lineno', 1)}", text


def remarks() -> Iterator[Passage]:
    """Yield the comments that have their own line, and the messages of exceptions."""
    for path, text, tree in modules():
        for number, line in enumerate(text.splitlines(), start=1):
            if re.match(r"\s*# [A-Z]", line):
                yield f"{path}:{number}", line.strip()
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                yield f"{path}:{node.lineno}", ast.unparse(node.exc)


def modules() -> Iterator[tuple[Path, str, ast.Module]]:
    """Yield the path, the text and the syntax tree of every module of the package."""
    for path in sorted((ROOT / "remuda").rglob("*.py")):
        text = path.read_text()
        yield path.relative_to(ROOT), text, ast.parse(text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw a sample of the project's prose.")
    parser.add_argument("--seed", type=int, default=0)
    draw = random.Random(parser.parse_args().seed)
    for kind, passages, number in (
        ("paragraph", paragraphs(), 25),
        ("docstring", docstrings(), 25),
        ("comment or message", remarks(), 10),
    ):
        for place, text in draw.sample(list(passages), number):
            print(f"--- {kind}, {place}\n{text}\n")


if __name__ == "__main__":
    main()

"""Write the reference of the command line from the commands themselves."""

import re
from typing import Any

import typer

from remuda.cli import app


def markdown() -> str:
    """Return a section for every command, with its usage, arguments and options."""
    group: Any = typer.main.get_command(app)
    parts = [_section(group, "remuda", group.help)]
    parts += [
        _section(command, f"remuda {name}", command.help)
        for name, command in group.commands.items()
        if not command.hidden
    ]
    return "\n".join(parts)


def _section(command: Any, name: str, about: str) -> str:
    context = command.make_context(name, [], resilient_parsing=True)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    rows = [[f"`{one.metavar or one.name}`", "", one.help or ""] for one in arguments]
    rows += [[_flags(one, context), _default(one), one.help or ""] for one in options]
    heads = ["argument or option", "default", "meaning"]
    return f"## {name}\n\n{_paragraphs(about)}\n\n```text\n{usage}\n```\n\n{table(heads, rows)}\n"


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a table of Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _paragraphs(text: str) -> str:
    """Return a docstring as Markdown."""
    text = re.sub(r"``(.+?)``", r"`\1`", text.strip())
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _flags(option: Any, context: Any) -> str:
    """Return an option as the help text shows it, such as ``--out DIR``."""
    record = option.get_help_record(context)
    return f"`{record[0]}`" if record else ", ".join(f"`{name}`" for name in option.opts)


def _default(option: Any) -> str:
    if option.required:
        return "required"
    value = option.default
    if value is None or value is False or callable(value) or value == [] or value == ():
        return ""
    return f"`{value}`"

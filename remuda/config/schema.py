"""Convert tables to dataclasses strictly: unknown keys and wrong types are errors.

The only silent conversion is from a whole number to a floating-point number. Every error message
is one sentence that names the key, such as ``strategy.batch_size: expected a whole number, not
1.5``.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import cattrs
from cattrs.errors import ClassValidationError

from remuda.errors import UserError
from remuda.system.text import suggestion


def structure(section: str, cls: type, table: dict[str, Any], *, has_name: bool = False) -> Any:
    """Return an instance of ``cls`` with the settings of a section's table.

    With ``has_name``, the table may contain the key ``name`` although the class has no such field.
    """
    known = [f.name for f in fields(cls) if f.init]
    check_known(table, ["name", *known] if has_name else known, f"key in [{section}]", section)
    try:
        part = _converter.structure(table, cls)
        # The record contains the defaults too, so they must have the right types.
        return _converter.structure(_converter.unstructure(part), cls)
    except ClassValidationError as group:
        raise UserError(_first_complaint(group, section)) from None


def unstructure(part: Any) -> dict[str, Any]:
    """Return the table of a section with every setting, including defaults."""
    return _converter.unstructure(part)


def check_known(given: Iterable[str], known: Iterable[str], kind: str, section: str = "") -> None:
    """Raise if a name is unknown, and suggest the nearest known one."""
    known = list(known)
    for name in given:
        if name not in known:
            full = f"{section}.{name}" if section else name
            raise UserError(f"unknown {kind}: {full}; {suggestion(name, known)}")


def _first_complaint(error: BaseException, path: str) -> str:
    """Return the first error in a cattrs error tree as a sentence with the key's full name."""
    if isinstance(error, ClassValidationError):
        with_notes, without_notes = error.group_exceptions()
        if with_notes:
            inner, note = with_notes[0]
            return _first_complaint(inner, f"{path}.{note.name}")
        return _first_complaint(without_notes[0], path)
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, BaseExceptionGroup):
        return _first_complaint(error.exceptions[0], path)
    if isinstance(error, KeyError):
        return f"{path} has no default: set it"
    return f"{path}: {' '.join(str(error).split())}"


def _strict(kind: str, *types: type) -> Callable[[Any, Any], Any]:
    def hook(value: Any, wanted: Any) -> Any:
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise ValueError(f"expected {kind}, not {value!r}")
        return float(value) if wanted is float else value

    return hook


def _literal(value: Any, wanted: Any) -> Any:
    words = get_args(wanted)
    if value not in words:
        raise ValueError(f"{value!r} is unknown, {suggestion(str(value), words)}")
    return value


def _number_or_word(value: Any, wanted: Any) -> Any:
    words = [word for part in get_args(wanted) for word in get_args(part)]
    if isinstance(value, bool) or not (isinstance(value, int) or value in words):
        choices = " or ".join(["a whole number", *map(repr, words)])
        raise ValueError(f"expected {choices}, not {value!r}")
    return value


def _number_or_several(value: Any, wanted: Any) -> Any:
    if isinstance(value, list | tuple):
        (several,) = (part for part in get_args(wanted) if _is_several(part))
        return _several(value, several)
    return _converter.structure(value, int)


def _switch_or_word(value: Any, wanted: Any) -> Any:
    words = [word for part in get_args(wanted) for word in get_args(part)]
    if not (isinstance(value, bool) or value in words):
        raise ValueError(f"expected true, false or {' or '.join(map(repr, words))}, not {value!r}")
    return value


def _several(value: Any, wanted: Any) -> Any:
    parts = get_args(wanted)
    count = "" if Ellipsis in parts else f"{len(parts)} "
    is_list = isinstance(value, list | tuple)
    if is_list and (parts[0] is str or _is_several(parts[0])):
        kinds = str if parts[0] is str else (list, tuple)
        is_list = all(isinstance(item, kinds) for item in value)
    if not is_list or (count and len(value) != len(parts)):
        raise ValueError(f"expected {count}{_items(parts[0])}, not {value!r}")
    return tuple(_converter.structure(item, parts[0]) for item in value)


def _items(kind: Any) -> str:
    """Describe the items of a list."""
    if kind is str:
        return 'words in brackets, such as ["a", "b"]'
    if _is_several(kind):
        return "lists of numbers, such as [[0, 1], [2, 3]]"
    return "numbers in brackets"


def _is_literal(wanted: Any) -> bool:
    return get_origin(wanted) is Literal


def _is_several(wanted: Any) -> bool:
    return get_origin(wanted) is tuple


def _is_number_or_word(wanted: Any) -> bool:
    return get_origin(wanted) in (Union, UnionType) and int in get_args(wanted)


def _is_number_or_several(wanted: Any) -> bool:
    return _is_number_or_word(wanted) and any(_is_several(part) for part in get_args(wanted))


def _is_switch_or_word(wanted: Any) -> bool:
    return get_origin(wanted) in (Union, UnionType) and bool in get_args(wanted)


_converter = cattrs.Converter(forbid_extra_keys=True)
_converter.register_structure_hook(int, _strict("a whole number", int))
_converter.register_structure_hook(float, _strict("a number", int, float))
_converter.register_structure_hook(bool, _strict("true or false", bool))
_converter.register_structure_hook(str, _strict("text", str))
_converter.register_structure_hook_func(_is_several, _several)
_converter.register_structure_hook_func(_is_literal, _literal)
_converter.register_structure_hook_func(_is_number_or_word, _number_or_word)
_converter.register_structure_hook_func(_is_number_or_several, _number_or_several)
_converter.register_structure_hook_func(_is_switch_or_word, _switch_or_word)

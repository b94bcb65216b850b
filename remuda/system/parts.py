"""Load users' own parts: classes and functions in a file or in an installed module.

A *reference* names such a part: ``my_networks.py:TinyConv`` or ``my_package.nets:TinyConv``. A file
is imported once per content: two copies of the same text give the same classes. It is read when a
configuration is made (``refresh``), and not again while a run trains, so that users can edit it.
"""

import ast
import hashlib
import importlib
import os
import re
import sys
import traceback
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NamedTuple, get_origin, get_type_hints

from remuda.errors import UserError, is_user_error
from remuda.system.imports import ONE_FILE, check_imports, installed
from remuda.system.text import suggestion

_REFERENCE = re.compile(r"(?P<place>[^\0]+\.py|[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")

MOST_BYTES = 16 << 20  # of a user's file

_files: dict[str, ModuleType] = {}  # files that were imported, by the SHA-256 of their text
_texts: dict[Path, bytes] = {}  # the text of each of these files when it was last imported
_modules: set[str] = set()  # modules that were imported because a reference names them


class Origin(NamedTuple):
    """Where the code of a part comes from."""

    place: str  # the path of a file, or the name of an installed module
    path: Path | None  # the file with the code; None if it is unknown
    sha256: str  # of this file; "" if it is unknown
    package: str  # name and version of the installed package; "" for a file


def is_reference(text: object) -> bool:
    """Return whether a text has the form of a reference: FILE.py:NAME or MODULE:NAME."""
    return isinstance(text, str) and _REFERENCE.fullmatch(text) is not None


def split(reference: str) -> tuple[str, str]:
    """Return the file or module of a reference, and the name of the part in it."""
    place, _, name = reference.rpartition(":")
    return place, name


def is_file(place: str) -> bool:
    """Return whether the code is in a file that the user names, not in an installed module."""
    return place.endswith(".py")


def absolute(reference: str, folder: Path) -> str:
    """Return a reference whose file has an absolute path; relative paths start at ``folder``."""
    place, name = split(reference)
    if not is_file(place):
        return reference
    return f"{_full(folder / Path(place).expanduser())}:{name}"


def digest(path: Path) -> str:
    """Return the SHA-256 of a file; raise if it cannot be read."""
    return hashlib.sha256(_read(path)).hexdigest()


def fingerprint(reference: str) -> str:
    """Return a text that is equal for equal code, wherever its file is."""
    place, name = split(reference)
    if is_file(place):
        sha256 = hashlib.sha256(imported_text(Path(place))).hexdigest()
        return f"{Path(place).name}:{name} (sha256 {sha256[:16]})"
    return f"{reference} ({installed(place.partition('.')[0]) or 'not installed'})"


def imported_text(path: Path) -> bytes:
    """Return the text of a file as it was imported; the file may have changed meanwhile."""
    return _texts[path] if path in _texts else _read(path)


def origin(reference: str) -> Origin:
    """Return where the code of a reference comes from, without executing it."""
    place, _ = split(reference)
    if is_file(place):
        path = Path(place)
        return Origin(place, path, digest(path), "")
    package = place.partition(".")[0]
    path = None
    # Looking up a submodule would import its package.
    module = sys.modules.get(place)
    if module is not None and getattr(module, "__file__", None):
        path = Path(str(module.__file__))
    return Origin(place, path, "" if path is None else digest(path), installed(package))


def is_loaded(reference: str) -> bool:
    """Return whether this process has already executed the code of a reference."""
    place, _ = split(reference)
    if is_file(place):
        return digest(Path(place)) in _files
    return place in _modules


def load_reference(reference: str) -> Any:
    """Import the file or module of a reference, and return the part."""
    place, name = split(reference)
    module = load_file(Path(place)) if is_file(place) else _load_module(place)
    try:
        return getattr(module, name)
    except AttributeError:
        known = [key for key in vars(module) if not key.startswith("_")]
        if is_file(place):  # leave out what the file imports
            known = [key for key in known if _is_own(module, key)]
        hint = suggestion(name, known) if known else "define it there, or name another file"
        raise UserError(f"{place} has no {name}: {hint}") from None


def _is_own(module: ModuleType, name: str) -> bool:
    """Return whether a module defines a name itself, as far as the object can tell."""
    part = getattr(module, name)
    is_imported = getattr(part, "__module__", module.__name__) != module.__name__
    return not isinstance(part, ModuleType) and not (is_imported and hasattr(part, "__qualname__"))


def refresh(reference: str) -> None:
    """Forget the text of a reference's file, so that it is read again when it is used."""
    place, _ = split(reference)
    _texts.pop(Path(place), None)


def load_file(path: Path) -> ModuleType:
    """Import a file that a user names."""
    path = _full(path.expanduser())
    text = imported_text(path)
    sha256 = hashlib.sha256(text).hexdigest()
    if sha256 in _files:
        _texts[path] = text
        return _files[sha256]
    stem = re.sub(r"\W", "_", path.stem)
    name = f"remuda_part_{stem}_{sha256[:12]}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses look up their module there
    try:
        # Execute the text whose checksum is known. A loader would read the file again, and write
        # its own cache next to it.
        tree = ast.parse(text, path)
        check_imports(tree, path)
        exec(compile(tree, path, "exec", dont_inherit=True), vars(module))
    except BaseException as error:
        del sys.modules[name]
        raise _explained(error, str(path), path) from error
    _files[sha256], _texts[path] = module, text
    return module


def _load_module(name: str) -> ModuleType:
    try:
        module = importlib.import_module(name)
    except BaseException as error:
        raise _explained(error, f"module {name}", None) from error
    _modules.add(name)
    return module


def check_kind(name: str, part: Any, base: type | None, of_class: bool) -> None:
    """Raise if a user's part is neither a subclass nor an instance of ``base``.

    Only instances count with ``of_class``, otherwise only subclasses. Without a base, the part must
    be a function.
    """
    if base is None:
        if not callable(part):
            raise UserError(f"{name} is not a function: see docs/own-parts.md")
        return
    full = f"{base.__module__.rpartition('.')[0]}.{base.__name__}"
    if of_class:
        if not isinstance(part, base):
            raise UserError(f"{name} is not an instance of {full}: see docs/own-parts.md")
        return
    if not (isinstance(part, type) and issubclass(part, base)):
        raise UserError(f"{name} is not a subclass of {full}: see docs/own-parts.md")
    known = {field.name for field in fields(part)} if is_dataclass(part) else set()
    annotated = vars(part).get("__annotations__", {})
    own = [key for key, kind in annotated.items() if "ClassVar" not in str(kind)]
    if unknown := [key for key in own if key not in known]:
        raise UserError(
            f"{unknown[0]} of {name} is not a setting: write @dataclass(frozen=True, kw_only=True) "
            "above the class"
        )
    if missing := _missing(part):
        raise UserError(
            f"{name} has no {missing[0]}, which every subclass of {full} needs: define it in the "
            "class"
        )


def _missing(cls: type) -> list[str]:
    """Return the methods and class variables that a base class requires, but this class lacks."""
    required = [key for key, kind in types(cls).items() if get_origin(kind) is ClassVar]
    lacking = [key for key in required if not hasattr(cls, key)]
    return sorted(getattr(cls, "__abstractmethods__", ())) + lacking


def types(cls: type) -> dict[str, Any]:
    """Return the types of the fields of a user's class."""
    try:
        return get_type_hints(cls)
    except Exception as error:
        raise UserError(
            f"cannot read the types of the settings of {cls.__name__} ({error}): import the names "
            "of types at the top of the file, not under `if TYPE_CHECKING`"
        ) from error


def _explained(error: BaseException, what: str, path: Path | None) -> BaseException:
    """Return the error that tells the user why code cannot be imported."""
    if isinstance(error, UserError | KeyboardInterrupt):
        return error
    if isinstance(error, ModuleNotFoundError):
        reason = f"cannot import {what}: {error}: install the missing package"
        if path is not None:
            reason += ", or put all the code into this file, of which a run keeps a copy"
        return UserError(reason)
    if isinstance(error, ImportError) and path is not None and "relative import" in str(error):
        return UserError(f"cannot import {what}, which has relative imports: {ONE_FILE}")
    lines = [error.lineno] if isinstance(error, SyntaxError) else []
    for frame in traceback.extract_tb(error.__traceback__):
        if path is not None and frame.filename == str(path):
            lines.append(frame.lineno)
    where = f", line {lines[-1]}" if lines and lines[-1] else ""
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return UserError(f"cannot import {what}{where} ({text}): correct the code")


def blamed(error: BaseException) -> BaseException:
    """Return a UserError that names the line of a user's code in which an error occurred.

    Return the error itself if it is already explained, or if no line of a user's part was running.
    """
    if is_user_error(error):
        return error
    modules = [*_files.values(), *(sys.modules[name] for name in _modules if name in sys.modules)]
    paths = {module.__file__ for module in modules}
    frames = traceback.extract_tb(error.__traceback__)
    places = [frame for frame in frames if frame.filename in paths]
    if not places:
        return error
    where = f"{places[-1].filename}, line {places[-1].lineno}"
    message = " ".join(f"{type(error).__name__}: {error}".rstrip(": ").split())
    return UserError(
        f"{where}, failed ({message}): correct the code; REMUDA_TRACEBACK=1 shows how it was called"
    )


def _full(path: Path) -> Path:
    """Return an absolute path. Links stay as they are: their targets may have other names."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if not path.is_file() or size > MOST_BYTES:
            raise UserError(
                f"{path} is not a file of code with at most {MOST_BYTES >> 20} MiB: name a "
                "Python file"
            )
        return path.read_bytes()
    except OSError as error:
        raise UserError(
            f"cannot read {path} ({error.strerror}): restore the file, or correct the path, which "
            "is relative to the recipe or, with --set, to the working folder"
        ) from None

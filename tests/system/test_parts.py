"""Users' own parts: references, files, modules and entry points."""

import os
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import pytest

from remuda.errors import UserError
from remuda.system import parts
from remuda.system.choices import Choices


@dataclass(frozen=True, kw_only=True)
class Base:
    size: int = 1


@dataclass(frozen=True, kw_only=True)
class Demanding(ABC):
    """A base class whose subclasses need a class variable and a method."""

    kinds: ClassVar[tuple[str, ...]]

    @abstractmethod
    def run(self): ...


def base_choices(**more):
    return Choices({"ours": f"{__name__}:Base"}, "test.parts", f"{__name__}:Base", **more)


def write(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nets.py:Tiny", True),
        ("/a b/nets.py:Tiny", True),
        ("../nets.py:Tiny", True),
        ("package.nets:Tiny", True),
        ("package:Tiny", True),
        ("mlp", False),
        ("nets.py", False),
        ("nets.py:", False),
        ("nets.py:a.b", False),
        ("a-b:Tiny", False),
        ("1a:Tiny", False),
        (5, False),
    ],
)
def test_references_have_a_form(text, expected):
    assert parts.is_reference(text) is expected


def test_a_file_is_imported_once_per_content(tmp_path):
    first = write(tmp_path / "a.py", "value = object()\n")
    second = write(tmp_path / "b.py", "value = object()\n")
    value = parts.load_reference(f"{first}:value")
    assert parts.load_reference(f"{second}:value") is value, "the same text"
    assert parts.is_loaded(f"{second}:value")
    write(first, "value = object()  # changed\n")
    assert not parts.is_loaded(f"{first}:value")
    assert parts.load_reference(f"{first}:value") is value, "a run is not disturbed"
    parts.refresh(f"{first}:value")
    assert parts.load_reference(f"{first}:value") is not value
    assert not list(tmp_path.glob("__pycache__")), "nothing is written next to the user's file"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = (", r"nets\.py, line 1 \(SyntaxError: .*\): correct the code"),
        ("\nx = 1 / 0", r"nets\.py, line 2 \(ZeroDivisionError: division by zero\)"),
        ("import helpers_of_mine", r"No module named 'helpers_of_mine'.*put all the code into"),
        ("raise SystemExit(3)", r"line 1 \(SystemExit: 3\)"),
        ("Tinny = 1", r"nets\.py has no Tiny: did you mean Tinny\?"),
        ("Tiny = 1", r"Tiny is not a subclass of tests\.system\.Base"),
        ("class Tiny: pass", r"Tiny is not a subclass of tests\.system\.Base"),
        (
            f"from {__name__} import Base\nclass Tiny(Base):\n    depth: int = 3",
            r"depth of .*Tiny is not a setting: write @dataclass\(frozen=True, kw_only=True\)",
        ),
        (
            f"from dataclasses import dataclass\nfrom {__name__} import Base\n"
            "@dataclass(frozen=True)\nclass Tiny(Base):\n    depth: 'Depth' = 3",
            r"types of the settings of Tiny \(name 'Depth' is not defined\): import the names",
        ),
    ],
)
def test_bad_files_get_one_sentence(tmp_path, text, sentence):
    path = write(tmp_path / "nets.py", text)
    with pytest.raises(UserError, match=sentence) as caught:
        base_choices()[f"{path}:Tiny"]
    assert "\n" not in str(caught.value)


def test_missing_files_and_modules_get_one_sentence(tmp_path):
    choices = base_choices()
    with pytest.raises(UserError, match=r"cannot read .*nets.py \(No such file"):
        choices[f"{tmp_path / 'nets.py'}:Tiny"]
    with pytest.raises(UserError, match="No module named 'no_such_module'"):
        choices["no_such_module:Tiny"]


def test_choices_know_the_names_of_parts(tmp_path):
    text = f"from {__name__} import Base\nclass Tiny(Base): pass\n"
    choices, reference = base_choices(), f"{write(tmp_path / 'nets.py', text)}:Tiny"
    tiny = choices[reference]
    assert choices.name_of(tiny) == reference and choices.name_of(Base) == "ours"
    assert reference in choices and reference not in list(choices)
    assert choices.name_of(int) is None
    write(tmp_path / "nets.py", text + "# changed\n")
    assert choices[reference] is tiny
    parts.refresh(reference)
    assert choices[reference] is not tiny, "read again"
    assert choices.name_of(tiny) == reference


def test_choices_without_a_group_accept_no_references():
    assert "json:loads" not in Choices({"a": "json:loads"})


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Install packages that offer parts by entry points."""

    def install(name, module, points):
        info = tmp_path / f"{name}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
        lines = [f"{key} = {value}" for key, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[test.parts]", *lines]))
        (info / "top_level.txt").write_text(module)
        (tmp_path / f"{module}.py").write_text(
            f"from {__name__} import Base\nclass Tiny(Base): pass\nnumber = 3\n"
        )

    monkeypatch.syspath_prepend(tmp_path)
    yield install
    for module in ("offering", "rival"):
        sys.modules.pop(module, None)


def test_packages_offer_parts(package):
    package("offering", "offering", {"tiny": "offering:Tiny", "ours": "offering:Tiny"})
    choices = base_choices()
    assert list(choices) == ["ours", "tiny"] and choices.own == ["ours"]
    assert choices.package("tiny") == "offering 1.5" and choices.package("ours") == ""
    assert choices["tiny"].__name__ == "Tiny" and choices["ours"] is Base, "ours come first"
    assert choices.name_of(choices["tiny"]) == "tiny"


def test_bad_offers_get_one_sentence(package):
    package(
        "offering", "offering", {"a": "offering:number", "b": "nowhere:X", "c": "offering:Tiny"}
    )
    package("rival", "rival", {"c": "rival:Tiny"})
    choices = base_choices()
    with pytest.raises(UserError, match="a is not a subclass of"):
        choices["a"]
    with pytest.raises(UserError, match=r"b of offering 1\.5: cannot import module nowhere"):
        choices["b"]
    both = r"c is offered by offering 1\.5 and rival 1\.5: uninstall one .* example \w+:Tiny"
    with pytest.raises(UserError, match=both):
        choices["c"]


def test_instances_and_functions_are_checked(tmp_path):
    path = write(tmp_path / "p.py", f"from {__name__} import Base\none = Base()\nnumber = 3\n")
    instances = base_choices(of_class=True)
    assert instances[f"{path}:one"].size == 1
    with pytest.raises(UserError, match=r"p\.py:number is not an instance of tests\.system\.Base"):
        instances[f"{path}:number"]
    with pytest.raises(UserError, match=r"p\.py:number is not a function"):
        Choices({}, "test.parts")[f"{path}:number"]


def test_links_keep_their_names(tmp_path):
    """Some programs store files under their checksums, and link to them."""
    (tmp_path / "abc123").write_text(f"from {__name__} import Base\nclass Tiny(Base): pass\n")
    (tmp_path / "nets.py").symlink_to(tmp_path / "abc123")
    choices, reference = base_choices(), f"{tmp_path / 'nets.py'}:Tiny"
    assert parts.absolute(reference, tmp_path) == reference
    assert choices.name_of(choices[reference]) == reference


def test_names_of_parts_are_valid_in_every_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "nets.py", f"from {__name__} import Base\nclass Tiny(Base): pass\n# here\n")
    choices = base_choices()
    assert choices.name_of(choices["nets.py:Tiny"]) == f"{tmp_path / 'nets.py'}:Tiny"


def test_only_regular_files_of_code_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    with (tmp_path / "large.py").open("wb") as file:
        file.truncate(parts.MOST_BYTES + 1)
    for name in ("pipe.py", "zero.py", "large.py"):
        with pytest.raises(UserError, match="is not a file of code with at most 16 MiB"):
            parts.load_reference(f"{tmp_path / name}:Tiny")


def test_errors_in_users_code_name_its_line(tmp_path):
    path = write(tmp_path / "mine.py", "def divide(x):\n    return 1 / x\n")
    divide = parts.load_reference(f"{path}:divide")
    try:
        divide(0)
    except ZeroDivisionError as error:
        found = parts.blamed(error)
    assert isinstance(found, UserError)
    assert str(found).startswith(f"{path}, line 2, failed (ZeroDivisionError: division by zero): ")
    try:
        divide.nothing  # noqa: B018
    except AttributeError as error:
        assert parts.blamed(error) is error, "no line of the file was running"


def test_parts_must_be_complete():
    @dataclass(frozen=True, kw_only=True)
    class Silent(Demanding):
        kinds: ClassVar[tuple[str, ...]] = ("a",)

    @dataclass(frozen=True, kw_only=True)
    class Aimless(Demanding):
        def run(self): ...

    for part, lacking in ((Silent, "run"), (Aimless, "kinds")):
        sentence = rf"mine has no {lacking}, .*Demanding needs: define it"
        with pytest.raises(UserError, match=sentence):
            parts.check_kind("mine", part, Demanding, False)


@pytest.mark.parametrize("line", ["import my_helper_7", "def f():\n    from my_helper_7 import x"])
def test_a_file_cannot_import_its_neighbours(tmp_path, monkeypatch, line):
    """In a script or a notebook, Python finds them, but the folder of the run has no copy."""
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path / "my_helper_7.py", "x = 1\n")
    path = write(tmp_path / "mine.py", f"import os, torch\n{line}\n")
    message = (
        "imports my_helper_7 from its folder, but a run keeps copies only of files that its "
        "settings name: put all the code"
    )
    with pytest.raises(UserError, match=message):
        parts.load_file(path)


def test_a_file_may_import_a_package_next_to_it(tmp_path, monkeypatch):
    """It may be installed in editable mode, as remuda is in its own checkout."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_package_7").mkdir()
    write(tmp_path / "my_package_7" / "__init__.py", "x = 1\n")
    path = write(tmp_path / "mine.py", "from my_package_7 import x\n")
    assert parts.load_file(path).x == 1


def test_a_file_with_relative_imports(tmp_path):
    path = write(tmp_path / "mine.py", "from .helper import f\n")
    with pytest.raises(UserError, match="has relative imports: put all the code into one file, or"):
        parts.load_file(path)


def test_a_file_that_defines_nothing(tmp_path):
    path = write(tmp_path / "mine.py", "from dataclasses import dataclass\n")
    with pytest.raises(UserError, match="has no Tiny: define it there, or name another file"):
        parts.load_reference(f"{path}:Tiny")

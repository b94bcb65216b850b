"""Files that grow, are rewritten, or disappear while they are followed."""

import json

import pytest

from remuda.errors import UserError
from remuda.reports.tail import Tail


def text(*numbers):
    return "".join(json.dumps({"n": number}) + "\n" for number in numbers)


class Follower:
    """Collect the numbers of a file as a reader of a run does."""

    def __init__(self, path, **limits):
        self.tail = Tail(path, lambda line: line["n"], **limits)
        self.numbers = []

    def read(self):
        for number in self.tail.read(self.numbers.clear):
            self.numbers.append(number)
        return self.numbers


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lines.jsonl"


def test_only_new_complete_lines_are_read(path):
    follower = Follower(path)
    assert follower.read() == []
    path.write_text(text(1, 2) + '{"n": 3')
    assert follower.read() == [1, 2]
    seen = []
    follower.tail.parse = lambda line: seen.append(line["n"]) or line["n"]
    with path.open("a") as file:
        file.write("0}\n" + text(4))
    assert follower.read() == [1, 2, 30, 4] and seen == [30, 4]


def test_a_file_that_did_not_change_is_not_opened(path, monkeypatch):
    path.write_text(text(1))
    follower = Follower(path)
    follower.read()
    monkeypatch.setattr(type(path), "open", lambda *_: pytest.fail("it was opened"))
    assert follower.read() == [1]


@pytest.mark.parametrize("later", [text(1), text(1, 5), text(7, 8, 9), text(1, 5, 3, 4), ""])
def test_a_rewritten_file_is_read_again(path, later):
    path.write_text(text(1, 2, 3))
    follower = Follower(path)
    assert follower.read() == [1, 2, 3]
    path.write_text(later)
    assert follower.read() == [json.loads(line)["n"] for line in later.splitlines()]


def test_a_replaced_file_is_read_again(path):
    """A resumed run replaces its files, and their ends may be the same."""
    path.write_text(text(1, *range(500)))
    follower = Follower(path)
    follower.read()
    other = path.with_name("new")
    other.write_text(text(2, *range(500)))
    other.replace(path)
    assert follower.read() == [2, *range(500)]


def test_a_file_that_disappears_leaves_nothing(path):
    path.write_text(text(1))
    follower = Follower(path)
    assert follower.read() == [1]
    path.unlink()
    assert follower.read() == []
    path.write_text(text(2))
    assert follower.read() == [2]


def test_the_start_of_a_long_file_is_skipped(path):
    path.write_text(text(*range(1000, 2000)))
    follower = Follower(path, small=2000, keep=100)
    assert follower.read() == [*range(1992, 2000)], "100 bytes hold eight lines of 12 bytes"
    assert follower.tail.skipped == 992 * 12
    with path.open("a") as file:
        file.write(text(2000))
    assert follower.read() == [*range(1992, 2001)]


def test_at_least_one_line_is_read(path):
    path.write_text("".join(json.dumps({"n": 1, "x": "y" * 500}) + "\n" for _ in range(10)))
    assert Follower(path, small=2000, keep=16).read() == [1]


def test_a_short_file_is_read_completely(path):
    path.write_text(text(1, 2, 3))
    assert Follower(path, small=2000, keep=1).read() == [1, 2, 3]


def test_damaged_lines_raise_with_their_place(path):
    path.write_text(text(1) + "x\n")
    follower = Follower(path)
    for _ in range(2):
        with pytest.raises(UserError, match=r"line 2: .*remove the damaged line"):
            follower.read()
    assert follower.numbers == [1]
    path.write_text(text(*range(1000)) + "x\n")
    with pytest.raises(UserError, match=r"line \d+ after byte \d+"):
        Follower(path, small=2000, keep=100).read()

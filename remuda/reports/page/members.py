"""Find out which member each value of a round belongs to, and which members were lost."""

from collections.abc import Callable, Sequence
from typing import Any

from remuda.record.files import Line
from remuda.system.text import count as counted
from remuda.system.text import listed

DROP = "drop"  # the action after which lost members are missing in later rounds


class Members:
    """The members of a run by their ids, which do not change when others are lost.

    ``read_failures`` returns the lines of failures.jsonl. Members can also be missing without such
    a line, because rank 0 writes the file: then ``lost``, the setting run.lost, names them.
    """

    def __init__(self, read_failures: Callable[[], list[Line]], lost: Sequence[int] = ()):
        self.read_failures = read_failures
        self.lost = frozenset(lost)
        self.total = 0
        self.failures = read_failures()
        self._known: tuple[tuple[int, ...], Sequence[int]] | None = None

    def places(self, t: int, count: int) -> Sequence[int] | None:
        """Return the ids of the members in round t, which has ``count``; None if not known."""
        gone = self._gone(t)
        if not self.total:
            self.total = count + len(gone)
        found = self._present(gone)
        if len(found) != count:  # perhaps a failure was recorded only now
            self.failures = self.read_failures()
            gone = self._gone(t)
            found = self._present(gone)
        if len(found) > count:
            found = self._present(gone | self.lost)
        if len(found) < count:  # members joined
            self.total += count - len(found)
            found = self._present(gone)
        return found if len(found) == count else None

    def _gone(self, t: int) -> frozenset[int]:
        drops = (line for line in self.failures if line["action"] == DROP and line["round"] < t)
        return frozenset(member for line in drops for member in line["members"])

    def _present(self, gone: frozenset[int]) -> Sequence[int]:
        key = (self.total, *sorted(gone))
        if self._known is None or self._known[0] != key:
            self._known = key, [i for i in range(self.total) if i not in gone]
        return self._known[1]

    def losses(self) -> dict[int, dict[str, Any]]:
        """Return when and why members were lost, by their ids."""
        found: dict[int, dict[str, Any]] = {
            member: {"round": None, "why": "its rank was lost"} for member in self.lost
        }
        for line in self.failures:
            if line["action"] == DROP:
                hosts = listed(list(dict.fromkeys(line["hosts"])))
                why = f"{counted(len(line['ranks']), 'rank')} on {hosts} failed"
                found |= {m: {"round": line["round"], "why": why} for m in line["members"]}
        return found


def member_name(noun: str, member: int, classes: Sequence[str], width: int) -> str:
    """Return the name of a member; ``width`` is the number of columns of a grid of cells."""
    if noun == "class" and member < len(classes):
        return str(classes[member])
    if noun == "cell" and width:
        return f"row {member // width}, column {member % width}"
    return f"{noun} {member}"

"""Store facts about the training data, so that a model works without the data."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True, kw_only=True)
class DataFacts:
    """The content of data.json: everything that a model must know about its training data."""

    name: str
    shape: tuple[int, ...]  # channels, height, width
    classes: list[str]
    counts: list[int]  # number of images in each class
    skipped: int = 0  # broken files that data.skip_broken left out
    shares: list[int] = field(default_factory=list)  # images of each member; empty: not known

    @property
    def is_points(self) -> bool:
        """Whether the data are points in the plane instead of images."""
        return self.shape[1:] == (1, 1)

    def new_classes(self, other: "DataFacts") -> list[str]:
        """Return the classes that only the other data have."""
        return [name for name in other.classes if name not in self.classes]

    def difference(self, other: "DataFacts", is_part: bool, may_grow: bool = False) -> str:
        """Describe how other data differ from these; return "" if they do not.

        With ``is_part``, the other data may have fewer images, for example because lost ranks held
        part of the data. With ``may_grow``, they may have more classes, which follow these ones.
        """
        if self.shape != other.shape:
            return f"images of shape {list(other.shape)} instead of {list(self.shape)}"
        missing, new = other.new_classes(self), self.new_classes(other)
        parts = [f"without {_named(missing)}"] if missing else []
        parts += [f"with {_named(new)}"] if new and (missing or not may_grow) else []
        if parts:
            return " and ".join(parts)
        if other.classes[: len(self.classes)] != self.classes:
            return "with classes in another order"
        for name, before, now in zip(self.classes, self.counts, other.counts, strict=False):
            if before != now and not is_part:
                return f"{now} of class {name} instead of {before}"
        return ""


def _named(classes: list[str]) -> str:
    """Return text such as "the classes a, b, c, ..."; name at most three."""
    more = ", ..." if len(classes) > 3 else ""
    noun = "class" if len(classes) == 1 else "classes"
    return f"the {noun} {', '.join(classes[:3])}{more}"


def parse_facts(values: Any) -> DataFacts:
    """Check the content of data.json and return it as DataFacts."""
    if not isinstance(values, dict):
        raise TypeError("not a JSON object")
    missing = [name for name in ("name", "shape", "classes", "counts") if name not in values]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    names = [each.name for each in fields(DataFacts)]  # later versions may add others
    known = {name: values[name] for name in names if name in values}
    facts = DataFacts(**{**known, "shape": tuple(map(int, values["shape"]))})
    if not isinstance(facts.name, str) or len(facts.shape) != 3:
        raise ValueError("name is not text, or shape is not channels, height and width")
    if len(facts.classes) != len(facts.counts):
        raise ValueError("classes and counts differ in length")
    if not all(isinstance(count, int) for count in [*facts.counts, facts.skipped, *facts.shares]):
        raise ValueError("counts are not whole numbers")
    return facts


def as_table(facts: DataFacts) -> dict[str, Any]:
    """Return the content of data.json."""
    table = asdict(facts)
    if not facts.shares:
        del table["shares"]
    return table

"""What the doctor says: a line for each thing looked at."""

import re
from dataclasses import dataclass
from typing import Literal

OK, MISSING, FAILS = "ok", "missing", "would fail"


@dataclass(frozen=True)
class Finding:
    """State of one thing; where it is not ok, the text says what follows from that and what helps."""

    state: Literal["ok", "missing", "would fail"]
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.state:<12}{self.name:<12}{' '.join(self.text.split())}"


def shortened(text: str, length: int = 300) -> str:
    """In one line, without the rulers that MPI libraries frame their complaints with."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" -=*")]
    if any(line.startswith("Traceback") for line in lines):  # which ends with what it is about
        lines = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)][
            -1:
        ] or lines[-1:]
    words = " ".join(lines)
    return words if len(words) <= length else words[:length] + " ..."

"""The doctor's findings. Each check gives one line of output."""

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

OK, MISSING, FAILS = "ok", "missing", "would fail"


@dataclass(frozen=True)
class Finding:
    """The result of one check. If it is not ok, the text gives the consequence and the remedy."""

    state: Literal["ok", "missing", "would fail"]
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.state:<12}{self.name:<12}{' '.join(self.text.splitlines())}"


def shortened(text: str, length: int = 300) -> str:
    """Return a message on one line, without the dashed lines that MPI libraries print around it."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" -=*")]
    if any(line.startswith("Traceback") for line in lines):
        # The last line of a traceback names the error.
        errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
        lines = errors[-1:] or lines[-1:]
    words = " ".join(lines)
    return words if len(words) <= length else words[:length] + " ..."


def read_answer(output: str) -> dict[str, Any]:
    """Return the first JSON object in the output, or an empty dict if it contains none."""
    for line in output.splitlines():
        try:
            answer = json.loads(line)
        except ValueError:
            continue
        if isinstance(answer, dict):
            return answer
    return {}

"""Turn notebooks into Markdown, with the outputs that they contain."""

import html
import json
from typing import Any


def markdown(text: str) -> str:
    """Return a notebook, given as JSON, as a page."""
    cells = json.loads(text)["cells"]
    return "\n\n".join(part for cell in cells for part in _parts(cell)) + "\n"


def _parts(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    alt = cell["metadata"].get("alt", "")
    outputs = [_output(output, alt) for output in cell["outputs"]]
    return [f"```python\n{source}\n```", *filter(None, outputs)]


def _output(output: dict[str, Any], alt: str) -> str:
    """Return an output as a picture or as text."""
    data = output.get("data", {})
    if "image/png" in data:
        alt = html.escape(alt)
        encoded = "".join(data["image/png"]).replace("\n", "")
        return f'<img class="output" alt="{alt}" src="data:image/png;base64,{encoded}">'
    text = "".join(output.get("text") or data.get("text/plain", ""))
    block = f"```text\n{text.rstrip()}\n```"
    return f"````{{container}} no-copy output\n{block}\n````" if text else ""

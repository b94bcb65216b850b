"""Describe a completed round as a line of rounds.jsonl."""

import math
from pathlib import Path
from typing import Any

from remuda.errors import UserError
from remuda.record.files import Line
from remuda.record.rounds import is_metric
from remuda.system.memory import peak_bytes
from remuda.training.herd import Herd


def make_line(herd: Herd, t: int, values: dict[str, Any], seconds: float, images: int) -> Line:
    """Return the line of round t.

    ``values`` are the metrics of all members, and facts that are not metrics. ``images`` is the
    number of real images that all members have used so far.
    """
    traffic = herd.traffic()
    line = {
        "round": t,
        **values,
        "seconds": round(seconds, 4),
        "images": images,
        "images_per_second": round(herd.images_per_round / seconds, 1),
        "memory": peak_bytes(herd.engine.device),
        "bytes": sum(traffic.values()),
        "traffic": traffic,
        "verbs": {verb: round(spent, 4) for verb, spent in herd.engine.verbs.items()},
        "calls": dict(herd.engine.calls),
    }
    if routines := herd.routines():
        line["routines"] = routines
    return line


def refuse_divergence(herd: Herd, t: int, values: dict[str, Any], folder: Path) -> None:
    """Raise if a metric is infinite or NaN, unless its strategy expects that."""
    for name, numbers in values.items():
        if not is_metric(numbers) or name in herd.strategy.may_be_undefined:
            continue
        for member, number in zip(herd.member_ids, numbers, strict=True):
            if not math.isfinite(number):
                intact = f"; earlier checkpoints of {folder} are intact" if t > 1 else ""
                raise UserError(
                    f"{name} of member {member} became {number} in round {t}: lower the "
                    f"learning rates or change the loss with --set{intact}"
                )

"""Name scores after their protocol, and find the score that a user means."""

import difflib
from collections.abc import Mapping

from remuda.errors import UserError


def choose(wanted: str, names: Mapping[str, str]) -> str:
    """Return the only name that starts with the value of run.keep_best; raise if it is unclear.

    ``names`` maps the names of all scores to their better directions.
    """
    found = [name for name in names if name.startswith(wanted)]
    if wanted in names:  # it may be the beginning of others
        found = [wanted]
    if len(found) > 1:
        raise UserError(
            f"run.keep_best={wanted} fits several scores: choose one of {', '.join(found)}"
        )
    if not found:
        # Compare beginnings of equal length: users rarely type the whole name.
        starts = {name[: len(wanted)]: name for name in reversed(list(names))}
        (nearest,) = difflib.get_close_matches(wanted, starts, n=1, cutoff=0.0)
        raise UserError(
            f"run.keep_best={wanted} is not among the scores of this run, {', '.join(names)}: "
            f"choose one of them, for example {starts[nearest]}, or change scores.kinds, "
            "scores.samples or scores.reference"
        )
    if not names[found[0]]:
        raise UserError(
            f"run.keep_best={wanted} cannot be used, because it is not known whether higher or "
            f"lower values of {found[0]} are better: choose another score, or set better in its "
            "Kind"
        )
    return found[0]


def protocol_name(
    kind: str, num_samples: int, split: str, basis: str, num_classes: int = 0, origin: str = ""
) -> str:
    """Return a name such as fid_10k_train_inception: kind, samples, reference split, features.

    A part such as 5-classes is the number of classes if it is not 0. The last part is the origin
    of the reference, if it has several sites.
    """
    number = f"{num_samples // 1000}k" if num_samples % 1000 == 0 else str(num_samples)
    classes = ""
    if num_classes:
        classes = "1-class" if num_classes == 1 else f"{num_classes}-classes"
    return "_".join(part for part in (kind, number, split, basis, classes, origin) if part)

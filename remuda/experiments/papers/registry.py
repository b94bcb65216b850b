"""All tables and figures of the papers, by name."""

import re

from remuda.errors import UserError
from remuda.experiments.papers import cellular, class_parallel, md_gan, w_cgan
from remuda.experiments.papers.description import Paper, Result
from remuda.system.text import suggestion

PAPERS: tuple[Paper, ...] = tuple(
    module.PAPER for module in (cellular, md_gan, class_parallel, w_cgan)
)
RESULTS: dict[str, Result] = {
    result.name: result
    for module in (cellular, md_gan, class_parallel, w_cgan)
    for result in module.RESULTS
}
# Names, and the beginnings that stand for all parts of a figure.
NAMES = list(RESULTS | dict.fromkeys(re.sub(r"(-\d+)-\w+$", r"\1", name) for name in RESULTS))


def find(name: str) -> list[Result]:
    """Return the result with this name, or the parts of the figure with this name.

    ``md-gan-figure-3`` stands for its parts ``md-gan-figure-3-mlp``, ``-cnn`` and ``-cifar10``.
    """
    found = [one for key, one in RESULTS.items() if key == name or key.startswith(f"{name}-")]
    if not found or name not in NAMES:
        hint = suggestion(name, NAMES)
        if not hint.startswith("did you mean"):
            hint = "run remuda reproduce without a name to see all names"
        raise UserError(f"no table or figure is called {name!r}: {hint}")
    if found[0].form is None:
        raise UserError(
            f"{name} shows no result ({found[0].caption}), so there is nothing to reproduce: "
            "run remuda reproduce without a name to see the others"
        )
    return found

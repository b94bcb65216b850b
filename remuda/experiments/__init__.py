"""Studies over runs: repeats, cost estimates, scaling, traffic and mixtures.

    repeats = repeat(recipe("standalone-digits"), "runs/seeds", num_seeds=3)
    expected = measure(recipe("cellular-digits"))

The functions print nothing unless you pass a console. To follow a long study, pass ``notify=print``
or a ``Progress``.
"""

from typing import TYPE_CHECKING

from remuda.system.choices import lazy_exports

if TYPE_CHECKING:
    from remuda.experiments.bench import measure
    from remuda.experiments.checks import Outcome, check
    from remuda.experiments.expectation import Expectation
    from remuda.experiments.mixtures import optimise
    from remuda.experiments.repeats import Repeats, repeat
    from remuda.experiments.scaling import Scaling, scale
    from remuda.experiments.traffic import Setting, print_tables, setting_of

__all__ = [
    "Expectation",
    "Outcome",
    "Repeats",
    "Scaling",
    "Setting",
    "check",
    "measure",
    "optimise",
    "print_tables",
    "repeat",
    "scale",
    "setting_of",
]

# Importing PyTorch takes seconds, so each name is imported when it is first used.
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "bench": ["measure"],
        "checks": ["Outcome", "check"],
        "expectation": ["Expectation"],
        "mixtures": ["optimise"],
        "repeats": ["Repeats", "repeat"],
        "scaling": ["Scaling", "scale"],
        "traffic": ["Setting", "print_tables", "setting_of"],
    },
)

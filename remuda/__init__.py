"""Train GANs as a herd.

folder = remuda.run(remuda.recipe("class-parallel-digits"))
images = remuda.load(folder).sample(16, labels=3)
"""

from typing import TYPE_CHECKING

from remuda.errors import Interrupted, UserError
from remuda.system.choices import lazy_exports
from remuda.system.version import __version__

if TYPE_CHECKING:
    from remuda.config import RunConfig
    from remuda.data import DATASETS
    from remuda.engines import ENGINES, Engine, Stacked
    from remuda.experiments.repeats import repeat
    from remuda.gan import LOSSES
    from remuda.model.export.folder import export
    from remuda.model.loading import load
    from remuda.model.model import Model
    from remuda.model.pictures import save_grid
    from remuda.model.scoring import score
    from remuda.networks import NETWORKS
    from remuda.recipes import recipe
    from remuda.reports.compare import compare
    from remuda.strategies import STRATEGIES, Context, Strategy
    from remuda.training.assemble import assemble
    from remuda.training.progress import Progress
    from remuda.training.run import resume, run

__all__ = [
    "DATASETS",
    "ENGINES",
    "LOSSES",
    "NETWORKS",
    "STRATEGIES",
    "Context",
    "Engine",
    "Interrupted",
    "Model",
    "Progress",
    "RunConfig",
    "Stacked",
    "Strategy",
    "UserError",
    "__version__",
    "assemble",
    "compare",
    "export",
    "load",
    "recipe",
    "repeat",
    "resume",
    "run",
    "save_grid",
    "score",
]

# Importing PyTorch takes seconds, so each name is imported when it is first used.
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "config": ["RunConfig"],
        "data": ["DATASETS"],
        "engines": ["ENGINES", "Engine", "Stacked"],
        "experiments.repeats": ["repeat"],
        "gan": ["LOSSES"],
        "model.export.folder": ["export"],
        "model.loading": ["load"],
        "model.model": ["Model"],
        "model.pictures": ["save_grid"],
        "model.scoring": ["score"],
        "networks": ["NETWORKS"],
        "recipes": ["recipe"],
        "reports.compare": ["compare"],
        "strategies": ["STRATEGIES", "Context", "Strategy"],
        "training.assemble": ["assemble"],
        "training.progress": ["Progress"],
        "training.run": ["resume", "run"],
    },
)

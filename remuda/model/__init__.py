"""Trained models: load a run, sample it, score it, export it, and draw pictures.

model = load("runs/class-parallel-digits-001")
save_grid(model.sample(64), 8, Path("samples.png"))

Importing this package does not import PyTorch; using a name does.
"""

from typing import TYPE_CHECKING

from remuda.system.choices import lazy_exports

if TYPE_CHECKING:
    from remuda.model.export.folder import write_export
    from remuda.model.loading import load
    from remuda.model.model import Model
    from remuda.model.pictures import save_grid, to_picture
    from remuda.model.samples import draw_grid, write_grid, write_samples, write_walk
    from remuda.model.scoring import make_evaluator, score, score_model, score_round

__all__ = [
    "Model",
    "draw_grid",
    "load",
    "make_evaluator",
    "save_grid",
    "score",
    "score_model",
    "score_round",
    "to_picture",
    "write_export",
    "write_grid",
    "write_samples",
    "write_walk",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "export.folder": ["write_export"],
        "loading": ["load"],
        "model": ["Model"],
        "pictures": ["save_grid", "to_picture"],
        "samples": ["draw_grid", "write_grid", "write_samples", "write_walk"],
        "scoring": ["make_evaluator", "score", "score_model", "score_round"],
    },
)

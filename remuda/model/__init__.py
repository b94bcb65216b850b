"""Trained models: load a run, sample it, score it, and draw pictures.

model = load("runs/class-parallel-digits-001")
save_grid(model.sample(64), 8, Path("samples.png"))

Importing this package does not import PyTorch; using a name does.
"""

from typing import TYPE_CHECKING, Any

from remuda.system import choices

if TYPE_CHECKING:
    from remuda.model.model import Model, load
    from remuda.model.pictures import save_grid, to_picture
    from remuda.model.samples import write_grid, write_samples
    from remuda.model.scoring import make_evaluator, score, score_model, score_round

__all__ = [
    "Model",
    "load",
    "make_evaluator",
    "save_grid",
    "score",
    "score_model",
    "score_round",
    "to_picture",
    "write_grid",
    "write_samples",
]

_LAZY = {
    "Model": "remuda.model.model:Model",
    "load": "remuda.model.model:load",
    "make_evaluator": "remuda.model.scoring:make_evaluator",
    "save_grid": "remuda.model.pictures:save_grid",
    "score": "remuda.model.scoring:score",
    "score_model": "remuda.model.scoring:score_model",
    "score_round": "remuda.model.scoring:score_round",
    "to_picture": "remuda.model.pictures:to_picture",
    "write_grid": "remuda.model.samples:write_grid",
    "write_samples": "remuda.model.samples:write_samples",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return choices.load(_LAZY[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

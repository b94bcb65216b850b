"""Scores: compare generated images with real ones, and state the protocol in the name.

An ``Evaluator`` knows the real images and gives all scores of samples. The measures themselves are
plain functions of features. Importing this package does not import PyTorch; using a name does.
"""

from typing import TYPE_CHECKING, Any

from remuda.scores.base import FeatureExtractor, Features, Value
from remuda.scores.config import KINDS, ScoreConfig
from remuda.system.choices import load

if TYPE_CHECKING:
    from remuda.scores.balance import class_imbalance
    from remuda.scores.classes import (
        class_diversities,
        class_frechet_distances,
        class_kernel_distances,
    )
    from remuda.scores.classifier_score import inception_score
    from remuda.scores.evaluator import Evaluator
    from remuda.scores.features.extractor import find_extractor
    from remuda.scores.fid import frechet_distance
    from remuda.scores.gaussian import Gaussian
    from remuda.scores.kid import kernel_distance
    from remuda.scores.manifold import manifold_scores
    from remuda.scores.modes import mode_scores
    from remuda.scores.neighbours import copying

__all__ = [
    "KINDS",
    "Evaluator",
    "FeatureExtractor",
    "Features",
    "Gaussian",
    "ScoreConfig",
    "Value",
    "class_diversities",
    "class_frechet_distances",
    "class_imbalance",
    "class_kernel_distances",
    "copying",
    "find_extractor",
    "frechet_distance",
    "inception_score",
    "kernel_distance",
    "manifold_scores",
    "mode_scores",
]

_LAZY = {
    "Evaluator": "remuda.scores.evaluator:Evaluator",
    "Gaussian": "remuda.scores.gaussian:Gaussian",
    "class_diversities": "remuda.scores.classes:class_diversities",
    "class_frechet_distances": "remuda.scores.classes:class_frechet_distances",
    "class_imbalance": "remuda.scores.balance:class_imbalance",
    "class_kernel_distances": "remuda.scores.classes:class_kernel_distances",
    "copying": "remuda.scores.neighbours:copying",
    "find_extractor": "remuda.scores.features.extractor:find_extractor",
    "frechet_distance": "remuda.scores.fid:frechet_distance",
    "inception_score": "remuda.scores.classifier_score:inception_score",
    "kernel_distance": "remuda.scores.kid:kernel_distance",
    "manifold_scores": "remuda.scores.manifold:manifold_scores",
    "mode_scores": "remuda.scores.modes:mode_scores",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return load(_LAZY[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

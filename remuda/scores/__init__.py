"""Compare generated images with real ones; the name of each score states its protocol.

An ``Evaluator`` stores the real images and computes all scores of samples. The measures are plain
functions of features. Importing this package does not import PyTorch; using one of its names does.
"""

from typing import TYPE_CHECKING

from remuda.scores.base import FeatureExtractor, Features, Value
from remuda.scores.config import KINDS, ScoreConfig
from remuda.system.choices import lazy_exports

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
    from remuda.scores.kinds import Kind, Measure
    from remuda.scores.manifold import manifold_scores
    from remuda.scores.modes import mode_scores
    from remuda.scores.neighbours import copying

__all__ = [
    "KINDS",
    "Evaluator",
    "FeatureExtractor",
    "Features",
    "Gaussian",
    "Kind",
    "Measure",
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

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "balance": ["class_imbalance"],
        "classes": ["class_diversities", "class_frechet_distances", "class_kernel_distances"],
        "classifier_score": ["inception_score"],
        "evaluator": ["Evaluator"],
        "features.extractor": ["find_extractor"],
        "fid": ["frechet_distance"],
        "gaussian": ["Gaussian"],
        "kid": ["kernel_distance"],
        "kinds": ["Kind", "Measure"],
        "manifold": ["manifold_scores"],
        "modes": ["mode_scores"],
        "neighbours": ["copying"],
    },
)

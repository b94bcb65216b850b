"""Load data sets by name, and divide their images among the members."""

from typing import TYPE_CHECKING

from remuda.data.choices import DATASETS
from remuda.data.config import DataConfig, Split
from remuda.system.choices import lazy_exports

if TYPE_CHECKING:
    from remuda.data.batches import Batch, Batches
    from remuda.data.datasets import Dataset, load
    from remuda.data.images import to_bytes, to_unit
    from remuda.data.partitions import partition
    from remuda.data.statistics import oneway_anova, paper_anova, print_summary
    from remuda.data.synthetic import MODES, Modes

__all__ = [
    "DATASETS",
    "MODES",
    "Batch",
    "Batches",
    "DataConfig",
    "Dataset",
    "Modes",
    "Split",
    "load",
    "oneway_anova",
    "paper_anova",
    "partition",
    "print_summary",
    "to_bytes",
    "to_unit",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "batches": ["Batch", "Batches"],
        "datasets": ["Dataset", "load"],
        "images": ["to_bytes", "to_unit"],
        "partitions": ["partition"],
        "statistics": ["oneway_anova", "paper_anova", "print_summary"],
        "synthetic": ["MODES", "Modes"],
    },
)

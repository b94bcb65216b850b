"""Images for the members: data sets by name, and how members share them."""

from remuda.data.config import DataConfig, Split
from remuda.data.datasets import DATASETS, Dataset, load, to_bytes, to_unit
from remuda.data.partition import partition
from remuda.data.statistics import oneway_anova, paper_anova, print_summary
from remuda.data.synthetic import MODES, Modes

__all__ = [
    "DATASETS",
    "MODES",
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

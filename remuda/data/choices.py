"""The data sets by name; the functions that read them are imported when they are first used."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from remuda.system.choices import Choices

if TYPE_CHECKING:
    from remuda.data.config import DataConfig, Split
    from remuda.data.datasets import Dataset

DATASETS: Choices[Callable[["DataConfig", "Split"], "Dataset"]] = Choices(
    {
        "digits": "remuda.data.datasets:_digits",
        "mnist": "remuda.data.datasets:_mnist",
        "fashion-mnist": "remuda.data.datasets:_fashion_mnist",
        "cifar10": "remuda.data.datasets:_cifar10",
        "cifar100": "remuda.data.datasets:_cifar100",
        "ring": "remuda.data.datasets:_ring",
        "grid": "remuda.data.datasets:_grid",
    }
)

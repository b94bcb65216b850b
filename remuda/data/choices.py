"""Map the name of each data set to the function that loads it, imported on first use.

The function takes the settings and the split, and returns the data set. Add your own with
``DATASETS["name"] = function``.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from remuda.system.choices import Choices

if TYPE_CHECKING:
    from remuda.data.config import DataConfig, Split

DATASETS: Choices[Callable[["DataConfig", "Split"], Any]] = Choices(
    {
        "digits": "remuda.data.datasets:_digits",
        "mnist": "remuda.data.datasets:_mnist",
        "fashion-mnist": "remuda.data.datasets:_fashion_mnist",
        "cifar10": "remuda.data.datasets:_cifar10",
        "cifar100": "remuda.data.datasets:_cifar100",
        "ring": "remuda.data.datasets:_ring",
        "grid": "remuda.data.datasets:_grid",
    },
    group="remuda.datasets",
)

"""Number the classes of a data set in the order that the settings ask for."""

import numpy as np

from remuda.data.config import DataConfig
from remuda.errors import UserError


def arrange(
    labels: np.ndarray, classes: tuple[str, ...], config: DataConfig
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the labels and the names of the classes, with those of config.classes first."""
    if not config.classes:
        return labels, classes
    for name in config.classes:
        if name not in classes:
            raise UserError(
                f"{config.name} has no class {name}, but data.classes requires it: restore the "
                f"class under this name or, for a new run, remove {name} from data.classes"
            )
    order = (*config.classes, *(name for name in classes if name not in config.classes))
    numbers = np.array([order.index(name) for name in classes])
    return numbers[labels], order

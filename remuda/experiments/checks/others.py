"""Check losses and data sets."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from remuda.config import from_dict, override
from remuda.data import Dataset
from remuda.data.datasets import mistake
from remuda.experiments.checks.outcome import Outcome, run_all
from remuda.gan import Loss

# Outputs for 4 images each, between the values that discriminators usually learn.
REAL, FAKE, SHIFT = torch.linspace(0.0, 0.5, 4), torch.linspace(0.1, 0.6, 4), 0.1


def check_loss(loss: Loss) -> Iterator[Outcome]:
    """Yield the outcome of every check of a loss."""

    def of_discriminator(real: Tensor, fake: Tensor) -> Tensor:
        return loss.discriminator(real, fake, 1.0)

    def of_generator(fake: Tensor) -> Tensor:
        return loss.generator(fake, REAL) if loss.pairs else loss.generator(fake)

    def finite() -> str:
        for value in (of_discriminator(REAL, FAKE), of_generator(FAKE)):
            if value.shape != () or not value.isfinite():
                return "a loss must return one finite number, the mean over its images"
        return ""

    def directions() -> str:
        if of_discriminator(REAL + SHIFT, FAKE - SHIFT) >= of_discriminator(REAL, FAKE):
            return "the discriminator's loss does not fall if it separates the images better"
        if of_generator(FAKE + SHIFT) >= of_generator(FAKE):
            return "the generator's loss does not fall if its images look more real"
        return ""

    def stacked() -> str:
        rows = torch.stack([FAKE, 2 * FAKE])
        values = torch.func.vmap(torch.func.grad(of_generator))(rows)
        looped = torch.stack([torch.func.grad(of_generator)(row) for row in rows])
        return "" if torch.allclose(values, looped) else "gradients under vmap differ"

    yield from run_all(
        [
            ("both losses are finite numbers", finite),
            ("both losses fall in the right direction", directions),
            ("gradients in a loop and under vmap agree", stacked),
        ]
    )


def check_dataset(load: Callable[..., Any], settings: Sequence[str]) -> Iterator[Outcome]:
    """Yield the outcome of every check of a function that loads a data set."""
    config = from_dict(override({}, list(settings))).data
    data: Dataset | None = None

    def loads() -> str:
        nonlocal data
        found = load(config, "train")
        if problem := mistake(found):
            return f"the result of the function cannot be used, because {problem}"
        data = found
        return ""

    def repeats() -> str:
        assert data is not None
        again = load(config, "train")
        is_same = torch.equal(data.images, again.images) and torch.equal(data.labels, again.labels)
        return "" if is_same else "a second call gives other images or labels"

    def complete() -> str:
        assert data is not None
        empty = [name for name, count in zip(data.classes, data.counts, strict=True) if not count]
        return f"the class {empty[0]} has no images" if empty else ""

    outcomes = list(run_all([("the function returns a Dataset", loads)]))
    yield from outcomes
    if data is not None:
        yield from run_all(
            [("a second call gives the same images", repeats), ("no class is empty", complete)]
        )

"""Find out whether ``vmap`` can train several pairs of networks at once."""

import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from remuda.errors import UserError, is_user_error
from remuda.gan.checks import BATCH, ROLES
from remuda.gan.definition import Definition
from remuda.networks.inspection import Tracker
from remuda.tensors import calculus, random, trees


class Stacking(NamedTuple):
    """How well ``vmap`` trains several pairs at once."""

    problem: str = ""  # why it cannot: the layer, and PyTorch's words
    slow: tuple[str, ...] = ()  # operations that run for one member after the other

    def require(self, remedy: str) -> None:
        """Raise a UserError with this remedy if ``vmap`` cannot train these networks."""
        if self.problem:
            raise UserError(f"vmap cannot stack these networks ({self.problem}): {remedy}")

    def explain_slow(self) -> str:
        """Return a message if some operations are slow. It replaces PyTorch's own warnings."""
        if not self.slow:
            return ""
        warnings.filterwarnings("ignore", message="There is a performance drop")
        return (
            f"PyTorch cannot stack {', '.join(self.slow)} and runs one member after the other "
            "there; --set engine.layout=loop may be faster"
        )


def try_stacking(definition: Definition, step: Callable[..., Any]) -> Stacking:
    """Run a step of a GAN for two pairs with ``vmap``, on the CPU."""
    pairs = trees.stack([definition.init(key) for key in range(2)])
    key, batch = torch.tensor(random.key(0, "check")), BATCH * definition.penalty_every
    real = random.uniform(key, (2, 1, batch, *definition.shape)) * 2 - 1
    noise = random.normal(key, (2, 1, batch, definition.networks.latent))
    labels = (torch.arange(batch) % max(1, definition.num_classes)).expand(2, 1, batch)
    trackers = [Tracker(getattr(definition, role), role) for role in ROLES]
    with warnings.catch_warnings(record=True) as caught, trackers[0], trackers[1]:
        warnings.simplefilter("always")
        try:
            calculus.stacked(step)(pairs, real, labels, noise, key.expand(2, 1))
        except RuntimeError as error:
            if is_user_error(error):  # full memory
                raise
            # Only an error in forward leaves layers active; an error in backward does not.
            places = [each.active[-1][0] for each in trackers if len(each.active) > 1]
            place = f"in {places[0]}, " if places else ""
            return Stacking(place + _cause(str(error)))
    messages = [re.search(r"batching rule for (\S+)\.", str(each.message)) for each in caught]
    return Stacking(slow=tuple(sorted({found[1] for found in messages if found})))


def _cause(message: str) -> str:
    """Return the first sentence of PyTorch's message, or a clearer one."""
    if "data-dependent control flow" in message or "calling .item() on a Tensor" in message:
        return "forward turns a tensor into a Python value, as .item(), float(x) and `if x > 0` do"
    return " ".join(message.split()).partition(". ")[0].rstrip(".")

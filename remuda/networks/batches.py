"""Apply a network to several batches in one pass, as if to one after the other.

A discriminator processes real images and fakes, each with their own statistics. One pass over both
has half the operations of two passes. Our networks and layers have a class attribute
``num_batches``. If it is n, a layer regards its input as n batches of equal size. Layers that treat
every image separately ignore the number, but declare it: this says that they are correct.
"""

import copy

from torch import nn

# The classes of PyTorch that treat every image separately.
PER_IMAGE = (
    nn.Linear,
    nn.Conv2d,
    nn.Identity,
    nn.LeakyReLU,
    nn.ReLU,
    nn.Tanh,
    nn.ModuleList,
    nn.Sequential,
)


def for_batches(network: nn.Module, num_batches: int) -> nn.Module | None:
    """Return a copy of the network for this many batches per pass, or None if that is impossible.

    It is impossible if the network contains a module of an unknown class. The class itself must
    define ``num_batches``: a subclass can add layers that its parent does not know about.
    """
    joint = copy.deepcopy(network)
    for module in joint.modules():
        if "num_batches" in vars(type(module)):
            setattr(module, "num_batches", num_batches)  # noqa: B010  # ours, not PyTorch's
        elif type(module) not in PER_IMAGE:
            return None
    return joint

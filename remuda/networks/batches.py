"""Apply a network to several batches in one pass, as if to one after the other.

A discriminator processes real images and fakes, each with their own statistics. One pass over both
has half the operations of two passes. Most layers treat every image separately and need not know.
All other layers have a class attribute ``num_batches``. If it is n, the layer regards its input as
n batches of equal size. A network has this attribute too: it says that all of its batch-dependent
layers have it.
"""

import copy

from torch import nn

from remuda.networks import layers, r3gan_modules, resampling

# These treat every image separately.
PER_IMAGE = (
    nn.Linear,
    nn.Conv2d,
    nn.Identity,
    nn.LeakyReLU,
    nn.ReLU,
    nn.Tanh,
    nn.ModuleList,
    nn.Sequential,
    layers.Conv2d,
    resampling.Downsampling,
    r3gan_modules.Pointwise,
    r3gan_modules.GroupedConv2d,
    r3gan_modules.Block,
    r3gan_modules.DiscriminativeBasis,
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

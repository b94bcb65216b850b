"""Build pairs of plain ``nn.Module`` networks, which know nothing of losses and populations."""

from typing import TYPE_CHECKING

from remuda.system.choices import Choices, lazy_exports

if TYPE_CHECKING:
    from remuda.networks.acgan import ACGANMLP, ACGANCelebA, ACGANCifar10, ACGANMnist
    from remuda.networks.base import Networks, count_parameters
    from remuda.networks.dcgan import DCGAN, WCGAN
    from remuda.networks.layers import one_hot
    from remuda.networks.mlp import MLP
    from remuda.networks.r3gan import R3GAN
    from remuda.networks.resnet import SAGAN, ResNet
    from remuda.networks.streams import RandomStream
    from remuda.networks.wrapping import wrap

NETWORKS: Choices[type["Networks"]] = Choices(
    {
        "dcgan": "remuda.networks.dcgan:DCGAN",
        "wcgan": "remuda.networks.dcgan:WCGAN",
        "mlp": "remuda.networks.mlp:MLP",
        "acgan-mlp": "remuda.networks.acgan:ACGANMLP",
        "acgan-mnist": "remuda.networks.acgan:ACGANMnist",
        "acgan-cifar10": "remuda.networks.acgan:ACGANCifar10",
        "acgan-celeba": "remuda.networks.acgan:ACGANCelebA",
        "r3gan": "remuda.networks.r3gan:R3GAN",
        "resnet": "remuda.networks.resnet:ResNet",
        "sagan": "remuda.networks.resnet:SAGAN",
    },
    group="remuda.networks",
    base="remuda.networks.base:Networks",
)

__all__ = [
    "ACGANMLP",
    "DCGAN",
    "MLP",
    "NETWORKS",
    "R3GAN",
    "SAGAN",
    "WCGAN",
    "ACGANCelebA",
    "ACGANCifar10",
    "ACGANMnist",
    "Networks",
    "RandomStream",
    "ResNet",
    "count_parameters",
    "one_hot",
    "wrap",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "acgan": ["ACGANMLP", "ACGANCelebA", "ACGANCifar10", "ACGANMnist"],
        "base": ["Networks", "count_parameters"],
        "dcgan": ["DCGAN", "WCGAN"],
        "layers": ["one_hot"],
        "mlp": ["MLP"],
        "r3gan": ["R3GAN"],
        "resnet": ["SAGAN", "ResNet"],
        "streams": ["RandomStream"],
        "wrapping": ["wrap"],
    },
)

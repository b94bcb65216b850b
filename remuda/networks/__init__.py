"""Plain ``nn.Module`` pairs; they know neither losses nor populations."""

from remuda.networks.acgan import ACGANMLP, ACGANCelebA, ACGANCifar10, ACGANMnist
from remuda.networks.base import Networks, count_parameters
from remuda.networks.dcgan import DCGAN, WCGAN
from remuda.networks.mlp import MLP

NETWORKS: dict[str, type[Networks]] = {
    "dcgan": DCGAN,
    "wcgan": WCGAN,
    "mlp": MLP,
    "acgan-mlp": ACGANMLP,
    "acgan-mnist": ACGANMnist,
    "acgan-cifar10": ACGANCifar10,
    "acgan-celeba": ACGANCelebA,
}

__all__ = [
    "ACGANMLP",
    "DCGAN",
    "MLP",
    "NETWORKS",
    "WCGAN",
    "ACGANCelebA",
    "ACGANCifar10",
    "ACGANMnist",
    "Networks",
    "count_parameters",
]

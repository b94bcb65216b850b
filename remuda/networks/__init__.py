"""Plain ``nn.Module`` pairs; they know neither losses nor populations."""

from remuda.networks.base import Networks, count_parameters
from remuda.networks.dcgan import DCGAN, WCGAN
from remuda.networks.mlp import MLP

NETWORKS: dict[str, type[Networks]] = {"dcgan": DCGAN, "wcgan": WCGAN, "mlp": MLP}

__all__ = ["DCGAN", "MLP", "NETWORKS", "WCGAN", "Networks", "count_parameters"]

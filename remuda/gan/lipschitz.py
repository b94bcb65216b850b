"""Keep a critic Lipschitz by clipping weights or by spectral normalisation.

The third method, the gradient penalty, is part of the loss (see remuda.gan.objective).
"""

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.func import functional_call

from remuda.errors import UserError

PREFIX = "left_"  # names of singular vectors start with it


def clip(params: dict[str, Tensor], bound: float) -> dict[str, Tensor]:
    """Clamp every parameter to [-bound, bound], as in the original WGAN."""
    return {name: param.clamp(-bound, bound) for name, param in params.items()}


class SpectralNorm(nn.Module):
    """Divide every weight matrix of a network by its largest singular value (Miyato et al. 2018).

    The singular vectors are buffers; each call improves them by one power iteration. This
    wrapper works with any network. It does not divide tables, such as the gains of conditional
    BatchNorm, because they do not act as matrices: a module with ``is_embedding = True`` keeps its
    own parameters.
    """

    num_batches = 1  # see remuda.networks.batches
    # Two passes would run two power iterations, and one pass over both batches runs one. There is
    # always one pass, so that all devices compute the same values.
    joins_always = True

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network
        kept = {
            f"{prefix}.{name}" if prefix else name
            for prefix, module in network.named_modules()
            if getattr(module, "is_embedding", False)
            for name, _ in module.named_parameters(recurse=False)
        }
        # The names of all matrices, by their shape. Matrices of one shape are normalised together:
        # a network has many small ones, and on a GPU the number of operations counts.
        self.groups: dict[tuple[int, int], list[str]] = defaultdict(list)
        for name, weight in network.named_parameters():
            if weight.ndim > 1 and name not in kept:
                if not weight.any():
                    raise UserError(
                        f"spectral normalisation cannot divide the weights of {name}, because they "
                        "start at 0: set strategy.lipschitz=auto or networks.name=resnet"
                    )
                self.groups[weight.shape[0], weight[0].numel()].append(name)
                vector = torch.randn(weight.shape[0])
                self.register_buffer(_buffer_name(name), vector / vector.norm())
        # A vector belongs to the same group of layers as its matrix: see remuda.networks.groups.
        self.follows = {
            _buffer_name(name): name for names in self.groups.values() for name in names
        }

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        weights, normalised = dict(self.network.named_parameters()), {}
        for names in self.groups.values():
            matrices = torch.stack([weights[name].flatten(1) for name in names])
            divided = matrices / self._largest_singular_values(names, matrices)[:, None, None]
            for name, matrix in zip(names, divided.unbind(), strict=True):
                normalised[name] = matrix.reshape(weights[name].shape)
        return functional_call(self.network, normalised, (inputs, labels))

    def _largest_singular_values(self, names: list[str], matrices: Tensor) -> Tensor:
        """Return one number per matrix (n, rows, columns), and improve the singular vectors."""
        buffers = [getattr(self, _buffer_name(name)) for name in names]
        with torch.no_grad():  # gradients treat singular vectors as constants
            fixed = matrices.detach()
            right = _unit(_products(fixed.mT, torch.stack(buffers)))
            left = _unit(_products(fixed, right))
            for buffer, vector in zip(buffers, left.unbind(), strict=True):
                buffer.copy_(vector)
        return (_products(matrices, right) * left).sum(1)


def _products(matrices: Tensor, vectors: Tensor) -> Tensor:
    """Multiply each matrix (n, rows, columns) by its vector (n, columns)."""
    if torch.compiler.is_dynamo_compiling():
        # A sum stays in full precision and becomes part of a larger operation.
        return (matrices * vectors[:, None]).sum(2)
    return (matrices @ vectors[:, :, None])[:, :, 0]


def vector_names(buffers: Iterable[str]) -> set[str]:
    """Return those of these names that belong to singular vectors."""
    return {name for name in buffers if name.rpartition(".")[2].startswith(PREFIX)}


def _buffer_name(parameter: str) -> str:
    return PREFIX + parameter.replace(".", "_")


def _unit(vectors: Tensor) -> Tensor:
    return vectors / (vectors.norm(dim=1, keepdim=True) + 1e-12)

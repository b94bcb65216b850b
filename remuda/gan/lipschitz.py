"""Keep a critic Lipschitz by clipping weights or by spectral normalisation.

The third method, the gradient penalty, is part of the loss (see remuda.gan.objective).
"""

import torch
from torch import Tensor, nn
from torch.func import functional_call

from remuda.errors import UserError


def clip(params: dict[str, Tensor], bound: float) -> dict[str, Tensor]:
    """Clamp every parameter to [-bound, bound], as in the original WGAN."""
    return {name: param.clamp(-bound, bound) for name, param in params.items()}


class SpectralNorm(nn.Module):
    """Divide every weight matrix of a network by its largest singular value (Miyato et al. 2018).

    The singular vectors are buffers; each call improves them by one power iteration. This
    wrapper works with any network.
    """

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network
        for name, weight in network.named_parameters():
            if weight.ndim > 1:
                if not weight.any():
                    raise UserError(
                        f"spectral normalisation cannot divide the weights of {name}, because they "
                        "start at 0: set strategy.lipschitz=none or networks.name=wcgan"
                    )
                vector = torch.randn(weight.shape[0])
                self.register_buffer(_buffer_name(name), vector / vector.norm())

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        normalised = {
            name: weight / self._largest_singular_value(name, weight) if weight.ndim > 1 else weight
            for name, weight in self.network.named_parameters()
        }
        return functional_call(self.network, normalised, (images, labels))

    def _largest_singular_value(self, name: str, weight: Tensor) -> Tensor:
        matrix = weight.flatten(1)
        left = getattr(self, _buffer_name(name))
        with torch.no_grad():  # gradients treat singular vectors as constants
            fixed = matrix.detach()
            right = _unit(fixed.T @ left)
            improved = _unit(fixed @ right)
            left.copy_(improved)
        return torch.dot(improved, matrix @ right)


def vector_names(network: nn.Module) -> set[str]:
    """Return the names of the singular vectors among a network's buffers."""
    wrappers = [
        (name, module)
        for name, module in network.named_modules()
        if isinstance(module, SpectralNorm)
    ]
    return {
        f"{name}.{buffer}" if name else buffer
        for name, wrapper in wrappers
        for buffer, _ in wrapper.named_buffers(recurse=False)
    }


def _buffer_name(parameter: str) -> str:
    return "left_" + parameter.replace(".", "_")


def _unit(vector: Tensor) -> Tensor:
    return vector / (vector.norm() + 1e-12)

"""List the layers of a pair of networks in tables, with output shapes and parameters."""

import torch
from rich.table import Table
from torch import nn

from remuda.networks.base import Networks, count_parameters
from remuda.system import look
from remuda.system.pytorch import own_random_state


def tables(networks: Networks, shape: tuple[int, ...], num_classes: int) -> list[Table]:
    """Return one table for the generator and one for the discriminator."""
    with own_random_state():
        generator = networks.generator(shape, num_classes)
        discriminator = networks.discriminator(shape, num_classes)
    labels = torch.zeros(2, dtype=torch.int64)
    return [
        _table("generator", generator, torch.zeros(2, networks.latent), labels),
        _table("discriminator", discriminator, torch.zeros(2, *shape), labels),
    ]


def _table(title: str, network: nn.Module, *inputs: torch.Tensor) -> Table:
    title = f"{title}: {count_parameters(network):,} parameters"
    table = look.table("layer", "output", "parameters", right=["parameters"], title=title)

    def report(module: nn.Module, _: object, output: torch.Tensor | list[torch.Tensor]) -> None:
        text = repr(module) if len(repr(module)) < 60 else type(module).__name__
        outputs = [output] if torch.is_tensor(output) else output
        shapes = [" x ".join(map(str, tensor.shape[1:])) for tensor in outputs]
        table.add_row(text, "\n".join(shapes), f"{count_parameters(module):,}")

    leaves = [module for module in network.modules() if not list(module.children())]
    hooks = [module.register_forward_hook(report) for module in leaves]
    with torch.no_grad():
        network(*inputs)
    for hook in hooks:
        hook.remove()
    return table

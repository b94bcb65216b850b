"""Compiled networks compute the same outputs as uncompiled ones, member by member.

tests/engines/test_compiled_steps.py compares whole training steps. If one of its cases fails, this
file tells which player computes other outputs.
"""

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from remuda.engines.programs import OPTIONS, patch_compiler
from remuda.networks import NETWORKS
from tests.engines.test_compiled_steps import BATCH, LARGER, MEMBERS, SHAPE
from tests.engines.test_programs import DEVICE, LONG_ON_A_CPU
from tests.networks.small import small, without_zeros

LABELS = torch.arange(MEMBERS)[:, None].expand(MEMBERS, BATCH)


@LONG_ON_A_CPU
@pytest.mark.parametrize("player", ["generator", "discriminator"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_compiled_network_equals_the_uncompiled_one(name, player):
    networks, latent = small(name, **LARGER.get(name, {})), 5
    torch.manual_seed(0)
    members = [getattr(networks, player)(SHAPE, MEMBERS).to(DEVICE).eval() for _ in range(MEMBERS)]
    params, buffers = stack_module_state(members)
    params = without_zeros({name: value.detach() for name, value in params.items()})
    shape = (latent,) if player == "generator" else SHAPE
    inputs = torch.randn(MEMBERS, BATCH, *shape).to(DEVICE)

    def forward(params, buffers, inputs, labels):
        return functional_call(members[0], (params, buffers), (inputs, labels))

    stacked, labels = vmap(forward), LABELS.to(DEVICE)
    patch_compiler()
    torch._dynamo.reset()  # the compiler accepts a code object only eight times
    compiled = torch.compile(stacked, fullgraph=True, dynamic=False, options=OPTIONS)
    with torch.no_grad():
        found = compiled(params, buffers, inputs, labels)
        wanted = stacked(params, buffers, inputs, labels)
    found, wanted = (out if isinstance(out, tuple) else (out,) for out in (found, wanted))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)

from functools import partial

import pytest
import torch

from remuda.gan.optimizers import Adam
from remuda.tensors import trees

ADAM = Adam(0.1, 0.5, 0.9)


def test_first_steps_by_hand():
    """The bias correction makes the first step lr * sign(gradient)."""
    params = {"w": torch.tensor([1.0, -2.0])}
    gradients = {"w": torch.tensor([0.3, -5.0])}
    after, moments = ADAM.step(params, gradients, ADAM.init(params))
    assert torch.allclose(after["w"], torch.tensor([0.9, -1.9]))
    assert torch.allclose(moments.first["w"], 0.5 * gradients["w"])
    assert torch.allclose(moments.second["w"], 0.1 * gradients["w"] ** 2)
    assert moments.steps == 1


@pytest.mark.parametrize("lr", [0.1, torch.tensor(0.1)], ids=["number", "tensor"])
@pytest.mark.parametrize("path", ["_formulas", "_fused"])
def test_both_paths_equal_torch(path, lr):
    torch.manual_seed(0)
    params = {"w": torch.randn(4, 3, 2, 2), "b": torch.randn(5), "s": torch.randn(())}
    theirs = {name: param.clone().requires_grad_() for name, param in params.items()}
    optimizer = torch.optim.Adam(theirs.values(), 0.1, (0.5, 0.9))
    moments = ADAM.init(params)
    for _ in range(5):
        # transposed memory, as the gradients of some layers are
        gradients = {name: torch.randn(param.shape) for name, param in params.items()}
        gradients["w"] = torch.randn(2, 2, 3, 4).permute(3, 2, 1, 0)
        for name, param in theirs.items():
            param.grad = gradients[name].clone()
        optimizer.step()
        params, moments = getattr(ADAM, path)(params, gradients, moments, lr)
    for name in params:
        assert torch.allclose(params[name], theirs[name], atol=1e-6), name


def test_arguments_are_left_alone():
    params = {"w": torch.ones(3)}
    moments = ADAM.init(params)
    ADAM.step(params, {"w": torch.ones(3)}, moments)
    assert (
        params["w"].tolist() == [1, 1, 1] and moments.steps == 0 and moments.first["w"].sum() == 0
    )


def test_a_rate_in_place_of_its_own():
    params, gradients = {"w": torch.tensor([1.0, -2.0])}, {"w": torch.tensor([0.3, -5.0])}
    after, _ = ADAM.step(params, gradients, ADAM.init(params), torch.tensor(0.5))
    assert torch.allclose(after["w"], torch.tensor([0.5, -1.5]))


@pytest.mark.parametrize("stacked", [False, True])
def test_changing_betas_equal_torch(stacked):
    """Corrections use the current betas, as in torch.optim.Adam; a beta may be 0."""
    torch.manual_seed(0)
    params = {"w": torch.randn(2, 3)}
    theirs = params["w"].clone().requires_grad_()
    optimizer = torch.optim.Adam([theirs], 0.1, (0.5, 0.9))
    moments = ADAM.init(params)
    if stacked:
        params, moments = trees.stack([params] * 2), trees.stack([moments] * 2)
    for betas in [(0.5, 0.9), (0.4, 0.95), (0.0, 0.99), (0.0, 0.99)]:
        theirs.grad = torch.randn(2, 3)
        optimizer.param_groups[0]["betas"] = betas
        optimizer.step()
        step = partial(ADAM.step, betas=torch.tensor(betas))
        if stacked:
            gradients = {"w": theirs.grad.expand(2, -1, -1)}
            params, moments = torch.func.vmap(step)(params, gradients, moments)
        else:
            params, moments = step(params, {"w": theirs.grad}, moments)
    assert torch.allclose(params["w"], theirs.detach().expand_as(params["w"]), atol=1e-6)

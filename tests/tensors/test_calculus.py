import torch

from remuda.tensors import calculus

X = {"w": torch.tensor([1.0, 2.0]), "b": torch.tensor(3.0)}


def cubic(x):
    value = (x["w"] ** 3).sum() * x["b"]
    return value, {"seen": x["w"] * 2}


def test_value_and_grad_by_hand():
    value, aux, gradient = calculus.value_and_grad(cubic, X)
    assert value == 27.0
    assert gradient["w"].tolist() == [9.0, 36.0] and gradient["b"] == 9.0
    assert aux["seen"].tolist() == [2.0, 4.0] and not aux["seen"].requires_grad


def test_vjp_by_hand():
    y, _, pull = calculus.vjp(lambda x: (x["w"] * x["b"], {}), X)
    assert y.tolist() == [3.0, 6.0]
    gradient = pull(torch.tensor([1.0, 10.0]))
    assert gradient["w"].tolist() == [3.0, 30.0] and gradient["b"] == 21.0


def test_slope_can_be_differentiated_again():
    def squared_slope(scale):
        gradient = calculus.gradient(lambda x: (scale * x**2).sum(), torch.tensor([1.0, 2.0]))
        return gradient.square().sum(), {}

    value, _, gradient = calculus.value_and_grad(squared_slope, torch.tensor(3.0))
    assert value == 4 * 9 * 5 and gradient == 2 * 4 * 3 * 5


def test_the_same_under_vmap():
    rows = {"w": torch.tensor([[1.0, 2.0], [0.5, -1.0]]), "b": torch.tensor([3.0, 2.0])}
    values, aux, gradients = torch.func.vmap(lambda x: calculus.value_and_grad(cubic, x))(rows)
    for i in range(2):
        value, one_aux, gradient = calculus.value_and_grad(
            cubic, {k: v[i] for k, v in rows.items()}
        )
        assert values[i] == value and torch.equal(aux["seen"][i], one_aux["seen"])
        assert all(torch.allclose(gradients[k][i], gradient[k]) for k in gradient)


def test_vjp_and_second_slopes_under_vmap():
    def member(x, y):
        image, _, pull = calculus.vjp(lambda p: (p * x, {}), y)
        penalty, _, gradient = calculus.value_and_grad(
            lambda p: (calculus.gradient(lambda v: (p * v**2).sum(), x).square().sum(), {}), y
        )
        return image, pull(torch.ones_like(image)), penalty, gradient

    x, y = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([2.0, 5.0])
    stacked = torch.func.vmap(member)(x, y)
    for i in range(2):
        for together, single in zip(stacked, member(x[i], y[i]), strict=True):
            assert torch.allclose(together[i], single)

"""Implement Adam as a pure function of parameters, gradients and moments."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from remuda.tensors.calculus import transformed


class Moments(NamedTuple):
    """Adam's running means of the gradient and of its square, and the number of updates."""

    first: dict[str, Tensor]
    second: dict[str, Tensor]
    steps: Tensor  # scalar; float32, as the fused kernel requires


@dataclass(frozen=True)
class Adam:
    """The optimizer of Kingma and Ba 2015, without weight decay."""

    lr: float
    beta1: float
    beta2: float
    epsilon: float = 1e-8

    def init(self, params: dict[str, Tensor]) -> Moments:
        """Return the moments before the first update: zeros."""
        zeros = {name: torch.zeros_like(param) for name, param in params.items()}
        return Moments(zeros, {name: zero.clone() for name, zero in zeros.items()}, torch.zeros(()))

    def step(
        self,
        params: dict[str, Tensor],
        gradients: dict[str, Tensor],
        moments: Moments,
        lr: Tensor | None = None,  # scalar; overrides the optimizer's learning rate
        betas: Tensor | None = None,  # (2,); overrides the optimizer's betas
    ) -> tuple[dict[str, Tensor], Moments]:
        """Return parameters and moments after one update; do not modify the arguments.

        The bias corrections are those of the current betas, as in ``torch.optim.Adam``.
        """
        if not gradients:
            return {}, moments._replace(steps=moments.steps + 1)
        rate = self.lr if lr is None else lr
        if betas is None and not transformed():
            return self._fused(params, gradients, moments, rate)
        return self._formulas(params, gradients, moments, rate, betas)

    def _formulas(
        self,
        params: dict[str, Tensor],
        gradients: dict[str, Tensor],
        moments: Moments,
        lr: float | Tensor,
        betas: Tensor | None = None,
    ) -> tuple[dict[str, Tensor], Moments]:
        """Update with plain formulas, which ``vmap`` and compilers can transform."""
        beta1, beta2 = (self.beta1, self.beta2) if betas is None else betas.unbind()
        count = moments.steps + 1
        # Each correction is 1 - beta ** count. Computing both as scalars minimises the
        # arithmetic per parameter.
        correction1 = -torch.expm1(count * _log(beta1))
        correction2 = -torch.expm1(count * _log(beta2))
        root = torch.sqrt(correction2)
        rate, epsilon = lr * root / correction1, self.epsilon * root
        first, second, updated = {}, {}, {}
        for name, gradient in gradients.items():
            first[name] = beta1 * moments.first[name] + (1 - beta1) * gradient
            square = gradient * gradient
            second[name] = beta2 * moments.second[name] + (1 - beta2) * square
            updated[name] = params[name] - rate * first[name] / (torch.sqrt(second[name]) + epsilon)
        return updated, Moments(first, second, count)

    def _fused(
        self,
        params: dict[str, Tensor],
        gradients: dict[str, Tensor],
        moments: Moments,
        lr: float | Tensor,
    ) -> tuple[dict[str, Tensor], Moments]:
        """Call PyTorch's one-pass kernel on copies.

        Outside ``vmap``, the kernel takes a third of the time of the formulas.
        """
        names = list(gradients)
        updated, first, second = (
            [tree[name].clone() for name in names]
            for tree in (params, moments.first, moments.second)
        )
        count = moments.steps + 1
        torch._fused_adam_(  # pyright: ignore[reportPrivateImportUsage]
            updated,
            [gradients[name].contiguous() for name in names],  # the kernel reads raw memory
            first,
            second,
            [],
            [count] * len(names),
            lr=lr,
            beta1=self.beta1,
            beta2=self.beta2,
            weight_decay=0.0,
            eps=self.epsilon,
            amsgrad=False,
            maximize=False,
        )
        params, first, second = (
            dict(zip(names, tensors, strict=True)) for tensors in (updated, first, second)
        )
        return params, Moments(first, second, count)


def _log(beta: float | Tensor) -> float | Tensor:
    if isinstance(beta, Tensor):
        return torch.log(beta)
    return math.log(beta) if beta else -math.inf

"""The Kullback-Leibler divergence of a document's code from the prior, in closed form (eq:kl)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus


def bernoulli_kl(logits: Tensor, prior: Tensor) -> Tensor:
    """KL(Bernoulli(sigmoid(psi)) || Bernoulli(gamma)), summed over bits: (documents,).

    ``prior`` is gamma, a number or one for each bit, between 0 and 1.
    """
    apply: Callable[[Tensor, Tensor], Tensor] = _BernoulliKL.apply
    return apply(logits, prior)


class _BernoulliKL(torch.autograd.Function):
    """Value and gradient as one node: a chain of small ones takes longer to follow than to compute."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, prior: Tensor) -> Tensor:
        p = torch.sigmoid(logits)
        further = logits - torch.logit(prior)  # psi - logit(gamma)
        ctx.save_for_backward(p, further)
        # log p = psi - softplus(psi) and log(1 - p) = -softplus(psi)
        return (p * further - softplus(logits) - torch.log1p(-prior)).sum(dim=1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        p, further = ctx.saved_tensors
        return grad[:, None] * (p * (1 - p) * further), None

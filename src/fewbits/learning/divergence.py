"""The Kullback-Leibler divergence of a document's code from the prior, in closed form (eq:kl)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus


def bernoulli_kl(logits: Tensor, prior: Tensor) -> Tensor:
    """KL(Bernoulli(sigmoid(psi)) || Bernoulli(gamma)), summed over bits: (documents,).

    ``prior`` is gamma, a number or one for each bit, between 0 and 1.
    """
    p = torch.sigmoid(logits)
    # log p = psi - softplus(psi) and log(1 - p) = -softplus(psi)
    return (p * (logits - torch.logit(prior)) - softplus(logits) - torch.log1p(-prior)).sum(dim=1)

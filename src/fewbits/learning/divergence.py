"""The Kullback-Leibler divergence of a document's code from the prior, in closed form (eq:kl)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def bernoulli_kl(logits: Tensor, prior: Tensor) -> Tensor:
    """KL(Bernoulli(sigmoid(psi)) || Bernoulli(gamma)), summed over bits: (documents,).

    ``prior`` is gamma, a number or one for each bit, between 0 and 1.
    """
    p = torch.sigmoid(logits)
    ones = p * (logsigmoid(logits) - prior.log())
    zeros = (1 - p) * (logsigmoid(-logits) - torch.log1p(-prior))
    return (ones + zeros).sum(dim=1)

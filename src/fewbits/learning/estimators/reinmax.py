"""ReinMax: straight-through with second-order accuracy."""

from __future__ import annotations

import torch
from torch import Tensor

from fewbits.learning.estimators.base import CodeLoss, GradientEstimator, uniform_like


class ReinMax(GradientEstimator):
    """f'(z) [2 p'(1 - p') - 1/2 p(1 - p)] with p' = (p + z) / 2; biased.

    L. Liu, C. Dong, X. Liu, B. Yu, J. Gao. Bridging discrete and backpropagation: straight-through and beyond. NeurIPS
    2023.
    """

    name = "reinmax"
    is_unbiased = False

    def __call__(self, logits: Tensor, loss: CodeLoss, generator: torch.Generator | None = None) -> Tensor:
        """Losses with the ReinMax gradient."""
        p = torch.sigmoid(logits).detach()
        codes = (uniform_like(logits, generator) < p).to(logits.dtype)
        middle = (p + codes) / 2
        slope = 2 * middle * (1 - middle) - 0.5 * p * (1 - p)
        return loss(codes + slope * (logits - logits.detach()))  # the code forward, its slope backward

"""REINFORCE with two samples, each the other's baseline."""

from __future__ import annotations

import torch
from torch import Tensor

from fewbits.learning.estimators.base import CodeLoss, GradientEstimator, attach, losses_of_both, uniform_like


class LeaveOneOut(GradientEstimator):
    """1/2 (f(z) - f(z')) (z - z') for two independent codes.

    W. Kool, H. van Hoof, M. Welling. Buy 4 REINFORCE samples, get a baseline for free! ICLR workshop 2019.
    """

    name = "leave-one-out"
    is_unbiased = True

    def __call__(self, logits: Tensor, loss: CodeLoss, generator: torch.Generator | None = None) -> Tensor:
        """Losses with the leave-one-out gradient."""
        p = torch.sigmoid(logits)
        first = (uniform_like(logits, generator) < p).to(logits.dtype)
        second = (uniform_like(logits, generator) < p).to(logits.dtype)
        one, other = losses_of_both(loss, first, second)
        gradient = 0.5 * (one - other).detach()[:, None] * (first - second)
        return attach(one, logits, gradient)

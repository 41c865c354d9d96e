"""Straight-through: backwards, drawing a bit counts as the identity."""

from __future__ import annotations

import torch
from torch import Tensor

from fewbits.learning.estimators.base import CodeLoss, GradientEstimator, uniform_like


class StraightThrough(GradientEstimator):
    """z' = stop(z - p) + p; biased, and the loss must be differentiable in the code."""

    name = "straight-through"
    is_unbiased = False

    def __call__(self, logits: Tensor, loss: CodeLoss, generator: torch.Generator | None = None) -> Tensor:
        """Losses with the straight-through gradient."""
        p = torch.sigmoid(logits)
        codes = (uniform_like(logits, generator) < p).to(logits.dtype)
        return loss((codes - p).detach() + p)

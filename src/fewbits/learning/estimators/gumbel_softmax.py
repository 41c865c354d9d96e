"""Gumbel-Softmax for bits: hard forward, relaxed backward."""

from __future__ import annotations

import torch
from torch import Tensor

from fewbits.learning.estimators.base import CodeLoss, GradientEstimator, uniform_like


class GumbelSoftmax(GradientEstimator):
    """z = step(g + psi) with logistic g; backwards h = sigmoid((g + psi) / tau). Biased.

    The temperature tau starts at 1 and is multiplied by 0.96 each epoch down to 0.1 (section 4.2).
    """

    name = "gumbel-softmax"
    is_unbiased = False

    def __init__(self, temperature: float = 1.0, decay: float = 0.96, lowest: float = 0.1) -> None:
        self.start = self.temperature = temperature
        self.decay = decay
        self.lowest = lowest

    def __call__(self, logits: Tensor, loss: CodeLoss, generator: torch.Generator | None = None) -> Tensor:
        """Losses with the Gumbel-Softmax gradient."""
        u = uniform_like(logits, generator).clamp(1e-6, 1 - 1e-6)
        noisy = u.log() - torch.log1p(-u) + logits  # g + log pi_k
        relaxed = torch.sigmoid(noisy / self.temperature)  # h
        codes = (noisy > 0).to(logits.dtype)
        return loss((codes - relaxed).detach() + relaxed)

    def begin_epoch(self, epoch: int) -> None:
        """Lower the temperature."""
        self.temperature = max(self.lowest, self.start * self.decay**epoch)

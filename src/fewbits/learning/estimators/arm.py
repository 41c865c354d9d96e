"""ARM: augment, REINFORCE, merge (eq:arm)."""

from __future__ import annotations

import torch
from torch import Tensor

from fewbits.learning.estimators.base import (
    CodeLoss,
    GradientEstimator,
    antithetic_codes,
    attach,
    losses_of_both,
    uniform_like,
)


class ARM(GradientEstimator):
    """(f(1[u > sigmoid(-psi)]) - f(1[u < sigmoid(psi)])) (u - 1/2), two correlated codes from one u."""

    name = "arm"
    is_unbiased = True

    def __call__(self, logits: Tensor, loss: CodeLoss, generator: torch.Generator | None = None) -> Tensor:
        """Losses with the gradient of eq:arm."""
        u = uniform_like(logits, generator)
        first, second = antithetic_codes(logits, u)
        ahead, behind = losses_of_both(loss, first, second)
        gradient = (ahead - behind).detach()[:, None] * (u - 0.5)
        return attach(ahead, logits, gradient)

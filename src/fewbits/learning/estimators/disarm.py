"""DisARM (also U2G): ARM's mean given its two codes."""

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


class DisARM(GradientEstimator):
    """1/2 (f(z1) - f(z2)) (-1)^z2 1[z1 != z2] sigmoid(|psi|): the noise of u beyond the codes is averaged out.

    Z. Dong, A. Mnih, G. Tucker. DisARM: an antithetic gradient estimator for binary latent variables. NeurIPS 2020.
    """

    name = "disarm"
    is_unbiased = True

    def __call__(self, logits: Tensor, loss: CodeLoss, generator: torch.Generator | None = None) -> Tensor:
        """Losses with the DisARM gradient."""
        u = uniform_like(logits, generator)
        first, second = antithetic_codes(logits, u)
        ahead, behind = losses_of_both(loss, first, second)
        # first - second is (-1)^z2 where the codes differ, and 0 elsewhere
        gradient = 0.5 * (ahead - behind).detach()[:, None] * (first - second) * torch.sigmoid(logits.abs())
        return attach(ahead, logits, gradient)

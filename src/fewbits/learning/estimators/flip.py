"""The local expectation gradient: every bit's own two values, the others as drawn."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from fewbits.learning.estimators.base import CodeLoss, GradientEstimator, attach, uniform_like


@runtime_checkable
class FlipLoss(Protocol):
    """A loss that knows in closed form what flipping a bit would change."""

    def with_flips(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Losses (documents,) and their change for each flipped bit (documents, bits)."""


class Flip(GradientEstimator):
    """p (1 - p) (f(z_k = 1) - f(z_k = 0)) from one code.

    Decoder and classifier give all flips in closed form; any other function is evaluated once for each bit.

    M. Titsias, M. Lázaro-Gredilla. Local expectation gradients for black box variational inference. NeurIPS 2015.
    """

    name = "flip"
    is_unbiased = True

    def __call__(self, logits: Tensor, loss: CodeLoss, generator: torch.Generator | None = None) -> Tensor:
        """Losses with the local expectation gradient."""
        p = torch.sigmoid(logits)
        codes = (uniform_like(logits, generator) < p).detach().to(logits.dtype)
        values, differences = loss.with_flips(codes) if isinstance(loss, FlipLoss) else _flip_each(loss, codes)
        gradient = p * (1 - p) * (1 - 2 * codes) * differences  # D_k turns "flipped - drawn" into "one - zero"
        return attach(values, logits, gradient)


def _flip_each(loss: CodeLoss, codes: Tensor) -> tuple[Tensor, Tensor]:
    """Flip bit by bit, for a function of which nothing else is known."""
    values = loss(codes)
    differences = torch.empty_like(codes)
    with torch.no_grad():
        for bit in range(codes.shape[1]):
            flipped = codes.clone()
            flipped[:, bit] = 1 - flipped[:, bit]
            differences[:, bit] = loss(flipped) - values
    return values, differences

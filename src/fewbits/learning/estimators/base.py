"""What every gradient estimator does, and how its gradient is attached to the logits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

CodeLoss = Callable[[Tensor], Tensor]  # codes (documents, bits) -> losses (documents,)


class GradientEstimator(ABC):
    """Estimates the gradient of E f(z), z ~ Bernoulli(sigmoid(psi)), with respect to the logits psi."""

    name: ClassVar[str]
    is_unbiased: ClassVar[bool]

    @abstractmethod
    def __call__(self, logits: Tensor, loss: CodeLoss, generator: torch.Generator | None = None) -> Tensor:
        """Losses (documents,) whose backward pass puts the estimate into the gradient of the logits.

        What the loss itself depends on (decoder, classifier) gets its gradient at the codes that were drawn.
        """

    def begin_epoch(self, epoch: int) -> None:  # noqa: B027  # most estimators have no schedule
        """Follow the estimator's own schedule."""


def attach(values: Tensor, logits: Tensor, gradient: Tensor) -> Tensor:
    """Give losses the gradient (documents, bits) with respect to the logits, leaving their values as they are."""
    apply: Callable[[Tensor, Tensor, Tensor], Tensor] = _Attached.apply
    return apply(values, logits, gradient)


class _Attached(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, logits: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return values.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        [gradient] = ctx.saved_tensors
        return grad, grad[:, None] * gradient, None


def antithetic_codes(logits: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """ARM's two codes of one u: 1[u > sigmoid(-psi)] and 1[u < sigmoid(psi)], each drawn from the same Bernoulli."""
    return (u > torch.sigmoid(-logits)).to(logits.dtype), (u < torch.sigmoid(logits)).to(logits.dtype)


@runtime_checkable
class PairedLoss(Protocol):
    """A loss that takes two codes of each document at once, which is faster than one after the other."""

    def of_both(self, codes: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """Losses of both; only those of the first have a gradient."""


def losses_of_both(loss: CodeLoss, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Losses of two codes: what the loss depends on learns from the first alone, at half the cost."""
    if isinstance(loss, PairedLoss):
        return loss.of_both(first, second)
    with torch.no_grad():
        behind = loss(second)
    return loss(first), behind


def uniform_like(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    """One u a document and bit, between 0 and 1."""
    return torch.rand(logits.shape, generator=generator, device=logits.device, dtype=logits.dtype)

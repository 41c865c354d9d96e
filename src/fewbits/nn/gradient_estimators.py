"""What every gradient estimator does, and how its gradient is attached to the logits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from fewbits.errors import ParameterError

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


class StraightThrough(GradientEstimator):
    """z' = stop(z - p) + p; biased, and the loss must be differentiable in the code."""

    name = "straight-through"
    is_unbiased = False

    def __call__(self, logits: Tensor, loss: CodeLoss, generator: torch.Generator | None = None) -> Tensor:
        """Losses with the straight-through gradient."""
        p = torch.sigmoid(logits)
        codes = (uniform_like(logits, generator) < p).to(logits.dtype)
        return loss((codes - p).detach() + p)


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


ESTIMATORS: dict[str, type[GradientEstimator]] = {
    estimator.name: estimator for estimator in (ARM, DisARM, LeaveOneOut, Flip, StraightThrough, GumbelSoftmax, ReinMax)
}


def make_estimator(name: str) -> GradientEstimator:
    """Make an estimator by name."""
    if name not in ESTIMATORS:
        raise ParameterError("there is no such gradient estimator", allowed=", ".join(ESTIMATORS), got=repr(name))
    return ESTIMATORS[name]()


__all__ = ["ESTIMATORS", "CodeLoss", "GradientEstimator", "make_estimator"]

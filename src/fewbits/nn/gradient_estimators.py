"""Gradient estimators for Bernoulli codes, side by side: ARM, DisARM, leave-one-out, flip and the biased ones."""

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
    def __call__(
        self, logits: Tensor, loss: CodeLoss, generator: torch.Generator | None = None, *, epoch: int = 0
    ) -> Tensor:
        """Return losses (documents,) whose backward pass gives the logits the estimated gradient.

        The parameters of the loss itself (decoder, classifier) get their gradient at the sampled codes.
        ``epoch`` counts from 0, for estimators with a schedule.
        """


def attach(values: Tensor, logits: Tensor, gradient: Tensor) -> Tensor:
    """Return the same losses with the given gradient (documents, bits) with respect to the logits."""
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
    """Return ARM's two codes of one u: 1[u > sigmoid(-psi)] and 1[u < sigmoid(psi)], both from the same Bernoulli."""
    return (u > torch.sigmoid(-logits)).to(logits.dtype), (u < torch.sigmoid(logits)).to(logits.dtype)


@runtime_checkable
class PairedLoss(Protocol):
    """A loss that evaluates two codes per document at once, which is faster than one after the other."""

    def of_both(self, codes: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the losses of both; only the first have a gradient."""


def losses_of_both(loss: CodeLoss, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the losses of two codes per document, the second without a gradient, which halves the cost."""
    if isinstance(loss, PairedLoss):
        return loss.of_both(first, second)
    with torch.no_grad():
        second_losses = loss(second)
    return loss(first), second_losses


def uniform_like(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw u from Uniform(0, 1), one per document and bit."""
    return torch.rand(logits.shape, generator=generator, device=logits.device, dtype=logits.dtype)


class ARM(GradientEstimator):
    """(f(1[u > sigmoid(-psi)]) - f(1[u < sigmoid(psi)])) (u - 1/2), two correlated codes from one u (eq:arm)."""

    name = "arm"
    is_unbiased = True

    def __call__(
        self, logits: Tensor, loss: CodeLoss, generator: torch.Generator | None = None, *, epoch: int = 0
    ) -> Tensor:
        """Return losses with the ARM gradient."""
        u = uniform_like(logits, generator)
        first, second = losses_of_both(loss, *antithetic_codes(logits, u))
        gradient = (first - second).detach()[:, None] * (u - 0.5)  # (documents, bits)
        return attach(first, logits, gradient)


class DisARM(GradientEstimator):
    """1/2 (f(z1) - f(z2)) (-1)^z2 1[z1 != z2] sigmoid(|psi|): ARM's mean over u given the two codes.

    Z. Dong, A. Mnih, G. Tucker. DisARM: an antithetic gradient estimator for binary latent variables. NeurIPS 2020.
    """

    name = "disarm"
    is_unbiased = True

    def __call__(
        self, logits: Tensor, loss: CodeLoss, generator: torch.Generator | None = None, *, epoch: int = 0
    ) -> Tensor:
        """Return losses with the DisARM gradient."""
        z1, z2 = antithetic_codes(logits, uniform_like(logits, generator))
        first, second = losses_of_both(loss, z1, z2)
        # z1 - z2 is (-1)^z2 where the codes differ, and 0 elsewhere
        gradient = 0.5 * (first - second).detach()[:, None] * (z1 - z2) * torch.sigmoid(logits.abs())
        return attach(first, logits, gradient)


class LeaveOneOut(GradientEstimator):
    """1/2 (f(z) - f(z')) (z - z') for two independent codes.

    W. Kool, H. van Hoof, M. Welling. Buy 4 REINFORCE samples, get a baseline for free! ICLR workshop 2019.
    """

    name = "leave-one-out"
    is_unbiased = True

    def __call__(
        self, logits: Tensor, loss: CodeLoss, generator: torch.Generator | None = None, *, epoch: int = 0
    ) -> Tensor:
        """Return losses with the leave-one-out gradient."""
        p = torch.sigmoid(logits)
        z1 = (uniform_like(logits, generator) < p).to(logits.dtype)
        z2 = (uniform_like(logits, generator) < p).to(logits.dtype)
        first, second = losses_of_both(loss, z1, z2)
        gradient = 0.5 * (first - second).detach()[:, None] * (z1 - z2)
        return attach(first, logits, gradient)


@runtime_checkable
class FlipLoss(Protocol):
    """A loss whose change for each flipped bit has a closed form."""

    def with_flips(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the losses (documents,) and their changes for each flipped bit (documents, bits)."""


class Flip(GradientEstimator):
    """p (1 - p) (f(z_k = 1) - f(z_k = 0)) from one code.

    Decoder and classifier give all flips in closed form; any other function is evaluated once per bit.

    M. Titsias, M. Lázaro-Gredilla. Local expectation gradients for black box variational inference. NeurIPS 2015.
    """

    name = "flip"
    is_unbiased = True

    def __call__(
        self, logits: Tensor, loss: CodeLoss, generator: torch.Generator | None = None, *, epoch: int = 0
    ) -> Tensor:
        """Return losses with the local expectation gradient."""
        p = torch.sigmoid(logits)
        codes = (uniform_like(logits, generator) < p).detach().to(logits.dtype)
        values, differences = loss.with_flips(codes) if isinstance(loss, FlipLoss) else _flip_each(loss, codes)
        gradient = p * (1 - p) * (1 - 2 * codes) * differences  # 1 - 2 z turns "flipped - sampled" into "1 - 0"
        return attach(values, logits, gradient)


def _flip_each(loss: CodeLoss, codes: Tensor) -> tuple[Tensor, Tensor]:
    """Evaluate every flip of an arbitrary function, bit by bit."""
    values = loss(codes)
    differences = torch.empty_like(codes)
    with torch.no_grad():
        for bit in range(codes.shape[1]):
            flipped = codes.clone()
            flipped[:, bit] = 1 - flipped[:, bit]
            differences[:, bit] = loss(flipped) - values
    return values, differences


class StraightThrough(GradientEstimator):
    """z' = stop(z - p) + p. Biased; the loss must be differentiable in the code."""

    name = "straight-through"
    is_unbiased = False

    def __call__(
        self, logits: Tensor, loss: CodeLoss, generator: torch.Generator | None = None, *, epoch: int = 0
    ) -> Tensor:
        """Return losses with the straight-through gradient."""
        p = torch.sigmoid(logits)
        codes = (uniform_like(logits, generator) < p).to(logits.dtype)
        return loss((codes - p).detach() + p)


class GumbelSoftmax(GradientEstimator):
    """z = step(g + psi) with logistic g; backwards h = sigmoid((g + psi) / tau). Biased.

    The temperature tau starts at 1 and is multiplied by 0.96 after each epoch, down to 0.1 (section 4.2).
    """

    name = "gumbel-softmax"
    is_unbiased = False

    def __init__(self, temperature: float = 1.0, decay: float = 0.96, lowest: float = 0.1) -> None:
        self.start = temperature
        self.decay = decay
        self.lowest = lowest

    def __call__(
        self, logits: Tensor, loss: CodeLoss, generator: torch.Generator | None = None, *, epoch: int = 0
    ) -> Tensor:
        """Return losses with the Gumbel-Softmax gradient."""
        u = uniform_like(logits, generator).clamp(1e-6, 1 - 1e-6)
        noisy = u.log() - torch.log1p(-u) + logits  # g + log pi_k
        relaxed = torch.sigmoid(noisy / self.temperature(epoch))  # h
        codes = (noisy > 0).to(logits.dtype)
        return loss((codes - relaxed).detach() + relaxed)

    def temperature(self, epoch: int) -> float:
        """Return the temperature of an epoch."""
        return max(self.lowest, self.start * self.decay**epoch)


class ReinMax(GradientEstimator):
    """f'(z) [2 p'(1 - p') - 1/2 p(1 - p)] with p' = (p + z) / 2. Biased.

    L. Liu, C. Dong, X. Liu, B. Yu, J. Gao. Bridging discrete and backpropagation: straight-through and beyond. NeurIPS
    2023.
    """

    name = "reinmax"
    is_unbiased = False

    def __call__(
        self, logits: Tensor, loss: CodeLoss, generator: torch.Generator | None = None, *, epoch: int = 0
    ) -> Tensor:
        """Return losses with the ReinMax gradient."""
        p = torch.sigmoid(logits).detach()
        codes = (uniform_like(logits, generator) < p).to(logits.dtype)
        middle = (p + codes) / 2
        slope = 2 * middle * (1 - middle) - 0.5 * p * (1 - p)
        return loss(codes + slope * (logits - logits.detach()))  # forward: the code; backward: the slope


ESTIMATORS: dict[str, type[GradientEstimator]] = {
    estimator.name: estimator for estimator in (ARM, DisARM, LeaveOneOut, Flip, StraightThrough, GumbelSoftmax, ReinMax)
}


def make_estimator(name: str) -> GradientEstimator:
    """Make an estimator by name."""
    if name not in ESTIMATORS:
        raise ParameterError("unknown gradient estimator", allowed=", ".join(ESTIMATORS), got=repr(name))
    return ESTIMATORS[name]()


__all__ = ["ESTIMATORS", "CodeLoss", "GradientEstimator", "make_estimator"]

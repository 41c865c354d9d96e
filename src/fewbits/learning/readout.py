"""A linear softmax on the code: the decoder, whose outputs are words, and the classifier, whose outputs are labels.

For a code z with scores s = zE + b and a target row x of sum N, the loss is the tf-idf weighted negative log likelihood
(eq:dec and the text below it), f(z) = N logsumexp(s) - x.s. Labels are the same with x spread evenly over a document's
labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from fewbits.learning.bags import Bags

LARGEST_EXPONENT = 30.0  # exp of an embedding stays finite in 32 bits, and so do sums of it


class SoftmaxReadout(nn.Module):
    """Embeddings E of the outputs (words or labels) and their biases b."""

    def __init__(
        self, n_bits: int, bias: Tensor, *, initial_scale: float = 0.01, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        start = torch.randn(len(bias), n_bits, generator=generator) * initial_scale
        self.embeddings = nn.Parameter(start)  # (outputs, bits), the paper's E transposed
        self.bias = nn.Parameter(bias.clone())  # (outputs,)

    def loss(self, targets: Bags, shift: Tensor | None = None) -> ReadoutLoss:
        """The loss of a batch of target rows as a function of its codes; ``shift`` is noise added to them."""
        return ReadoutLoss(self, targets, shift)


class ReadoutLoss:
    """f(z) for a batch: (documents, bits) to (documents,), with every single-bit flip in closed form."""

    def __init__(self, readout: SoftmaxReadout, targets: Bags, shift: Tensor | None = None) -> None:
        self.readout = readout
        self.targets = targets
        self.shift = shift

    def __call__(self, codes: Tensor) -> Tensor:
        """Losses of codes."""
        values, _ = self._evaluate(codes)
        return values

    def with_flips(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Losses (documents,), and by how much flipping each bit would change them (documents, bits).

        f(flip k) - f(z) = N log(sum_w pi_w exp(D_k E_kw)) - D_k (Ex)_k with pi = softmax(s), D_k = 1 - 2 z_k.
        """
        values, probabilities = self._evaluate(codes)
        with torch.no_grad():
            embeddings = self.readout.embeddings.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT)  # (outputs, bits)
            raised = embeddings.exp()
            up, down = probabilities @ raised, probabilities @ raised.reciprocal_()  # (documents, bits)
            direction = 1 - 2 * codes  # D
            ratio = torch.where(codes > 0.5, down, up)
            linear = self.targets.times(self.readout.embeddings)  # Ex
            differences = self.targets.totals[:, None] * ratio.log() - direction * linear
        return values, differences

    def _evaluate(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        shifted = codes if self.shift is None else codes + self.shift
        targets = self.targets
        readout = self.readout
        return _apply(
            shifted, readout.embeddings, readout.bias, targets.words, targets.values, targets.rows, targets.totals
        )


def _apply(*arguments: Tensor) -> tuple[Tensor, Tensor]:
    apply: Callable[..., tuple[Tensor, Tensor]] = _SoftmaxLoss.apply
    return apply(*arguments)


class _SoftmaxLoss(torch.autograd.Function):
    """Loss and its gradient with one documents x outputs block in memory."""

    @staticmethod
    def forward(ctx: Any, codes: Tensor, embeddings: Tensor, bias: Tensor, *targets: Tensor) -> tuple[Tensor, Tensor]:
        words, values, rows, totals = targets
        scores = torch.addmm(bias, codes, embeddings.T)  # (documents, outputs)
        scores -= scores.amax(dim=1, keepdim=True)
        places = rows * scores.shape[1] + words
        picked = torch.zeros_like(totals).index_add_(0, rows, values * scores.view(-1)[places])  # x.s
        scores.exp_()
        sums = scores.sum(dim=1)
        loss = totals * sums.log() - picked  # the maximum cancels: N m - x.m = 0
        scores /= sums[:, None]
        ctx.save_for_backward(codes, embeddings, scores, places, values, rows, totals)
        ctx.mark_non_differentiable(scores)
        return loss, scores

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        codes, embeddings, probabilities, places, values, rows, totals = ctx.saved_tensors
        residual = probabilities * (totals * grad)[:, None]  # (documents, outputs): N pi - x, times the outer gradient
        residual.view(-1).index_add_(0, places, -values * grad[rows])
        by_codes = residual @ embeddings if ctx.needs_input_grad[0] else None
        return by_codes, residual.T @ codes, residual.sum(dim=0), None, None, None, None

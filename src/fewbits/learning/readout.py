"""A linear softmax on the code: the decoder, whose outputs are words, and the classifier, whose outputs are labels.

For a code z with scores s = zE + b and a target row x of sum N, the loss is the tf-idf weighted negative log likelihood
(eq:dec and the text below it), f(z) = N logsumexp(s) - x.s. Labels are the same with x spread evenly over a document's
labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from fewbits.learning.bags import Bags

LOG2_E = math.log2(math.e)
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
        values, _, _ = self._evaluate(codes)
        return values

    def with_flips(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Losses (documents,), and by how much flipping each bit would change them (documents, bits).

        f(flip k) - f(z) = N log(sum_w pi_w exp(D_k E_kw)) - D_k (Ex)_k with pi = softmax(s), D_k = 1 - 2 z_k.
        """
        values, exponentials, sums = self._evaluate(codes)  # pi = exponentials / sums
        with torch.no_grad():
            embeddings = self.readout.embeddings.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT)  # (outputs, bits)
            raised = embeddings.exp()
            up, down = exponentials @ raised, exponentials @ raised.reciprocal_()  # (documents, bits)
            direction = 1 - 2 * codes  # D
            ratio = torch.where(codes > 0.5, down, up) / sums[:, None]
            linear = self.targets.times(self.readout.embeddings)  # Ex
            differences = self.targets.totals[:, None] * ratio.log() - direction * linear
        return values, differences

    def _evaluate(self, codes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        shifted = codes if self.shift is None else codes + self.shift
        targets, readout = self.targets, self.readout
        return _apply(
            shifted, readout.embeddings, readout.bias, targets.words, targets.values, targets.rows, targets.totals
        )


def _apply(*arguments: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    apply: Callable[..., tuple[Tensor, Tensor, Tensor]] = _SoftmaxLoss.apply
    return apply(*arguments)


class _SoftmaxLoss(torch.autograd.Function):
    """Loss and its gradient in one documents x outputs block of memory, passed over as seldom as can be.

    Passing over that block is most of the time of a step. So the largest score is taken off only where it could
    overflow, the exponentials are never divided by their sums, and the backward pass works in the same block, which it
    can do once.
    """

    @staticmethod
    def forward(
        ctx: Any, codes: Tensor, embeddings: Tensor, bias: Tensor, *targets: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        words, values, rows, totals = targets
        # With the bias as one more embedding of a bit that is always 1, the block is written once; and powers of 2 take
        # half the time of powers of e.
        codes, embeddings = torch.nn.functional.pad(codes, (0, 1), value=1.0), torch.cat([embeddings, bias[:, None]], 1)
        scores = (codes * LOG2_E) @ embeddings.T  # (documents, outputs), s / ln 2
        smallest, largest = scores.aminmax()
        if largest > LARGEST_EXPONENT * LOG2_E or smallest < -2 * LARGEST_EXPONENT * LOG2_E:
            scores -= scores.amax(dim=1, keepdim=True)  # cancels in the loss: N m - x.m = 0
        places = rows * scores.shape[1] + words
        picked = torch.zeros_like(totals).index_add_(0, rows, values * scores.view(-1)[places])  # x.s / ln 2
        exponentials = scores.exp2_()
        sums = exponentials.sum(dim=1)
        ctx.save_for_backward(codes, embeddings, places, values, rows, totals, sums)
        ctx.block = exponentials  # not a saved tensor: those may not be written to
        ctx.mark_non_differentiable(exponentials, sums)
        return totals * sums.log() - picked / LOG2_E, exponentials, sums

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        codes, embeddings, places, values, rows, totals, sums = ctx.saved_tensors
        if ctx.block is None:
            raise RuntimeError("this loss can be differentiated once: evaluate it again")
        # (documents, outputs): N pi - x, times the outer gradient
        residual, ctx.block = ctx.block.mul_((totals * grad / sums)[:, None]), None
        residual.view(-1).index_add_(0, places, -values * grad[rows])
        by_codes = residual @ embeddings[:, :-1] if ctx.needs_input_grad[0] else None
        by_embeddings = residual.T @ codes  # the last column is the bias's
        return by_codes, by_embeddings[:, :-1], by_embeddings[:, -1], None, None, None, None

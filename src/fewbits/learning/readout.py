"""A linear softmax on the code: the decoder, whose outputs are words, and the classifier, whose outputs are labels.

For a code z with scores s = zE + b and a target row x of sum N, the loss is the tf-idf weighted negative log likelihood
(eq:dec and the text below it), f(z) = N logsumexp(s) - x.s. Labels are the same with x spread evenly over a document's
labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from fewbits.learning.bags import Bags

LOG2_E = math.log2(math.e)
LARGEST_SUM = 1e13  # of exponentials, and the smallest is as far from 1; products with an embedding's stay finite too
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
        arguments = (targets.words, targets.values, targets.rows, targets.totals)
        return _apply(shifted, readout.embeddings, readout.bias, self.table, *arguments)

    @cached_property
    def table(self) -> Tensor:
        """Embeddings with the bias as one more, of a bit that is always 1: (outputs, bits + 1)."""
        with torch.no_grad():
            return torch.cat([self.readout.embeddings, self.readout.bias[:, None]], dim=1)


def _apply(*arguments: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    apply: Callable[..., tuple[Tensor, Tensor, Tensor]] = _SoftmaxLoss.apply
    return apply(*arguments)


class _SoftmaxLoss(torch.autograd.Function):
    """Loss and its gradient in one documents x outputs block of memory, passed over as seldom as can be.

    Passing over that block is most of the time of a step. So the largest score is taken off only where sums have
    overflowed or vanished, the exponentials are never divided by their sums, powers are of 2 (half the time of powers
    of e), and the backward pass works in the same block, which it can do once.
    """

    @staticmethod
    def forward(
        ctx: Any, codes: Tensor, embeddings: Tensor, bias: Tensor, table: Tensor, *targets: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        words, values, rows, totals = targets
        codes = torch.nn.functional.pad(codes, (0, 1), value=1.0)  # the bit of the bias
        places = rows * len(table) + words

        def picked_scores() -> Tensor:
            """x.s / ln 2."""
            return torch.zeros_like(totals).index_add_(0, rows, values * block.view(-1)[places])

        block = (codes * LOG2_E) @ table.T  # (documents, outputs): the scores s / ln 2, then their powers of 2
        picked = picked_scores()
        sums = block.exp2_().sum(dim=1)
        if not ((sums > 1 / LARGEST_SUM) & (sums < LARGEST_SUM)).all():
            torch.mm(codes * LOG2_E, table.T, out=block)
            block -= block.amax(dim=1, keepdim=True)  # cancels in the loss: N m - x.m = 0
            picked = picked_scores()
            sums = block.exp2_().sum(dim=1)
        ctx.save_for_backward(codes, table, places, values, rows, totals, sums)
        ctx.block = block  # not a saved tensor: those may not be written to
        ctx.mark_non_differentiable(block, sums)
        return totals * sums.log() - picked / LOG2_E, block, sums

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        codes, table, places, values, rows, totals, sums = ctx.saved_tensors
        if ctx.block is None:
            raise RuntimeError("this loss can be differentiated once: evaluate it again")
        # (documents, outputs): N pi - x, times the outer gradient
        residual, ctx.block = ctx.block.mul_((totals * grad / sums)[:, None]), None
        residual.view(-1).index_add_(0, places, -values * grad[rows])
        by_codes = residual @ table[:, :-1] if ctx.needs_input_grad[0] else None
        by_embeddings = residual.T @ codes  # the last column is the bias's
        return by_codes, by_embeddings[:, :-1], by_embeddings[:, -1], None, None, None, None, None

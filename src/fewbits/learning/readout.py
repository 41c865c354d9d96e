"""A linear softmax on the code: the decoder, whose outputs are words, and the classifier, whose outputs are labels.

For a code z with scores s = zE + b and a target row x of sum N, the loss is the tf-idf weighted negative log likelihood
(eq:dec and the text below it), f(z) = N logsumexp(s) - x.s. Labels are the same with x spread evenly over a document's
labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fewbits.learning.bags import Bags

LOG2_E = math.log2(math.e)
TINY = 1e-30  # a document without targets has a total of 0
LARGEST_LOG = 30.0  # of a sum of exponentials, or the least below 0; products with an embedding's stay finite too
LARGEST_EXPONENT = 30.0  # exp of an embedding stays finite in 32 bits, and so do sums of it


class SoftmaxReadout(nn.Module):
    """Embeddings E of the outputs (words or labels) and their biases b, in one table: a bias is the embedding of a bit
    that is always 1."""

    def __init__(
        self, n_bits: int, bias: Tensor, *, initial_scale: float = 0.01, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        start = torch.randn(len(bias), n_bits, generator=generator) * initial_scale
        self.table = nn.Parameter(torch.cat([start, bias[:, None]], dim=1))  # (outputs, bits + 1)

    @property
    def embeddings(self) -> Tensor:
        """The paper's E transposed: (outputs, bits)."""
        return self.table[:, :-1]

    @property
    def bias(self) -> Tensor:
        """b: (outputs,)."""
        return self.table[:, -1]

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
        return self._evaluate(codes).values

    def of_both(self, codes: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """Losses of two codes of each document; only those of the first have a gradient."""
        evaluated = self._evaluate(codes, others)
        return evaluated.values, evaluated.of_others

    def with_flips(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Losses (documents,), and by how much flipping each bit would change them (documents, bits).

        f(flip k) - f(z) = N log(sum_w pi_w exp(D_k E_kw)) - D_k (Ex)_k with pi = softmax(s), D_k = 1 - 2 z_k.
        """
        values, _, exponentials, sums = self._evaluate(codes)  # pi = exponentials / sums
        with torch.no_grad():
            raised = self.readout.embeddings.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT).exp()  # (outputs, bits)
            up, down = (exponentials.T @ torch.cat([raised, raised.reciprocal()], dim=1)).chunk(2, dim=1)
            direction = 1 - 2 * codes  # D
            ratio = torch.where(codes > 0.5, down, up) / sums[:, None]  # (documents, bits)
            differences = self.targets.totals[:, None] * ratio.log() - direction * self.sums_of_embeddings[:, :-1]
        return values, differences

    def _evaluate(self, codes: Tensor, others: Tensor | None = None) -> Evaluation:
        if self.shift is not None:
            codes = codes + self.shift
            others = None if others is None else others + self.shift
        apply: Callable[..., tuple[Tensor, Tensor, Tensor, Tensor]] = _SoftmaxLoss.apply
        return Evaluation(*apply(codes, self.readout.table, others, self.sums_of_embeddings, self.targets))

    @cached_property
    def sums_of_embeddings(self) -> Tensor:
        """Each document's targets times the table (documents, bits + 1): x.s is its product with the code."""
        with torch.no_grad():
            return self.targets.times(self.readout.table)


class Evaluation(NamedTuple):
    """What is known of codes after an evaluation."""

    values: Tensor  # (documents,): f(z)
    of_others: Tensor  # (documents,): f of the other codes, without a gradient; empty where there are none
    exponentials: Tensor  # (outputs, documents): of the codes' scores
    sums: Tensor  # (documents,): of the exponentials


class _SoftmaxLoss(torch.autograd.Function):
    """Loss and its gradient in one outputs x documents block of memory, passed over as seldom as can be.

    Passing over that block is most of the time of a step. So the largest score is taken off only where sums have
    overflowed or vanished, the exponentials are never divided by their sums, powers are of 2 (half the time of powers
    of e), both codes of a document are in one block, and the backward pass works in that block, which it can do once.
    A row is an output: were it a document, MKL would make the few long rows of the product on one core.
    """

    @staticmethod
    def forward(
        ctx: Any, codes: Tensor, table: Tensor, others: Tensor | None, sums_of_embeddings: Tensor, targets: Bags
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        n = len(codes)
        all_codes = _with_bias_bit(codes if others is None else torch.cat([codes, others]))  # (n or 2 n, bits + 1)
        block, sums, logs = _exponentials(table, all_codes)
        fit = (all_codes.view(-1, n, table.shape[1]) * sums_of_embeddings).sum(dim=2)  # x.s
        losses = targets.totals * logs.view(-1, n) - fit  # N logsumexp(s) - x.s
        values, of_others = losses[0], losses[1:].flatten()
        codes, block, sums = all_codes[:n], block[:, :n], sums[:n]
        ctx.save_for_backward(codes, table, sums_of_embeddings, sums)
        ctx.block, ctx.targets = block, targets  # not saved tensors: those may not be written to
        ctx.mark_non_differentiable(of_others, block, sums)
        ctx.set_materialize_grads(False)  # or each step would fill a block of zeros as the gradient of the block
        return values, of_others, block, sums

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        codes, table, sums_of_embeddings, sums = ctx.saved_tensors
        if ctx.block is None:
            raise RuntimeError("this loss can be differentiated once: evaluate it again")
        block, targets, ctx.block = ctx.block, ctx.targets, None
        # The gradient of the scores is grad (N pi - x), pi = block / sums: as s (block - x sums / N) with s of a row.
        scale = (targets.totals * grad / sums)[:, None]
        by_codes = None
        if ctx.needs_input_grad[0]:
            by_codes = (scale * (block.T @ table) - grad[:, None] * sums_of_embeddings)[:, :-1]
        width = block.stride(0)  # of the block that this one is a part of
        weights = (sums / targets.totals.clamp(min=TINY)).index_select(0, targets.rows)
        flat = block.as_strided((len(block) * width,), (1,))
        flat.index_add_(0, targets.words * width + targets.rows, targets.values * weights, alpha=-1)
        return by_codes, block @ (scale * codes), None, None, None


def _with_bias_bit(codes: Tensor) -> Tensor:
    return torch.nn.functional.pad(codes, (0, 1), value=1.0)


def _exponentials(table: Tensor, codes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Exponentials of the scores (outputs, documents), their sums over the outputs and the logsumexp (documents,)."""
    in_twos = (codes * LOG2_E).T  # scores s / ln 2: their powers of 2 are exp(s)
    block = table @ in_twos
    sums = block.exp2_().sum(dim=0)
    logs = sums.log()
    if float(logs.abs().amax()) < LARGEST_LOG:
        return block, sums, logs
    torch.mm(table, in_twos, out=block)
    largest = block.amax(dim=0)
    sums = block.sub_(largest).exp2_().sum(dim=0)
    return block, sums, sums.log() + largest / LOG2_E

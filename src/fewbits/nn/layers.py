"""Sparse rows as torch takes them: the words of all documents in one list, with the place where each begins."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class SparseBatch:
    """A batch of sparse rows; nothing of size documents x words."""

    words: Tensor  # (nonzeros,), int64
    values: Tensor  # (nonzeros,)
    starts: Tensor  # (documents,), int64
    rows: Tensor  # (nonzeros,), int64: the document of each word
    totals: Tensor  # (documents,): sum of values, N in the reconstruction loss

    @classmethod
    def from_rows(cls, rows: Any, device: torch.device | None = None) -> SparseBatch:
        """Convert CSR rows."""
        lengths = np.diff(rows.indptr)
        values = torch.from_numpy(np.ascontiguousarray(rows.data, dtype=np.float32)).to(device)
        row_of = torch.from_numpy(np.repeat(np.arange(len(lengths)), lengths)).to(device)
        return cls(
            words=torch.from_numpy(rows.indices.astype(np.int64)).to(device),
            values=values,
            starts=torch.from_numpy(rows.indptr[:-1].astype(np.int64)).to(device),
            rows=row_of,
            totals=torch.zeros(len(lengths), device=device).index_add_(0, row_of, values),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def matmul(self, table: Tensor, values: Tensor | None = None) -> Tensor:
        """Product with a dense table (words, columns): (documents, columns)."""
        weights = self.values if values is None else values
        return torch.nn.functional.embedding_bag(self.words, table, self.starts, mode="sum", per_sample_weights=weights)


class FactoredGradient(NamedTuple):
    """The first layer's gradient as what it is the product of: transposed rows, and the gradient of their outputs."""

    values: Tensor  # (nonzeros,): of the rows, some left out
    of_outputs: Tensor  # (documents, width)


class Encoder(nn.Module):
    """Fully connected layers on sparse input; with no hidden layer the logits are linear in the words."""

    def __init__(
        self,
        n_features: int,
        n_bits: int,
        *,
        hidden: Sequence[int] = (),
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        initial_scale: float = 0.1,
        activation: Callable[[Tensor], Tensor] = torch.relu,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        widths = [*hidden, n_bits]
        self.activation = activation
        self.dropout = dropout
        self.word_dropout = word_dropout
        # Rows have length 1, so Glorot's scale would leave the first layer's values near 0.01 and training would crawl.
        first = torch.randn(n_features, widths[0], generator=generator) * initial_scale
        self.words = nn.Parameter(first)  # (features, width)
        self.keeps_factored_gradient = False  # for an optimiser that moves the rows of a batch's words alone
        self.factored_gradient: FactoredGradient | None = None
        self.bias = nn.Parameter(torch.zeros(widths[0]))
        self.layers = nn.ModuleList(_linear(before, after, generator) for before, after in pairwise(widths))

    def forward(self, rows: SparseBatch, generator: torch.Generator | None = None) -> Tensor:
        """Logits psi (documents, bits)."""
        values = rows.values
        if self.training and self.word_dropout:
            values = _drop(values, self.word_dropout, generator)
        x = self._first_layer(rows, values)
        for number, layer in enumerate(self.layers, 1):
            x = self.activation(x)
            if self.training and self.dropout and number == len(self.layers):
                x = _drop(x, self.dropout, generator)
            x = layer(x)
        return x

    def _first_layer(self, rows: SparseBatch, values: Tensor) -> Tensor:
        if self.keeps_factored_gradient and torch.is_grad_enabled():
            apply: Callable[..., Tensor] = _FirstLayer.apply
            return apply(self.words, self.bias, rows, values, self)
        return rows.matmul(self.words, values) + self.bias


class _FirstLayer(torch.autograd.Function):
    """Sparse rows times the first layer's weights, whose gradient is kept apart: a table of words x width to hold it
    would take longer to fill than the product itself."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, bias: Tensor, rows: SparseBatch, values: Tensor, encoder: Encoder) -> Tensor:
        ctx.values, ctx.encoder = values, encoder
        return rows.matmul(table, values).add_(bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None, None, None]:
        if ctx.encoder.factored_gradient is not None:
            raise RuntimeError("an encoder that keeps its gradient apart sees one batch in a step")
        ctx.encoder.factored_gradient = FactoredGradient(ctx.values, gradient)
        return None, gradient.sum(dim=0), None, None, None


def _linear(before: int, after: int, generator: torch.Generator | None) -> nn.Linear:
    layer = nn.Linear(before, after)
    bound = (6 / (before + after)) ** 0.5  # Glorot
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.zero_()
    return layer


def _drop(values: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    # 16 bits decide; drawn four at a time, as whole numbers of all 64 bits, they take a fifth of the time
    draws = torch.empty(-(-values.numel() // 4), dtype=torch.int64, device=values.device)
    draws.random_(-(2**63), None, generator=generator)
    kept = draws.view(torch.int16)[: values.numel()].view(values.shape) >= round(share * 2**16) - 2**15
    return values * (kept * (1 / (1 - share)))


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

    def loss(self, targets: SparseBatch, shift: Tensor | None = None) -> ReadoutLoss:
        """The loss of a batch of target rows as a function of its codes; ``shift`` is noise added to them."""
        return ReadoutLoss(self, targets, shift)


class ReadoutLoss:
    """f(z) for a batch: (documents, bits) to (documents,), with every single-bit flip in closed form."""

    def __init__(self, readout: SoftmaxReadout, targets: SparseBatch, shift: Tensor | None = None) -> None:
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
            return self.targets.matmul(self.readout.table)


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
        ctx: Any, codes: Tensor, table: Tensor, others: Tensor | None, sums_of_embeddings: Tensor, targets: SparseBatch
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

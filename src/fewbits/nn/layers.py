"""Layers on sparse rows: the encoder, and the softmax readout that decoder and classifier share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class SparseBatch:
    """A batch of sparse rows in the format of ``embedding_bag``; no array has size documents x words."""

    words: Tensor  # (nonzeros,), int64
    values: Tensor  # (nonzeros,)
    starts: Tensor  # (documents,), int64: offset of each document's first word
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
        """Multiply by a dense table (words, columns): (documents, columns)."""
        weights = self.values if values is None else values
        return torch.nn.functional.embedding_bag(self.words, table, self.starts, mode="sum", per_sample_weights=weights)


class FirstLayer(NamedTuple):
    """The first layer's input values and outputs.

    The gradient of its table is X' outputs.grad, with X the sparse rows whose nonzeros are ``values``. An optimizer
    that updates single rows of the table computes it from these two; all rows x width would take longer to fill than
    the product itself.
    """

    values: Tensor  # (nonzeros,): of the rows, after word dropout
    outputs: Tensor  # (documents, width)


class Encoder(nn.Module):
    """Fully connected layers on sparse input; without hidden layers the logits are linear in the words."""

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
        # Rows have length 1: at Glorot's scale the first layer's outputs would be near 0.01 and training very slow.
        first = torch.randn(n_features, widths[0], generator=generator) * initial_scale
        self.words = nn.Parameter(first)  # (features, width)
        self.bias = nn.Parameter(torch.zeros(widths[0]))
        self.layers = nn.ModuleList(_linear(before, after, generator) for before, after in pairwise(widths))

    @torch.no_grad()
    def set_first_layer(self, weights: NDArray[np.float32], bias: NDArray[np.float32]) -> None:
        """Start the first layer from given weights (features, width) and bias."""
        self.words.copy_(torch.from_numpy(weights))
        self.bias.copy_(torch.from_numpy(bias))

    def forward(self, rows: SparseBatch, generator: torch.Generator | None = None) -> Tensor:
        """Compute the logits psi (documents, bits)."""
        return self.later_layers(self.first_layer(rows, generator).outputs, generator)

    def first_layer(self, rows: SparseBatch, generator: torch.Generator | None = None) -> FirstLayer:
        """Compute the first layer's outputs, before the activation."""
        values = rows.values
        if self.training and self.word_dropout:
            values = _drop(values, self.word_dropout, generator)
        outputs = rows.matmul(self.words, values) + self.bias
        if outputs.requires_grad and not self.words.requires_grad:  # an optimizer computes the table's gradient itself
            outputs.retain_grad()
        return FirstLayer(values, outputs)

    def later_layers(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Compute the logits psi (documents, bits) from the first layer's outputs."""
        for number, layer in enumerate(self.layers, 1):
            x = self.activation(x)
            if self.training and self.dropout and number == len(self.layers):
                x = _drop(x, self.dropout, generator)
            x = layer(x)
        return x


def _linear(before: int, after: int, generator: torch.Generator | None) -> nn.Linear:
    layer = nn.Linear(before, after)
    bound = (6 / (before + after)) ** 0.5  # Glorot
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.zero_()
    return layer


def _drop(values: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    # 16 random bits per value suffice; drawing them four at a time as 64-bit integers takes a fifth of the time
    draws = torch.empty(-(-values.numel() // 4), dtype=torch.int64, device=values.device)
    draws.random_(-(2**63), None, generator=generator)
    mask = draws.view(torch.int16)[: values.numel()].view(values.shape) >= round(share * 2**16) - 2**15
    return values * (mask * (1 / (1 - share)))


LOG2_E = math.log2(math.e)
TINY = 1e-30  # a document without targets has a total of 0
LARGEST_LOG = 30.0  # of a sum of exponentials, in absolute value: products with exp(embedding) stay finite
LARGEST_EXPONENT = 30.0  # embeddings are clipped to it: sums of exp(embedding) stay finite in 32 bits


class SoftmaxReadout(nn.Module):
    """Embeddings E of the outputs (words or labels) and their biases b.

    Both are in one table: a bias is the embedding of an extra bit that is always 1.
    """

    def __init__(
        self, n_bits: int, bias: Tensor, *, initial_scale: float = 0.01, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        start = torch.randn(len(bias), n_bits, generator=generator) * initial_scale
        self.table = nn.Parameter(torch.cat([start, bias[:, None]], dim=1))  # (outputs, bits + 1)

    @property
    def embeddings(self) -> Tensor:
        """Return E', the paper's E transposed: (outputs, bits)."""
        return self.table[:, :-1]

    @property
    def bias(self) -> Tensor:
        """Return b: (outputs,)."""
        return self.table[:, -1]

    def loss(self, targets: SparseBatch, shift: Tensor | None = None) -> ReadoutLoss:
        """Return the loss of a batch of target rows as a function of their codes; ``shift`` is added to the codes."""
        return ReadoutLoss(self, targets, shift)


class ReadoutLoss:
    """f(z) = N logsumexp(s) - x.s with s = E'z + b (eq:dec) of a batch, with every single-bit flip in closed form."""

    def __init__(self, readout: SoftmaxReadout, targets: SparseBatch, shift: Tensor | None = None) -> None:
        self.readout = readout
        self.targets = targets
        self.shift = shift

    def __call__(self, codes: Tensor) -> Tensor:
        """Compute the losses (documents,) of codes (documents, bits)."""
        return self._evaluate(codes).values

    def of_both(self, codes: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the losses of two codes per document; only the first have a gradient."""
        evaluated = self._evaluate(codes, others)
        return evaluated.values, evaluated.of_others

    def with_flips(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the losses (documents,) and their changes for each flipped bit (documents, bits).

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
        """Return each document's targets times the table (documents, bits + 1); x.s is its product with the code."""
        with torch.no_grad():
            return self.targets.matmul(self.readout.table)


class Evaluation(NamedTuple):
    """Losses of a batch of codes, with the exponentials that the flips reuse."""

    values: Tensor  # (documents,): f(z)
    of_others: Tensor  # (documents,): f of the second codes, without a gradient; empty if there are none
    exponentials: Tensor  # (outputs, documents): of the codes' scores s
    sums: Tensor  # (documents,): of the exponentials


class _SoftmaxLoss(torch.autograd.Function):
    """Compute the loss and its gradient in one outputs x documents block, with as few passes over memory as possible.

    Those passes take most of the time of a step. So the largest score is subtracted only if sums overflow or vanish,
    the exponentials are never divided by their sums, powers are of 2 (half the time of powers of e), both codes of a
    document share one block, and the backward pass overwrites that block, which makes it possible only once. Each row
    of the block is an output: with a document per row, MKL would compute the few long rows on a single core.
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
        ctx.block, ctx.targets = block, targets  # not as saved tensors, which must not be written to
        ctx.mark_non_differentiable(of_others, block, sums)
        ctx.set_materialize_grads(False)  # else each step would fill a block of zeros as the gradient of the block
        return values, of_others, block, sums

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        codes, table, sums_of_embeddings, sums = ctx.saved_tensors
        if ctx.block is None:
            raise RuntimeError("this loss can be differentiated only once: evaluate it again")
        block, targets, ctx.block = ctx.block, ctx.targets, None
        # The scores' gradient is grad (N pi - x) with pi = block / sums, computed as scale (block - x sums / N).
        scale = (targets.totals * grad / sums)[:, None]
        by_codes = None
        if ctx.needs_input_grad[0]:
            by_codes = (scale * (block.T @ table) - grad[:, None] * sums_of_embeddings)[:, :-1]
        width = block.stride(0)  # of the whole block, second codes included
        weights = (sums / targets.totals.clamp(min=TINY)).index_select(0, targets.rows)
        flat = block.as_strided((len(block) * width,), (1,))
        flat.index_add_(0, targets.words * width + targets.rows, targets.values * weights, alpha=-1)
        return by_codes, block @ (scale * codes), None, None, None


def _with_bias_bit(codes: Tensor) -> Tensor:
    return torch.nn.functional.pad(codes, (0, 1), value=1.0)


def _exponentials(table: Tensor, codes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute exp(s) (outputs, documents), its sums over the outputs and the logsumexp (documents,)."""
    base_2 = (codes * LOG2_E).T  # gives the scores s / ln 2, whose powers of 2 are exp(s)
    block = table @ base_2
    sums = block.exp2_().sum(dim=0)
    logs = sums.log()
    if float(logs.abs().amax()) < LARGEST_LOG:
        return block, sums, logs
    torch.mm(table, base_2, out=block)
    largest = block.amax(dim=0)
    sums = block.sub_(largest).exp2_().sum(dim=0)
    return block, sums, sums.log() + largest / LOG2_E


def log_of_mean(mean: Tensor) -> Tensor:
    """Return biases with which a readout predicts the mean row for every document."""
    return torch.log(mean + 1e-6)

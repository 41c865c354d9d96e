"""The inference network: a document's words to the logits of its bits (eq:Q)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from fewbits.learning.bags import Bags

CAN_MULTIPLY_SPARSE: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]  # see add_gradient


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
        self.gradient_is_old = True  # whether the next step's gradient replaces what is there
        self.bias = nn.Parameter(torch.zeros(widths[0]))
        self.layers = nn.ModuleList(_linear(before, after, generator) for before, after in pairwise(widths))

    def forward(self, rows: Bags, generator: torch.Generator | None = None) -> Tensor:
        """Logits psi (documents, bits)."""
        values = rows.values
        if self.training and self.word_dropout:
            values = _drop(values, self.word_dropout, generator)
        x = self._first_layer(rows, values) + self.bias
        for number, layer in enumerate(self.layers, 1):
            x = self.activation(x)
            if self.training and self.dropout and number == len(self.layers):
                x = _drop(x, self.dropout, generator)
            x = layer(x)
        return x

    def _first_layer(self, rows: Bags, values: Tensor) -> Tensor:
        if torch.is_grad_enabled() and CAN_MULTIPLY_SPARSE:
            return _apply_words(self.words, rows, values, self)
        return rows.times(self.words, values)

    def add_gradient(self, rows: Bags, values: Tensor, gradient: Tensor) -> None:
        """Add a batch's part to the first layer's gradient, in the block of memory that is there.

        A new block of words x width for each step would cost more time than all else that is done in it. On a CPU torch
        multiplies CSR rows by MKL alone; without it the layer's own gradient serves.
        """
        starts, documents, places = rows.by_word
        transposed = sparse_csr_tensor(starts, documents, values[places], (len(self.words), len(rows)))
        if self.words.grad is None:
            self.words.grad = torch.zeros_like(self.words)
        torch.addmm(self.words.grad, transposed, gradient, beta=0 if self.gradient_is_old else 1, out=self.words.grad)
        self.gradient_is_old = False


def sparse_csr_tensor(starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A CSR tensor of what scipy has already checked; torch warns of them all as not yet final."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(starts, columns, values, shape, check_invariants=False)


def _apply_words(table: Tensor, rows: Bags, values: Tensor, encoder: Encoder) -> Tensor:
    apply: Callable[..., Tensor] = _WordsTimesTable.apply
    return apply(table, rows, values, encoder)


class _WordsTimesTable(torch.autograd.Function):
    """Sparse rows times the first layer's weights, whose gradient goes where the encoder keeps it."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Bags, values: Tensor, encoder: Encoder) -> Tensor:
        ctx.rows, ctx.values, ctx.encoder = rows, values, encoder
        return rows.times(table, values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None, None]:
        ctx.encoder.add_gradient(ctx.rows, ctx.values, gradient)
        return None, None, None, None


def _linear(before: int, after: int, generator: torch.Generator | None) -> nn.Linear:
    layer = nn.Linear(before, after)
    bound = (6 / (before + after)) ** 0.5  # Glorot
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.zero_()
    return layer


def _drop(values: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    kept = torch.rand(values.shape, generator=generator, device=values.device).ge_(share)
    return values * kept.mul_(1 / (1 - share))

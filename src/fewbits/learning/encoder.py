"""The inference network: a document's words to the logits of its bits (eq:Q)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from fewbits.learning.bags import Bags

MOST_WORDS = 0.6  # words of a batch per word of the vocabulary up to which it pays to single them out


class Encoder(nn.Module):
    """Fully connected layers with ReLU on sparse input; with no hidden layer the logits are linear in the words."""

    def __init__(
        self,
        n_features: int,
        n_bits: int,
        *,
        hidden: Sequence[int] = (),
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        initial_scale: float = 0.1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        widths = [*hidden, n_bits]
        self.dropout = dropout
        self.word_dropout = word_dropout
        # Rows have length 1, so Glorot's scale would leave the first layer's values near 0.01 and training would crawl.
        first = torch.randn(n_features, widths[0], generator=generator) * initial_scale
        self.words = nn.Parameter(first)  # (features, width)
        self.used: Tensor | None = None  # rows of its gradient that are not zero
        self.bias = nn.Parameter(torch.zeros(widths[0]))
        self.layers = nn.ModuleList(_linear(before, after, generator) for before, after in pairwise(widths))

    def forward(self, rows: Bags, generator: torch.Generator | None = None) -> Tensor:
        """Logits psi (documents, bits)."""
        values = rows.values
        if self.training and self.word_dropout:
            values = _drop(values, self.word_dropout, generator)
        x = self._first_layer(rows, values) + self.bias
        for number, layer in enumerate(self.layers, 1):
            x = torch.relu(x)
            if self.training and self.dropout and number == len(self.layers):
                x = _drop(x, self.dropout, generator)
            x = layer(x)
        return x

    def _first_layer(self, rows: Bags, values: Tensor) -> Tensor:
        if not torch.is_grad_enabled() or len(rows.words) > MOST_WORDS * len(self.words):
            self.used = None  # what the last batch left in the gradient goes as a whole
            return rows.times(self.words, values)
        # A batch has few of the words: only they take part, so that the gradient is as small as they are.
        used, places = torch.unique(rows.words, return_inverse=True)
        table = _apply_take(self.words, used, self)  # (words used, width)
        return embedding_bag(places, table, rows.starts, mode="sum", per_sample_weights=values)

    def put_gradient(self, used: Tensor, gradient: Tensor) -> None:
        """Set the first layer's gradient, which is zero but for the words of a batch, without a new block of memory.

        A block of words x width for each step would cost more time than all else that is done in it.
        """
        if self.words.grad is None or self.used is None:
            self.words.grad = torch.zeros_like(self.words)
        else:
            self.words.grad.index_fill_(0, self.used, 0.0)
        self.words.grad.index_copy_(0, used, gradient)
        self.used = used


def _apply_take(table: Tensor, used: Tensor, encoder: Encoder) -> Tensor:
    apply: Callable[..., Tensor] = _Take.apply
    return apply(table, used, encoder)


class _Take(torch.autograd.Function):
    """Rows of the first layer's weights, whose gradient goes where the encoder keeps it."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, used: Tensor, encoder: Encoder) -> Tensor:
        ctx.used, ctx.encoder = used, encoder
        return table.index_select(0, used)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None]:
        ctx.encoder.put_gradient(ctx.used, gradient)
        return None, None, None


def _linear(before: int, after: int, generator: torch.Generator | None) -> nn.Linear:
    layer = nn.Linear(before, after)
    bound = (6 / (before + after)) ** 0.5  # Glorot
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.zero_()
    return layer


def _drop(values: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    kept = torch.empty_like(values).bernoulli_(1 - share, generator=generator)
    return values * kept / (1 - share)

"""The inference network: a document's words to the logits of its bits (eq:Q)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from fewbits.learning.bags import Bags


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
        self.bias = nn.Parameter(torch.zeros(widths[0]))
        self.layers = nn.ModuleList(_linear(before, after, generator) for before, after in pairwise(widths))

    def forward(self, rows: Bags, generator: torch.Generator | None = None) -> Tensor:
        """Logits psi (documents, bits)."""
        values = rows.values
        if self.training and self.word_dropout:
            values = _drop(values, self.word_dropout, generator)
        x = rows.times(self.words, values) + self.bias
        for number, layer in enumerate(self.layers, 1):
            x = torch.relu(x)
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
    kept = torch.empty_like(values).bernoulli_(1 - share, generator=generator)
    return values * kept / (1 - share)

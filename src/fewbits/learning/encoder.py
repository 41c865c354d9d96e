"""The inference network: a document's words to the logits of its bits (eq:Q)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fewbits.learning.bags import Bags


class GradientApart(NamedTuple):
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
        self.keeps_gradient_apart = False  # for an optimiser that moves the rows of a batch's words alone
        self.gradient_apart: GradientApart | None = None
        self.bias = nn.Parameter(torch.zeros(widths[0]))
        self.layers = nn.ModuleList(_linear(before, after, generator) for before, after in pairwise(widths))

    def forward(self, rows: Bags, generator: torch.Generator | None = None) -> Tensor:
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

    def _first_layer(self, rows: Bags, values: Tensor) -> Tensor:
        if self.keeps_gradient_apart and torch.is_grad_enabled():
            apply: Callable[..., Tensor] = _FirstLayer.apply
            return apply(self.words, self.bias, rows, values, self)
        return rows.times(self.words, values) + self.bias


class _FirstLayer(torch.autograd.Function):
    """Sparse rows times the first layer's weights, whose gradient is kept apart: a table of words x width to hold it
    would take longer to fill than the product itself."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, bias: Tensor, rows: Bags, values: Tensor, encoder: Encoder) -> Tensor:
        ctx.values, ctx.encoder = values, encoder
        return rows.times(table, values).add_(bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None, None, None]:
        if ctx.encoder.gradient_apart is not None:
            raise RuntimeError("an encoder that keeps its gradient apart sees one batch in a step")
        ctx.encoder.gradient_apart = GradientApart(ctx.values, gradient)
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

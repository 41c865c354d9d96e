"""The networks of a Bernoulli variational auto-encoder with an optional classifier on its code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fewbits.learning.bags import Bags
from fewbits.learning.encoder import CAN_MULTIPLY_SPARSE, Encoder
from fewbits.learning.readout import SoftmaxReadout


@dataclass(frozen=True)
class Shape:
    """Sizes and starting scales of the networks."""

    n_bits: int
    hidden: Sequence[int] = ()
    dropout: float = 0.0
    word_dropout: float = 0.0
    initial_scale: float = 0.03
    noise: bool = False


class Model(nn.Module):
    """Encoder, decoder, and where there are labels a classifier; all start from one generator."""

    def __init__(
        self, shape: Shape, mean_row: Tensor, mean_labels: Tensor | None, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.encoder = Encoder(
            len(mean_row),
            shape.n_bits,
            hidden=shape.hidden,
            dropout=shape.dropout,
            word_dropout=shape.word_dropout,
            initial_scale=shape.initial_scale,
            generator=generator,
        )
        # The biases start as if every document were the mean one: the codes need not learn what all have in common.
        self.decoder = SoftmaxReadout(shape.n_bits, _log(mean_row), generator=generator)
        self.classifier = None
        if mean_labels is not None:
            self.classifier = SoftmaxReadout(shape.n_bits, _log(mean_labels), generator=generator)
        self.noise_scale = nn.Linear(shape.n_bits, shape.n_bits) if shape.noise else None
        if self.noise_scale is not None:
            nn.init.zeros_(self.noise_scale.weight)
            nn.init.constant_(self.noise_scale.bias, -2.0)  # a standard deviation near 0.13 to begin with

    def noise(self, logits: Tensor, generator: torch.Generator | None) -> Tensor | None:
        """Data-dependent noise on the code before the decoder, sigma(x) eps, as NASH has it; None where not wanted.

        sigma is a linear map of the logits through softplus; its own gradient is the pathwise one.
        """
        if self.noise_scale is None or not self.training:
            return None
        spread = nn.functional.softplus(self.noise_scale(logits))  # (documents, bits)
        return spread * torch.randn(logits.shape, generator=generator, device=logits.device)

    def clear_gradients(self) -> None:
        """Forget the gradients of the last step."""
        for parameter in self.parameters():
            if parameter is not self.encoder.words or not CAN_MULTIPLY_SPARSE:
                parameter.grad = None
        self.encoder.gradient_is_old = True

    def logits(self, rows: Bags, generator: torch.Generator | None = None) -> Tensor:
        """Logits psi of a batch (documents, bits)."""
        output: Tensor = self.encoder(rows, generator)
        return output


def _log(mean: Tensor) -> Tensor:
    return torch.log(mean + 1e-6)

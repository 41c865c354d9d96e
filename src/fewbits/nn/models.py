"""The networks of a Bernoulli variational auto-encoder with an optional classifier on its code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fewbits.nn.layers import Encoder, SoftmaxReadout, SparseBatch


@dataclass(frozen=True)
class Shape:
    """Sizes and starting scales of the networks."""

    n_bits: int
    hidden: Sequence[int] = ()
    dropout: float = 0.0
    word_dropout: float = 0.0
    initial_scale: float = 0.03
    noise: bool | float = False  # True for data-dependent noise; a number for its fixed spread
    has_large_labels: bool = False  # whether the classifier starts at Glorot's scale


class Networks(nn.Module):
    """What a training asks of networks: an encoder, a decoder, and where there are labels a classifier."""

    encoder: Encoder
    decoder: SoftmaxReadout
    classifier: SoftmaxReadout | None

    @property
    def encoders(self) -> list[Encoder]:
        """All there are: some methods have more than one."""
        return [module for module in self.modules() if isinstance(module, Encoder)]


class Model(Networks):
    """A Bernoulli variational auto-encoder; all starts from one generator."""

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
        self.decoder = SoftmaxReadout(shape.n_bits, log_of_mean(mean_row), generator=generator)
        self.classifier = None
        if mean_labels is not None:
            large = {"initial_scale": (2 / (shape.n_bits + len(mean_labels))) ** 0.5}
            start = large if shape.has_large_labels else {}
            self.classifier = SoftmaxReadout(shape.n_bits, log_of_mean(mean_labels), **start, generator=generator)
        self.fixed_noise = 0.0 if isinstance(shape.noise, bool) else float(shape.noise)
        self.noise_scale = nn.Linear(shape.n_bits, shape.n_bits) if shape.noise is True else None
        if self.noise_scale is not None:
            nn.init.zeros_(self.noise_scale.weight)
            nn.init.constant_(self.noise_scale.bias, -2.0)  # a standard deviation near 0.13 to begin with

    def noise(self, logits: Tensor, generator: torch.Generator | None) -> Tensor | None:
        """Noise on the code before the decoder, sigma eps, as NASH has it; None where not wanted.

        sigma is a number, or a linear map of the logits through softplus; its own gradient is the pathwise one.
        """
        if not self.training or (self.noise_scale is None and not self.fixed_noise):
            return None
        spread = torch.tensor(self.fixed_noise, device=logits.device)
        if self.noise_scale is not None:
            spread = nn.functional.softplus(self.noise_scale(logits))  # (documents, bits)
        return spread * torch.randn(logits.shape, generator=generator, device=logits.device)

    def logits(self, rows: SparseBatch, generator: torch.Generator | None = None) -> Tensor:
        """Logits psi of a batch (documents, bits)."""
        output: Tensor = self.encoder(rows, generator)
        return output


def log_of_mean(mean: Tensor) -> Tensor:
    """Biases with which every document is taken for the mean one."""
    return torch.log(mean + 1e-6)

"""The networks that are trained: the Bernoulli VAE, the Gaussian VAE of VDSH, and the unfolded stack of RBMs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fewbits.nn.layers import Encoder, FirstLayer, SoftmaxReadout, SparseBatch, log_of_mean
from fewbits.nn.nested import NestedReadout
from fewbits.nn.rbm import RBM


class Encoding(NamedTuple):
    """The outputs of a model's encoders for a batch."""

    outputs: list[Tensor]  # of each encoder: (documents, width)
    first_layers: list[FirstLayer]  # of each encoder, for an optimizer that updates single rows


class Networks(nn.Module):
    """An encoder, a decoder, and a classifier if there are labels."""

    encoder: Encoder
    decoder: SoftmaxReadout | NestedReadout
    classifier: SoftmaxReadout | NestedReadout | None

    @property
    def encoders(self) -> list[Encoder]:
        """Return all encoders; some methods have more than one."""
        return [module for module in self.modules() if isinstance(module, Encoder)]

    def encode(self, rows: SparseBatch, generator: torch.Generator | None = None) -> Encoding:
        """Encode a batch with every encoder."""
        outputs, first_layers = [], []
        for encoder in self.encoders:
            first_layers.append(encoder.first_layer(rows, generator))
            outputs.append(encoder.later_layers(first_layers[-1].outputs, generator))
        return Encoding(outputs, first_layers)


@dataclass(frozen=True)
class Shape:
    """Sizes and initial scales of a Bernoulli VAE's networks."""

    n_bits: int
    hidden: Sequence[int] = ()
    dropout: float = 0.0
    word_dropout: float = 0.0
    initial_scale: float = 0.03
    noise: bool | float = False  # True for data-dependent noise; a number for its fixed standard deviation
    has_large_labels: bool = False  # whether the classifier starts at Glorot's scale
    prefixes: Sequence[int] = ()  # lengths of a nested code, each with readouts of its own; empty if it is not nested


class Model(Networks):
    """A Bernoulli variational auto-encoder with an optional classifier on its code.

    Its encoder gives the logits psi of q(z|x) (eq:Q), its decoder the likelihood of the words (eq:decoder). A nested
    code has a decoder and a classifier for each prefix.
    """

    def __init__(
        self,
        shape: Shape,
        mean_row: Tensor,
        mean_labels: Tensor | None,
        generator: torch.Generator | None = None,
        decoded_words: Tensor | None = None,  # columns of the words that the decoder predicts; by default all
    ) -> None:
        super().__init__()
        self.prefixes = tuple(shape.prefixes) or (shape.n_bits,)
        self.encoder = Encoder(
            len(mean_row),
            shape.n_bits,
            hidden=shape.hidden,
            dropout=shape.dropout,
            word_dropout=shape.word_dropout,
            initial_scale=shape.initial_scale,
            generator=generator,
        )
        # The biases start as if every document were the mean one: codes need not learn what all documents share.
        decoded = mean_row if decoded_words is None else mean_row[decoded_words]
        self.decoder = self._readout(log_of_mean(decoded), generator)
        self.classifier = None
        if mean_labels is not None:
            large = {"initial_scale": (2 / (shape.n_bits + len(mean_labels))) ** 0.5}
            start = large if shape.has_large_labels else {}
            self.classifier = self._readout(log_of_mean(mean_labels), generator, **start)
        self.fixed_noise = 0.0 if isinstance(shape.noise, bool) else float(shape.noise)
        self.noise_scale = nn.Linear(shape.n_bits, shape.n_bits) if shape.noise is True else None
        if self.noise_scale is not None:
            nn.init.zeros_(self.noise_scale.weight)
            nn.init.constant_(self.noise_scale.bias, -2.0)  # an initial standard deviation of about 0.13

    def _readout(
        self, bias: Tensor, generator: torch.Generator | None, **start: float
    ) -> SoftmaxReadout | NestedReadout:
        def make(length: int) -> SoftmaxReadout:
            return SoftmaxReadout(length, bias, **start, generator=generator)

        return make(self.prefixes[0]) if len(self.prefixes) == 1 else NestedReadout(self.prefixes, make)

    def noise(self, logits: Tensor, generator: torch.Generator | None) -> Tensor | None:
        """Draw NASH's noise sigma eps on the code before the decoder; None if there is none.

        sigma is a number, or softplus of a linear map of the logits, which is trained by the pathwise gradient.
        """
        if not self.training or (self.noise_scale is None and not self.fixed_noise):
            return None
        sigma = torch.tensor(self.fixed_noise, device=logits.device)
        if self.noise_scale is not None:
            sigma = nn.functional.softplus(self.noise_scale(logits))  # (documents, bits)
        return sigma * torch.randn(logits.shape, generator=generator, device=logits.device)


class GaussianNetworks(Networks):
    """The networks of VDSH: encoders give mean and log variance of a shared variable and optionally a private one.

    The decoder sees the sum of the two variables, the classifier the shared one only.
    """

    def __init__(
        self,
        n_bits: int,
        mean_row: Tensor,
        mean_labels: Tensor | None,
        *,
        hidden: Sequence[int],
        dropout: float,
        initial_scale: float,
        is_private: bool,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        shape: dict[str, Any] = {"hidden": hidden, "dropout": dropout, "initial_scale": initial_scale}
        self.encoder = Encoder(len(mean_row), 2 * n_bits, **shape, generator=generator)  # means and log variances
        self.private = Encoder(len(mean_row), 2 * n_bits, **shape, generator=generator) if is_private else None
        self.decoder = SoftmaxReadout(n_bits, log_of_mean(mean_row), generator=generator)
        self.classifier = None
        if mean_labels is not None:
            self.classifier = SoftmaxReadout(n_bits, log_of_mean(mean_labels), generator=generator)


class UnfoldedStack(Networks):
    """Encoder and decoder initialised with the weights of stacked RBMs; the two no longer share them."""

    def __init__(self, rbms: Sequence[RBM], generator: torch.Generator | None = None) -> None:
        super().__init__()
        first, *later = rbms
        widths = [rbm.weights.shape[1] for rbm in rbms]
        self.encoder = Encoder(
            len(first.weights), widths[-1], hidden=widths[:-1], activation=torch.sigmoid, generator=generator
        )
        self.unfolding = nn.ModuleList(nn.Linear(above, below) for above, below in pairwise(reversed(widths)))
        self.decoder = SoftmaxReadout(widths[0], first.visible_bias, generator=generator)
        self.classifier = None
        with torch.no_grad():
            self.encoder.words.copy_(first.weights)
            self.encoder.bias.copy_(first.hidden_bias)
            self.decoder.table[:, :-1] = first.weights
            for rbm, up, down in zip(later, self.encoder.layers, reversed(self.unfolding), strict=True):
                up.load_state_dict({"weight": rbm.weights.T, "bias": rbm.hidden_bias})
                down.load_state_dict({"weight": rbm.weights, "bias": rbm.visible_bias})

"""A Gaussian variational auto-encoder on sparse rows, with an optional classifier on its shared part (VDSH)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fewbits.nn.layers import Encoder, SoftmaxReadout, SparseBatch
from fewbits.nn.losses import Batch
from fewbits.nn.models import Networks, log_of_mean
from fewbits.nn.schedules import ramp


class GaussianNetworks(Networks):
    """An encoder gives means and spreads of a shared variable and, where wanted, another those of a private one.

    The decoder sees their sum, the classifier the shared one alone.
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

    def variables(self, rows: SparseBatch, generator: torch.Generator | None) -> list[tuple[Tensor, Tensor]]:
        """Means and log variances (documents, bits) of the shared variable and of the private one, if there is one.

        A log variance goes through a sigmoid, as in the method's released code: the spread is never below 1.
        """
        encoders = [self.encoder] if self.private is None else [self.encoder, self.private]
        outputs = [torch.chunk(encoder(rows, generator), 2, dim=1) for encoder in encoders]
        return [(mean, torch.sigmoid(spread)) for mean, spread in outputs]


@dataclass(frozen=True)
class GaussianObjective:
    """Words, divergence and labels; weights are the values at the start of training and at its end."""

    kl: tuple[float, float]
    label: tuple[float, float]

    def begin_epoch(self, epoch: int) -> None:
        """Nothing here goes by epochs."""

    def end_epoch(self) -> dict[str, float]:
        """Nothing beside the terms."""
        return {}

    def __call__(
        self, model: GaussianNetworks, batch: Batch, done: float, generator: torch.Generator | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss of a batch when a share of training is ``done``, and its terms for the history."""
        variables = model.variables(batch.rows, generator)
        drawn = [
            mean + torch.exp(spread / 2) * torch.randn(mean.shape, generator=generator, device=mean.device)
            for mean, spread in variables
        ]
        terms = {
            "reconstruction": model.decoder.loss(batch.words)(torch.stack(drawn).sum(dim=0)).mean(),
            "kl": ramp(*self.kl, done)
            * torch.stack([gaussian_kl(*variable) for variable in variables]).sum(dim=0).mean(),
        }
        if model.classifier is not None and batch.labels is not None:
            terms["label"] = ramp(*self.label, done) * model.classifier.loss(batch.labels)(drawn[0]).mean()
        return torch.stack(list(terms.values())).sum(), {name: term.detach() for name, term in terms.items()}


def gaussian_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, variance) || N(0, 1)), summed over dimensions: (documents,)."""
    return 0.5 * (log_variance.exp() + mean**2 - 1 - log_variance).sum(dim=1)

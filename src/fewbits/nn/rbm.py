"""Restricted Boltzmann machines, one on another, and the auto-encoder that they unfold into (semantic hashing)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fewbits.nn.layers import Encoder, SoftmaxReadout
from fewbits.nn.losses import Batch
from fewbits.nn.models import Networks, log_of_mean
from fewbits.nn.schedules import ramp

MOMENTUM = 0.9


class BoltzmannMachine:
    """Binary hidden units on visible ones that are binary, or the words of a document.

    A document's words are drawn from one softmax, as often as its row sums to (the constrained Poisson model).
    """

    def __init__(self, visible_bias: Tensor, n_hidden: int, *, is_words: bool, generator: torch.Generator) -> None:
        self.is_words = is_words
        self.generator = generator
        self.weights = torch.randn(len(visible_bias), n_hidden, generator=generator) * 0.01  # (visible, hidden)
        self.visible_bias = visible_bias.clone()
        self.hidden_bias = torch.zeros(n_hidden)
        self._speed = [torch.zeros_like(part) for part in self._parts]

    @property
    def _parts(self) -> list[Tensor]:
        return [self.weights, self.visible_bias, self.hidden_bias]

    def hidden(self, visible: Tensor) -> Tensor:
        """Probabilities of the hidden units."""
        return torch.sigmoid(visible @ self.weights + self.hidden_bias)

    def visible(self, hidden: Tensor, totals: Tensor) -> Tensor:
        """Expected visible units: probabilities, or counts of words that sum to the totals."""
        scores = hidden @ self.weights.T + self.visible_bias
        return totals[:, None] * torch.softmax(scores, dim=1) if self.is_words else torch.sigmoid(scores)

    def step(self, visible: Tensor, learning_rate: float) -> float:
        """One step of contrastive divergence (CD-1); the reconstruction's mean squared error before it."""
        hidden = self.hidden(visible)
        drawn = torch.bernoulli(hidden, generator=self.generator)
        again = self.visible(drawn, visible.sum(dim=1))
        hidden_again = self.hidden(again)
        directions = (
            visible.T @ hidden - again.T @ hidden_again,
            (visible - again).sum(dim=0),
            (hidden - hidden_again).sum(dim=0),
        )
        for part, speed, direction in zip(self._parts, self._speed, directions, strict=True):
            speed.mul_(MOMENTUM).add_(direction, alpha=learning_rate / len(visible))
            part.add_(speed)
        return float(((visible - again) ** 2).sum(dim=1).mean())


def train_stack(
    X: Any, widths: Sequence[int], *, epochs: int, batch_size: int, learning_rate: float, seed: int
) -> tuple[list[BoltzmannMachine], list[list[float]]]:
    """Machines trained one on another, each on the probabilities that the last one gives; and their errors by epoch."""
    generator = torch.Generator().manual_seed(seed)
    machines: list[BoltzmannMachine] = []
    errors: list[list[float]] = []
    visible = X
    for width in widths:
        bias = torch.zeros(widths[len(machines) - 1])
        if not machines:
            bias = log_of_mean(torch.from_numpy(np.asarray(X.mean(axis=0), dtype=np.float32).ravel()))
        machine = BoltzmannMachine(bias, width, is_words=not machines, generator=generator)
        errors.append([])
        for epoch in range(epochs):
            batches = list(_row_batches(X.shape[0], batch_size, seed * 1_000_003 + epoch))
            total = sum(machine.step(_dense(visible, rows), learning_rate) * len(rows) for rows in batches)
            errors[-1].append(total / X.shape[0])
        machines.append(machine)
        in_order = np.array_split(np.arange(X.shape[0]), -(-X.shape[0] // batch_size))
        visible = torch.cat([machine.hidden(_dense(visible, rows)) for rows in in_order])  # (documents, width)
    return machines, errors


def _dense(visible: Any, rows: Any) -> Tensor:
    """Some rows; of the documents themselves one batch at a time is dense."""
    return visible[rows] if isinstance(visible, Tensor) else torch.from_numpy(visible[rows].toarray())


def _row_batches(count: int, size: int, seed: int) -> Iterator[Any]:
    return iter(np.array_split(np.random.default_rng(seed).permutation(count), -(-count // size)))


class UnfoldedStack(Networks):
    """Encoder and decoder with the machines' weights, free to part from each other."""

    def __init__(self, machines: Sequence[BoltzmannMachine], generator: torch.Generator | None = None) -> None:
        super().__init__()
        first, *later = machines
        widths = [machine.weights.shape[1] for machine in machines]
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
            for machine, up, down in zip(later, self.encoder.layers, reversed(self.unfolding), strict=True):
                up.load_state_dict({"weight": machine.weights.T, "bias": machine.hidden_bias})
                down.load_state_dict({"weight": machine.weights, "bias": machine.visible_bias})


@dataclass(frozen=True)
class ReconstructionThroughNoise:
    """The words explained from codes whose logits have growing noise on them: only 0 and 1 come through."""

    noise: tuple[float, float]  # its spread at the start of training and at the end

    def begin_epoch(self, epoch: int) -> None:
        """Nothing here goes by epochs."""

    def end_epoch(self) -> dict[str, float]:
        """Nothing beside the terms."""
        return {}

    def __call__(
        self, model: UnfoldedStack, batch: Batch, done: float, generator: torch.Generator | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss of a batch when a share of training is ``done``, and its terms for the history."""
        logits = model.encoder(batch.rows, generator)
        noise = torch.randn(logits.shape, generator=generator, device=logits.device)
        x = torch.sigmoid(logits + ramp(*self.noise, done) * noise)
        for layer in model.unfolding:
            x = torch.sigmoid(layer(x))
        loss = model.decoder.loss(batch.words)(x).mean()
        confidence = (torch.sigmoid(logits.detach()) - 0.5).abs().mean() * 2
        return loss, {"reconstruction": loss.detach(), "confidence": confidence}

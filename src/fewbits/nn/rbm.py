"""Stacked restricted Boltzmann machines (RBMs), trained by contrastive divergence (semantic hashing)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fewbits.nn.layers import log_of_mean

MOMENTUM = 0.9


class RBM:
    """Binary hidden units on visible units that are binary, or the words of a document.

    The words are drawn from one softmax, as many as the row's sum (the constrained Poisson model).
    """

    def __init__(self, visible_bias: Tensor, n_hidden: int, *, is_words: bool, generator: torch.Generator) -> None:
        self.is_words = is_words
        self.generator = generator
        self.weights = torch.randn(len(visible_bias), n_hidden, generator=generator) * 0.01  # (visible, hidden)
        self.visible_bias = visible_bias.clone()
        self.hidden_bias = torch.zeros(n_hidden)
        self._velocities = [torch.zeros_like(parameter) for parameter in self._parameters]

    @property
    def _parameters(self) -> list[Tensor]:
        return [self.weights, self.visible_bias, self.hidden_bias]

    def hidden(self, visible: Tensor) -> Tensor:
        """Compute the probabilities of the hidden units."""
        return torch.sigmoid(visible @ self.weights + self.hidden_bias)

    def visible(self, hidden: Tensor, totals: Tensor) -> Tensor:
        """Compute the expected visible units: probabilities, or word counts that sum to the totals."""
        scores = hidden @ self.weights.T + self.visible_bias
        return totals[:, None] * torch.softmax(scores, dim=1) if self.is_words else torch.sigmoid(scores)

    def step(self, visible: Tensor, learning_rate: float) -> float:
        """Take one step of contrastive divergence (CD-1); return the mean squared reconstruction error before it."""
        hidden = self.hidden(visible)
        sampled = torch.bernoulli(hidden, generator=self.generator)
        reconstruction = self.visible(sampled, visible.sum(dim=1))
        hidden_again = self.hidden(reconstruction)
        directions = (
            visible.T @ hidden - reconstruction.T @ hidden_again,
            (visible - reconstruction).sum(dim=0),
            (hidden - hidden_again).sum(dim=0),
        )
        for parameter, velocity, direction in zip(self._parameters, self._velocities, directions, strict=True):
            velocity.mul_(MOMENTUM).add_(direction, alpha=learning_rate / len(visible))
            parameter.add_(velocity)
        return float(((visible - reconstruction) ** 2).sum(dim=1).mean())


def train_stack(
    X: Any, widths: Sequence[int], *, epochs: int, batch_size: int, learning_rate: float, seed: int
) -> tuple[list[RBM], list[list[float]]]:
    """Train RBMs one on another, each on the hidden probabilities of the last; return them and their errors by epoch.

    Only one batch of documents at a time is dense.
    """
    generator = torch.Generator().manual_seed(seed)
    rbms: list[RBM] = []
    errors: list[list[float]] = []
    visible = X
    batch_count = -(-X.shape[0] // batch_size)
    for level, width in enumerate(widths):
        bias = torch.zeros(widths[level - 1])
        if level == 0:
            bias = log_of_mean(torch.from_numpy(np.asarray(X.mean(axis=0), dtype=np.float32).ravel()))
        rbm = RBM(bias, width, is_words=level == 0, generator=generator)
        errors.append([])
        for epoch in range(epochs):
            order = np.random.default_rng(seed * 1_000_003 + epoch).permutation(X.shape[0])
            batches = np.array_split(order, batch_count)
            total = sum(rbm.step(_dense(visible, rows), learning_rate) * len(rows) for rows in batches)
            errors[-1].append(total / X.shape[0])
        rbms.append(rbm)
        batches = np.array_split(np.arange(X.shape[0]), batch_count)
        visible = torch.cat([rbm.hidden(_dense(visible, rows)) for rows in batches])  # (documents, width)
    return rbms, errors


def _dense(visible: Any, rows: Any) -> Tensor:
    return visible[rows] if isinstance(visible, Tensor) else torch.from_numpy(visible[rows].toarray())

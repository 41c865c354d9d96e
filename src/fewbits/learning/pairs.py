"""The pair loss: codes of documents that belong together come near, those of others go apart (L'' of eq:sph)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fewbits.learning.estimators import GradientEstimator


def expected_distances(left: Tensor, right: Tensor) -> Tensor:
    """E d(z, z') = sum_k p_k + p'_k - 2 p_k p'_k for every pair of two sets of probabilities: (left, right)."""
    return left @ (1 - right).T + (1 - left) @ right.T


@dataclass(frozen=True)
class PairLoss:
    """What a pair costs at distance d: d if it belongs together, else -d, or max(margin - d, 0) with a margin.

    The paper's repulsion has no end; with a margin, a share of the bits, pairs far enough apart cost nothing. Which
    pairs belong together is told by a sign: 1 if they do, -1 if they do not, 0 if it is not known.
    """

    margin: float | None = None

    def cost(self, distances: Tensor, signs: Tensor, n_bits: int) -> Tensor:
        """Costs of pairs at some distances."""
        apart = -distances if self.margin is None else torch.relu(self.margin * n_bits - distances)
        return torch.where(signs > 0, distances, apart) * (signs != 0)

    def expected(self, logits: Tensor, signs: Tensor) -> Tensor:
        """Mean cost of documents 0 and m, 1 and m + 1, …, of m pairs, by its expectation."""
        first, second = torch.sigmoid(logits[: 2 * len(signs)]).chunk(2)
        distances = (first + second - 2 * first * second).sum(dim=1)
        return self.cost(distances, signs, logits.shape[1]).mean()

    def sampled(
        self, logits: Tensor, signs: Tensor, estimator: GradientEstimator, generator: torch.Generator | None
    ) -> Tensor:
        """The same from codes that are drawn, with an estimator's gradient, as in the paper."""
        n_bits = logits.shape[1]

        def cost(codes: Tensor) -> Tensor:
            first, second = codes[:, :n_bits], codes[:, n_bits:]
            # |z - z'| written as a polynomial, which straight-through gradients can follow
            distances = (first + second - 2 * first * second).sum(dim=1)
            return self.cost(distances, signs, n_bits)

        both = torch.cat(logits[: 2 * len(signs)].chunk(2), dim=1)  # (pairs, 2 bits): one u a document and bit
        return estimator(both, cost, generator).mean()

    def balanced(self, logits: Tensor, signs: Tensor) -> Tensor:
        """Expected cost over all pairs of a batch, those that belong together counting as much as the others."""
        p = torch.sigmoid(logits)
        costs = self.cost(expected_distances(p, p), signs, logits.shape[1])  # (documents, documents)
        together, apart = signs > 0, signs < 0
        return (costs * together).sum() / together.sum().clamp(min=1) + (costs * apart).sum() / apart.sum().clamp(min=1)

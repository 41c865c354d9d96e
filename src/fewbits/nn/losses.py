"""The Kullback-Leibler divergence of a document's code from the prior, in closed form (eq:kl)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from fewbits.nn.gradient_estimators import GradientEstimator
from fewbits.nn.layers import ReadoutLoss, SparseBatch
from fewbits.nn.models import Model
from fewbits.nn.schedules import ramp


def bernoulli_kl(logits: Tensor, prior: Tensor) -> Tensor:
    """KL(Bernoulli(sigmoid(psi)) || Bernoulli(gamma)), summed over bits: (documents,).

    ``prior`` is gamma, a number or one for each bit, between 0 and 1.
    """
    apply: Callable[[Tensor, Tensor], Tensor] = _BernoulliKL.apply
    return apply(logits, prior)


class _BernoulliKL(torch.autograd.Function):
    """Value and gradient as one node: a chain of small ones takes longer to follow than to compute."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, prior: Tensor) -> Tensor:
        p = torch.sigmoid(logits)
        further = logits - torch.logit(prior)  # psi - logit(gamma)
        ctx.save_for_backward(p, further)
        # log p = psi - softplus(psi) and log(1 - p) = -softplus(psi)
        return (p * further - softplus(logits) - torch.log1p(-prior)).sum(dim=1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        p, further = ctx.saved_tensors
        return grad[:, None] * (p * (1 - p) * further), None


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


@dataclass(frozen=True, eq=False)
class Batch:
    """Documents of one step."""

    rows: SparseBatch  # what the encoder sees
    words: SparseBatch  # what the decoder explains
    labels: SparseBatch | None = None  # spread evenly over a document's labels; an unlabelled row is empty
    signs: Tensor | None = None  # who belongs with whom: (documents, documents), or (pairs,), see PairLoss


@dataclass(frozen=True)
class Weights:
    """Weights of the terms; a pair is the value at the start of training and at its end."""

    reconstruction: float = 1.0
    kl: tuple[float, float] = (0.1, 0.1)  # lambda
    prior: float | tuple[float, ...] = 0.5  # gamma
    label: tuple[float, float] = (0.0, 0.0)  # alpha
    pair: tuple[float, float] = (0.0, 0.0)  # beta


class WeightedSum:
    """Several losses of a code as one, flips included."""

    def __init__(self, parts: list[tuple[float, ReadoutLoss]]) -> None:
        self.parts = parts
        self.values: list[Tensor] = []  # of the last evaluation, for the history

    def __call__(self, codes: Tensor) -> Tensor:
        """Weighted sum of the losses."""
        values = [_weighed(weight, loss(codes)) for weight, loss in self.parts]
        self.values = [value.detach() for value in values]
        return _sum(values)

    def of_both(self, codes: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """Weighted sums of the losses of two codes; only those of the first have a gradient."""
        evaluated = [(weight, *loss.of_both(codes, others)) for weight, loss in self.parts]
        values = [_weighed(weight, value) for weight, value, _ in evaluated]
        self.values = [value.detach() for value in values]
        return _sum(values), _sum([_weighed(weight, value) for weight, _, value in evaluated])

    def with_flips(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Weighted sum of the losses, and of their changes for each flipped bit."""
        evaluated = [(weight, *loss.with_flips(codes)) for weight, loss in self.parts]
        values = [_weighed(weight, value) for weight, value, _ in evaluated]
        self.values = [value.detach() for value in values]
        return _sum(values), _sum([_weighed(weight, change) for weight, _, change in evaluated])


def _weighed(weight: float, values: Tensor) -> Tensor:
    return values if weight == 1 else weight * values


def _sum(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(dim=0)


class BitBalance:
    """How sure the bits of an epoch are and how balanced, as sums.

    The logits themselves would be a block a step that stays among large ones that go: no large one fits again where the
    last one was, and memory grows by gigabytes.
    """

    def __init__(self) -> None:
        self._documents = 0
        self._ones: Tensor | None = None  # (bits,): sums of p
        self._sureness: Tensor | None = None  # (bits,): sums of |p - 1/2|

    def add(self, logits: Tensor) -> None:
        """Add those of a batch (documents, bits)."""
        p = torch.sigmoid(logits)
        if self._ones is None or self._sureness is None:
            self._ones, self._sureness = (torch.zeros_like(p[0]) for _ in range(2))
        self._documents += len(p)
        self._ones += p.sum(dim=0)
        self._sureness += p.sub_(0.5).abs_().sum(dim=0)

    def summary(self) -> dict[str, float]:
        """Sureness, and the shares of ones of the bits that have the fewest and the most."""
        if self._ones is None or self._sureness is None:
            return {}
        shares = self._ones / self._documents
        return {
            "confidence": float(self._sureness.mean() / self._documents * 2),  # 0 for coins, 1 for bits that are sure
            "rarest_bit": float(shares.min()),
            "commonest_bit": float(shares.max()),
        }


class Objective:
    """Computes the loss of a batch."""

    def __init__(
        self,
        weights: Weights,
        estimator: GradientEstimator,
        pair_loss: PairLoss | None = None,
        *,
        sample_pairs: bool = False,
    ) -> None:
        self.weights = weights
        self.estimator = estimator
        self.pair_loss = pair_loss or PairLoss()
        self.sample_pairs = sample_pairs
        self._balance = BitBalance()

    def begin_epoch(self, epoch: int) -> None:
        """Follow the estimator's own schedule."""
        self.estimator.begin_epoch(epoch)
        self._balance = BitBalance()

    def end_epoch(self) -> dict[str, float]:
        """How sure bits were and how balanced."""
        return self._balance.summary()

    def __call__(
        self, model: Model, batch: Batch, done: float, generator: torch.Generator | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss of a batch when a share of training is ``done``, and its terms for the history."""
        logits = model.logits(batch.rows, generator)
        shift = model.noise(logits, generator)
        names, parts = ["reconstruction"], [(self.weights.reconstruction, model.decoder.loss(batch.words, shift))]
        if model.classifier is not None and batch.labels is not None:
            names.append("label")
            parts.append((ramp(*self.weights.label, done), model.classifier.loss(batch.labels)))
        losses = WeightedSum(parts)
        total = self.estimator(logits, losses, generator).mean()
        terms = {name: values.mean() for name, values in zip(names, losses.values, strict=True)}
        prior = torch.tensor(self.weights.prior, device=logits.device)
        for name, term in (
            ("kl", ramp(*self.weights.kl, done) * bernoulli_kl(logits, prior).mean()),
            ("pair", self._pair_term(logits, batch, ramp(*self.weights.pair, done), generator)),
        ):
            if term is not None:
                total = total + term
                terms[name] = term.detach()
        self._balance.add(logits.detach())
        return total, terms

    def _pair_term(
        self, logits: Tensor, batch: Batch, weight: float, generator: torch.Generator | None
    ) -> Tensor | None:
        if batch.signs is None or not batch.signs.numel() or not weight:
            return None  # a single document has no pair
        if batch.signs.ndim == 2:
            cost = self.pair_loss.balanced(logits, batch.signs)
        elif self.sample_pairs:
            cost = self.pair_loss.sampled(logits, batch.signs, self.estimator, generator)
        else:
            cost = self.pair_loss.expected(logits, batch.signs)
        return weight * cost

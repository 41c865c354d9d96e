"""Losses: divergences, the pair loss, and the training objective of each method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from fewbits.nn.data import Batch
from fewbits.nn.gradient_estimators import GradientEstimator
from fewbits.nn.layers import ReadoutLoss
from fewbits.nn.models import GaussianNetworks, Model, UnfoldedStack
from fewbits.nn.nested import NestedLoss

BITS = "bits."  # in front of the names of sums over the documents of a batch, per bit


def ramp(start: float, end: float, progress: float) -> float:
    """Interpolate linearly from start to end; ``progress`` is the share of training steps taken.

    >>> ramp(0.0, 1.0, 0.25)
    0.25
    """
    return start + (end - start) * progress


def bernoulli_kl(logits: Tensor, prior: Tensor) -> Tensor:
    """Compute KL(Bernoulli(sigmoid(psi)) || Bernoulli(gamma)), summed over bits: (documents,) (eq:kl).

    ``prior`` is gamma, a number or one per bit, between 0 and 1.
    """
    apply: Callable[[Tensor, Tensor], Tensor] = _BernoulliKL.apply
    return apply(logits, prior)


class _BernoulliKL(torch.autograd.Function):
    """Value and gradient as one node: following a chain of small nodes takes longer than computing them."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, prior: Tensor) -> Tensor:
        p = torch.sigmoid(logits)
        excess = logits - torch.logit(prior)  # psi - logit(gamma)
        ctx.save_for_backward(p, excess)
        # log p = psi - softplus(psi) and log(1 - p) = -softplus(psi)
        return (p * excess - softplus(logits) - torch.log1p(-prior)).sum(dim=1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        p, excess = ctx.saved_tensors
        return grad[:, None] * (p * (1 - p) * excess), None


def gaussian_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Compute KL(N(mean, variance) || N(0, 1)), summed over dimensions: (documents,)."""
    return 0.5 * (log_variance.exp() + mean**2 - 1 - log_variance).sum(dim=1)


def neighborhood_loss(logits: Tensor, signs: Tensor) -> Tensor:
    """Compute -log of the probability that a document's nearest one in the batch is similar, averaged.

    Document j is the nearest of i with probability softmax_j(-32 d_ij / bits), where d is the expected Hamming distance
    (J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov. Neighbourhood components analysis. NeurIPS 2004). Signs
    (documents, documents) are 1 for similar pairs, -1 for others and 0 for those left out.
    """
    p = torch.sigmoid(logits)
    scores = expected_distances(p, p) * (-32 / logits.shape[1])
    has_similar = (signs > 0).any(dim=1)
    scores, signs = scores[has_similar], signs[has_similar]
    similar, known = (scores.masked_fill(~chosen, -torch.inf).logsumexp(dim=1) for chosen in (signs > 0, signs != 0))
    return (known - similar).sum() / max(len(scores), 1)


def expected_distances(left: Tensor, right: Tensor) -> Tensor:
    """Compute E d(z, z') = sum_k p_k + p'_k - 2 p_k p'_k for all pairs of two sets of probabilities: (left, right)."""
    return left @ (1 - right).T + (1 - left) @ right.T


@dataclass(frozen=True)
class PairLoss:
    """The loss of a pair at distance d (in eq:sph): d if the two are similar, else -d, or max(margin - d, 0).

    Without a margin, as in the paper, dissimilar pairs are pushed apart without limit; with one, a share of the bits,
    pairs beyond it cost nothing. Signs are 1 for similar pairs, -1 for dissimilar ones and 0 for unknown ones.
    """

    margin: float | None = None

    def cost(self, distances: Tensor, signs: Tensor, n_bits: int) -> Tensor:
        """Compute the costs of pairs from their distances."""
        apart = -distances if self.margin is None else torch.relu(self.margin * n_bits - distances)
        return torch.where(signs > 0, distances, apart) * (signs != 0)

    def expected(self, logits: Tensor, signs: Tensor) -> Tensor:
        """Compute the mean cost at the expected distance of m pairs: documents 0 and m, 1 and m + 1, and so on."""
        first, second = torch.sigmoid(logits[: 2 * len(signs)]).chunk(2)
        distances = (first + second - 2 * first * second).sum(dim=1)
        return self.cost(distances, signs, logits.shape[1]).mean()

    def sampled(
        self,
        logits: Tensor,
        signs: Tensor,
        estimator: GradientEstimator,
        generator: torch.Generator | None,
        *,
        epoch: int = 0,
    ) -> Tensor:
        """Compute the mean cost of the same pairs from sampled codes, with an estimator's gradient, as in the paper."""
        n_bits = logits.shape[1]

        def cost(codes: Tensor) -> Tensor:
            first, second = codes[:, :n_bits], codes[:, n_bits:]
            # |z - z'| as a polynomial, which straight-through gradients can follow
            distances = (first + second - 2 * first * second).sum(dim=1)
            return self.cost(distances, signs, n_bits)

        both = torch.cat(logits[: 2 * len(signs)].chunk(2), dim=1)  # (pairs, 2 bits): one u per document and bit
        return estimator(both, cost, generator, epoch=epoch).mean()

    def balanced(self, logits: Tensor, signs: Tensor) -> Tensor:
        """Compute the expected cost over all pairs of a batch, weighting similar and dissimilar pairs equally."""
        p = torch.sigmoid(logits)
        costs = self.cost(expected_distances(p, p), signs, logits.shape[1])  # (documents, documents)
        similar, dissimilar = signs > 0, signs < 0
        mean_similar = (costs * similar).sum() / similar.sum().clamp(min=1)
        return mean_similar + (costs * dissimilar).sum() / dissimilar.sum().clamp(min=1)


class WeightedSum:
    """The weighted sum of several losses of a code; each loss's mean is recorded under its name at each evaluation."""

    def __init__(self, losses: dict[str, tuple[float, ReadoutLoss | NestedLoss]], record: dict[str, Tensor]) -> None:
        self.losses = losses  # weight and loss by name
        self.record = record

    def __call__(self, codes: Tensor) -> Tensor:
        """Compute the weighted sum of the losses."""
        return self._sum([loss(codes) for _, loss in self.losses.values()])

    def of_both(self, codes: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the weighted sums for two codes per document; only the first have a gradient."""
        first, second = zip(*(loss.of_both(codes, others) for _, loss in self.losses.values()), strict=True)
        return self._sum(first), _sum(self._weighted(second))

    def with_flips(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the weighted sum of the losses, and of their changes for each flipped bit."""
        values, changes = zip(*(loss.with_flips(codes) for _, loss in self.losses.values()), strict=True)
        return self._sum(values), _sum(self._weighted(changes))

    def _sum(self, values: Sequence[Tensor]) -> Tensor:
        weighted = self._weighted(values)
        self.record.update((name, value.detach().mean()) for name, value in zip(self.losses, weighted, strict=True))
        return _sum(weighted)

    def _weighted(self, values: Sequence[Tensor]) -> list[Tensor]:
        weights = [weight for weight, _ in self.losses.values()]
        return [value if weight == 1 else weight * value for weight, value in zip(weights, values, strict=True)]


def _sum(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(dim=0)


def bit_sums(logits: Tensor) -> dict[str, Tensor]:
    """Return the sums over a batch of which :func:`bit_statistics` makes the statistics of an epoch.

    Keeping every batch's logits instead would leave small blocks among the large ones that are freed: memory would
    fragment and grow by gigabytes.
    """
    p = torch.sigmoid(logits)
    ones = p.sum(dim=0)  # (bits,)
    documents = torch.full((), len(p), dtype=p.dtype, device=p.device)
    return {"documents": documents, "ones": ones, "confidence": p.sub_(0.5).abs_().sum(dim=0)}


def bit_statistics(sums: Mapping[str, Tensor]) -> dict[str, float]:
    """Return the mean confidence, and the smallest and largest share of ones among the bits."""
    shares = sums["ones"] / sums["documents"]
    return {
        "confidence": float(sums["confidence"].mean() / sums["documents"] * 2),  # 0: random bits, 1: certain ones
        "rarest_bit": float(shares.min()),
        "commonest_bit": float(shares.max()),
    }


def mean_terms(sums: Mapping[str, Tensor], steps: int) -> dict[str, float]:
    """Return the mean of each term over an epoch's steps."""
    return {name: float(total) / steps for name, total in sums.items()}


@dataclass(frozen=True)
class Weights:
    """Weights of the terms; a pair is the value at the start of training and at its end."""

    reconstruction: float = 1.0
    kl: tuple[float, float] = (0.1, 0.1)  # lambda
    prior: float | tuple[float, ...] = 0.5  # gamma
    label: tuple[float, float] = (0.0, 0.0)  # alpha
    pair: tuple[float, float] = (0.0, 0.0)  # beta
    neighborhood: float = 0.0


class Objective:
    """The objective of the Bernoulli VAE and of pairwise supervised hashing: the ELBO, labels and pairs (eq:sph)."""

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

    def __call__(
        self,
        model: Model,
        outputs: Sequence[Tensor],
        batch: Batch,
        epoch: int,
        progress: float,
        generator: torch.Generator | None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of an encoded batch, and its terms for the history."""
        [logits] = outputs  # psi (documents, bits)
        shift = model.noise(logits, generator)
        losses = {"reconstruction": (self.weights.reconstruction, model.decoder.loss(batch.words, shift))}
        if model.classifier is not None and batch.labels is not None:
            losses["label"] = ramp(*self.weights.label, progress), model.classifier.loss(batch.labels)
        terms: dict[str, Tensor] = {}
        total = self.estimator(logits, WeightedSum(losses, terms), generator, epoch=epoch).mean()
        prior = torch.tensor(self.weights.prior, device=logits.device)
        kl = ramp(*self.weights.kl, progress) * bernoulli_kl(logits, prior).mean()
        pair = self._pair_term(logits, batch, model.prefixes, ramp(*self.weights.pair, progress), epoch, generator)
        neighborhood = self._neighborhood_term(logits, batch, model.prefixes)
        for name, term in (("kl", kl), ("pair", pair), ("neighborhood", neighborhood)):
            if term is not None:
                total = total + term
                terms[name] = term.detach()
        return total, terms | {BITS + name: value for name, value in bit_sums(logits.detach()).items()}

    def summarize(self, sums: Mapping[str, Tensor], steps: int) -> dict[str, float]:
        """Return the mean of each term over an epoch's steps, and the statistics of the bits."""
        bits = {name.removeprefix(BITS): total for name, total in sums.items() if name.startswith(BITS)}
        terms = {name: total for name, total in sums.items() if not name.startswith(BITS)}
        return mean_terms(terms, steps) | bit_statistics(bits)

    def _neighborhood_term(self, logits: Tensor, batch: Batch, prefixes: Sequence[int]) -> Tensor | None:
        if not self.weights.neighborhood or batch.signs is None:
            return None
        losses = [neighborhood_loss(logits[:, :length], batch.signs) for length in prefixes]
        return self.weights.neighborhood * torch.stack(losses).sum()

    def _pair_term(
        self,
        logits: Tensor,
        batch: Batch,
        prefixes: Sequence[int],
        weight: float,
        epoch: int,
        generator: torch.Generator | None,
    ) -> Tensor | None:
        if batch.signs is None or not batch.signs.numel() or not weight:
            return None  # a single document forms no pair
        costs = [self._pair_cost(logits[:, :length], batch.signs, epoch, generator) for length in prefixes]
        return weight * torch.stack(costs).sum()

    def _pair_cost(self, logits: Tensor, signs: Tensor, epoch: int, generator: torch.Generator | None) -> Tensor:
        if signs.ndim == 2:
            return self.pair_loss.balanced(logits, signs)
        if self.sample_pairs:
            return self.pair_loss.sampled(logits, signs, self.estimator, generator, epoch=epoch)
        return self.pair_loss.expected(logits, signs)


class SummarizedByMeans:
    """An objective of whose terms an epoch's record contains the means."""

    def summarize(self, sums: Mapping[str, Tensor], steps: int) -> dict[str, float]:
        """Return the mean of each term over an epoch's steps."""
        return mean_terms(sums, steps)


@dataclass(frozen=True)
class GaussianObjective(SummarizedByMeans):
    """The objective of VDSH: words, divergence and labels; weights are those at the start and the end of training."""

    kl: tuple[float, float]
    label: tuple[float, float]

    def __call__(
        self,
        model: GaussianNetworks,
        outputs: Sequence[Tensor],
        batch: Batch,
        epoch: int,
        progress: float,
        generator: torch.Generator | None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of an encoded batch, and its terms for the history.

        A log variance passes through a sigmoid, as in the method's released code: it is never below 0.
        """
        chunks = [torch.chunk(output, 2, dim=1) for output in outputs]
        variables = [(mean, torch.sigmoid(log_variance)) for mean, log_variance in chunks]  # each (documents, bits)
        sampled = [
            mean + torch.exp(log_variance / 2) * torch.randn(mean.shape, generator=generator, device=mean.device)
            for mean, log_variance in variables
        ]
        reconstruction = model.decoder.loss(batch.words)(torch.stack(sampled).sum(dim=0)).mean()
        kl = torch.stack([gaussian_kl(*variable) for variable in variables]).sum(dim=0).mean()
        terms = {"reconstruction": reconstruction, "kl": ramp(*self.kl, progress) * kl}
        if model.classifier is not None and batch.labels is not None:
            terms["label"] = ramp(*self.label, progress) * model.classifier.loss(batch.labels)(sampled[0]).mean()
        return torch.stack(list(terms.values())).sum(), {name: term.detach() for name, term in terms.items()}


@dataclass(frozen=True)
class NoisyReconstruction(SummarizedByMeans):
    """The objective of semantic hashing: growing noise on the code's logits lets only 0 and 1 carry information."""

    noise: tuple[float, float]  # standard deviation at the start and the end of training

    def __call__(
        self,
        model: UnfoldedStack,
        outputs: Sequence[Tensor],
        batch: Batch,
        epoch: int,
        progress: float,
        generator: torch.Generator | None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of an encoded batch, and its terms for the history."""
        [logits] = outputs  # (documents, bits)
        noise = torch.randn(logits.shape, generator=generator, device=logits.device)
        x = torch.sigmoid(logits + ramp(*self.noise, progress) * noise)
        for layer in model.unfolding:
            x = torch.sigmoid(layer(x))
        loss = model.decoder.loss(batch.words)(x).mean()
        confidence = (torch.sigmoid(logits.detach()) - 0.5).abs().mean() * 2
        return loss, {"reconstruction": loss.detach(), "confidence": confidence}

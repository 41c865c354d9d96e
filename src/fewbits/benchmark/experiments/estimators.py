"""Variance, bias and speed of the gradient estimators on a trained model."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewbits.benchmark.experiments.base import Experiment, markdown_section, markdown_table
from fewbits.data.datasets import Dataset
from fewbits.hashers._parameters import need_torch
from fewbits.hashers.bernoulli_vae import BernoulliVAE

BATCH_SIZE = 100
N_GRADIENTS = 300
N_REFERENCE_GRADIENTS = 10 * N_GRADIENTS  # for the estimate of the true gradient
ROUNDS = 300  # several seconds, because a busy machine can be slow for that long
REFERENCE = "arm"


@dataclass(frozen=True)
class EstimatorFacts:
    """One estimator on one model: gradients of the reconstruction loss with respect to the logits of a batch."""

    estimator: str
    dataset: str
    bits: int
    is_unbiased: bool
    relative_variance: float  # total variance of the gradient, divided by ARM's
    relative_bias: float  # distance of its mean from the true gradient, divided by the length of the true gradient
    milliseconds: float  # per step of loss and backward pass, in the fastest round

    @property
    def bias_text(self) -> str:
        """Return the relative bias as text, "none" for an unbiased estimator."""
        return "none" if self.is_unbiased else f"{self.relative_bias:.3f}"


@dataclass(frozen=True)
class EstimatorComparison(Experiment[list[EstimatorFacts]]):
    """Train a model, then draw many gradients for one batch of documents with each estimator.

    The true gradient cannot be enumerated at these lengths. It is estimated by the mean of the flip estimator, which
    is unbiased and has little variance, over ten times as many draws.
    """

    folder = "estimators"
    fact = EstimatorFacts
    page = "estimators.md"

    dataset: Dataset
    lengths: Sequence[int] = (32,)
    epochs: int = 6
    random_state: int = 0

    def measure(self) -> Iterator[list[EstimatorFacts]]:
        """Yield the facts of all estimators, one list per code length."""
        need_torch()
        for n_bits in self.lengths:
            yield self._compare(n_bits)

    def _compare(self, n_bits: int) -> list[EstimatorFacts]:
        from fewbits.nn.gradient_estimators import ESTIMATORS

        hasher = BernoulliVAE(n_bits, epochs=self.epochs, refinements=0, random_state=self.random_state)
        hasher.fit(self.dataset.train.features)
        sampler = _GradientSampler(hasher, self.dataset.train.features[:BATCH_SIZE])
        true_gradient, reference_variance = sampler.moments("flip", N_REFERENCE_GRADIENTS)
        times = sampler.milliseconds(list(ESTIMATORS))
        moments = {name: sampler.moments(name, N_GRADIENTS) for name in ESTIMATORS}
        length = float(np.linalg.norm(true_gradient))
        return [
            EstimatorFacts(
                estimator=name,
                dataset=self.dataset.name,
                bits=n_bits,
                is_unbiased=ESTIMATORS[name].is_unbiased,
                relative_variance=float(variance / moments[REFERENCE][1]),
                relative_bias=_bias(
                    mean - true_gradient, variance / N_GRADIENTS + reference_variance / N_REFERENCE_GRADIENTS
                )
                / length,
                milliseconds=times[name],
            )
            for name, (mean, variance) in moments.items()
        ]

    @classmethod
    def file_name(cls, facts: list[EstimatorFacts]) -> str:
        """Return the name of the JSON file."""
        return f"estimators-{facts[0].dataset}-{facts[0].bits}bits.json"

    @classmethod
    def render(cls, facts: Sequence[list[EstimatorFacts]]) -> str:
        """Return the page in Markdown."""
        parts = [INTRODUCTION]
        for estimators in facts:
            dataset, bits = estimators[0].dataset, estimators[0].bits
            rows = [
                [one.estimator, f"{one.relative_variance:.4f}", one.bias_text, f"{one.milliseconds:.1f}"]
                for one in estimators
            ]
            table = markdown_table(["estimator", "variance / ARM's", "bias", "ms per step"], rows)
            command = f"fewbits bench estimators --dataset {dataset} --bits {bits} --save"
            parts.append(markdown_section(f"{dataset}, {bits} bits", table, command))
        return "\n".join(parts)


def _bias(difference: NDArray[np.float64], noise: float) -> float:
    """Return the length of a difference of two means, without the noise that adds to its square."""
    return float(np.sqrt(max((difference**2).sum() - noise, 0)))


class _GradientSampler:
    """Gradients for the logits of one batch under a trained decoder."""

    def __init__(self, hasher: BernoulliVAE, rows: Any) -> None:
        import torch

        from fewbits.nn.layers import SoftmaxReadout, SparseBatch

        self.torch = torch
        self.logits = torch.from_numpy(hasher._logits(rows))
        self.decoder = SoftmaxReadout(hasher.n_bits, torch.from_numpy(hasher.decoder_bias_))
        with torch.no_grad():
            self.decoder.embeddings.copy_(torch.from_numpy(hasher.decoder_embeddings_))
        self.loss = self.decoder.loss(SparseBatch.from_rows(rows))
        self.generator = torch.Generator().manual_seed(0)

    def draw(self, name: str) -> Any:
        """Draw one gradient (documents, bits)."""
        from fewbits.nn.gradient_estimators import make_estimator

        logits = self.logits.clone().requires_grad_()
        self.torch.autograd.backward(make_estimator(name)(logits, self.loss, self.generator).sum())
        self.decoder.zero_grad(set_to_none=True)
        return logits.grad

    def moments(self, name: str, n_draws: int) -> tuple[Any, float]:
        """Return the mean gradient (documents, bits) and the total variance of a single one."""
        mean = np.zeros(self.logits.shape)
        square = np.zeros(self.logits.shape)
        for _ in range(n_draws):
            gradient = self.draw(name).double().numpy()
            mean += gradient / n_draws
            square += gradient**2 / n_draws
        return mean, float((square - mean**2).sum() * n_draws / (n_draws - 1))

    def milliseconds(self, names: list[str]) -> dict[str, float]:
        """Return the time of the fastest round; the estimators alternate, so that a slow phase affects all of them."""
        from fewbits.nn.trainer import retain_freed_memory

        seconds: dict[str, list[float]] = {name: [] for name in names}
        with retain_freed_memory():  # as in training
            for name in ROUNDS * names:
                start = time.perf_counter()
                self.draw(name)
                seconds[name].append(time.perf_counter() - start)
        return {name: 1000 * min(times) for name, times in seconds.items()}


INTRODUCTION = f"""\
# Gradient estimators

Rendered by `fewbits bench report`. A model is trained without labels. Then each estimator draws {N_GRADIENTS}
gradients of the reconstruction loss with respect to the logits of {BATCH_SIZE} training documents. *Variance* is the
variance of one gradient, divided by that of ARM. *Bias* is the distance between the mean gradient and the true one,
divided by the norm of the true gradient and corrected for sampling noise. It is "none" for unbiased estimators, which a
test compares with enumeration for up to 10 bits. *ms per step* is the time for the loss and the backward pass of one
batch, in the fastest of {ROUNDS} rounds in which the estimators take turns.
"""

"""How noisy and how slow each gradient estimator is, on a trained model."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewbits.benchmark.report.tables import markdown
from fewbits.data.datasets import Dataset
from fewbits.hashers._parameters import need_torch
from fewbits.hashers.bernoulli_vae import BernoulliVAE
from fewbits.storage import read_json, write_json

BATCH = 100
DRAWS = 300
TRUE_DRAWS = 10 * DRAWS  # of the gradient that the others are held against
ROUNDS = 300  # some seconds: a busy machine is slow for that long at a time
REFERENCE = "arm"


@dataclass(frozen=True)
class EstimatorFacts:
    """One estimator on one model: the gradient of the reconstruction with respect to the logits of a batch."""

    estimator: str
    dataset: str
    bits: int
    is_unbiased: bool
    relative_variance: float  # total variance of the gradient, divided by ARM's
    relative_bias: float  # distance of its mean from the true gradient, divided by that one's length
    milliseconds: float  # a step of loss and backward pass; the fastest of some rounds


def compare_estimators(
    dataset: Dataset, n_bits: int, *, epochs: int = 6, random_state: int = 0
) -> list[EstimatorFacts]:
    """Train a model, then draw many gradients for one batch of documents with every estimator.

    The true gradient of so many bits cannot be enumerated; it is the mean of the flip estimator, which has no bias
    and little noise, over ten times as many draws.
    """
    need_torch()
    from fewbits.nn.gradient_estimators import ESTIMATORS

    hasher = BernoulliVAE(n_bits, epochs=epochs, refinements=0, random_state=random_state).fit(dataset.train.features)
    setting = _Setting(hasher, dataset.train.features[:BATCH])
    true, its_variance = setting.moments("flip", TRUE_DRAWS)
    times = setting.milliseconds(list(ESTIMATORS))
    found = {name: (*setting.moments(name, DRAWS), times[name]) for name in ESTIMATORS}
    noise, length = found[REFERENCE][1], float(np.linalg.norm(true))
    return [
        EstimatorFacts(
            estimator=name,
            dataset=dataset.name,
            bits=n_bits,
            is_unbiased=ESTIMATORS[name].is_unbiased,
            relative_variance=float(variance / noise),
            relative_bias=_bias(mean - true, variance / DRAWS + its_variance / TRUE_DRAWS) / length,
            milliseconds=milliseconds,
        )
        for name, (mean, variance, milliseconds) in found.items()
    ]


def _bias(difference: NDArray[np.float64], noise: float) -> float:
    """Length of a difference of two means, without what their noise adds to its square."""
    return float(np.sqrt(max((difference**2).sum() - noise, 0)))


class _Setting:
    """A trained decoder and the logits of one batch."""

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

    def gradient(self, name: str) -> Any:
        """One estimate (documents, bits)."""
        from fewbits.nn.gradient_estimators import make_estimator

        logits = self.logits.clone().requires_grad_()
        self.torch.autograd.backward(make_estimator(name)(logits, self.loss, self.generator).sum())
        self.decoder.zero_grad(set_to_none=True)
        return logits.grad

    def moments(self, name: str, draws: int) -> tuple[Any, float]:
        """Mean gradient (documents, bits) and total variance of a single one."""
        mean = np.zeros(self.logits.shape)
        square = np.zeros(self.logits.shape)
        for _ in range(draws):
            drawn = self.gradient(name).double().numpy()
            mean += drawn / draws
            square += drawn**2 / draws
        return mean, float((square - mean**2).sum() * draws / (draws - 1))

    def milliseconds(self, names: list[str]) -> dict[str, float]:
        """The fastest of some rounds; in a round all have their turn, so that none has the machine's better hour."""
        from fewbits.nn.trainer import retain_freed_memory

        seconds: dict[str, list[float]] = {name: [] for name in names}
        with retain_freed_memory():  # as in training
            for name in ROUNDS * names:
                start = time.perf_counter()
                self.gradient(name)
                seconds[name].append(time.perf_counter() - start)
        return {name: 1000 * min(found) for name, found in seconds.items()}


def save_facts(facts: list[EstimatorFacts], folder: Path) -> Path:
    """Write one file for a data set and length."""
    path = Path(folder) / f"estimators-{facts[0].dataset}-{facts[0].bits}bits.json"
    write_json(path, [asdict(fact) for fact in facts])
    return path


def render_estimators(folder: Path) -> str:
    """Tables in Markdown of all files of a folder."""
    files = sorted(Path(folder).glob("estimators-*.json"), key=lambda path: (len(path.name), path.name))
    parts = [INTRODUCTION]
    for path in files:
        facts = [EstimatorFacts(**fact) for fact in read_json(path)]
        rows = [
            [
                f.estimator,
                f"{f.relative_variance:.4f}",
                "none" if f.is_unbiased else f"{f.relative_bias:.3f}",
                f"{f.milliseconds:.1f}",
            ]
            for f in facts
        ]
        title = f"{facts[0].dataset}, {facts[0].bits} bits"
        parts.append(f"## {title}\n\n" + markdown(["estimator", "variance / ARM's", "bias", "ms a step"], rows))
        parts.append(
            f"```sh\nfewbits bench estimators --dataset {facts[0].dataset} --bits {facts[0].bits} --save\n```\n"
        )
    return "\n".join(parts)


INTRODUCTION = f"""\
# Gradient estimators

Rendered by `fewbits bench report`. A model is trained without labels; then, for
{BATCH} training documents, {DRAWS} gradients of the reconstruction with respect to the logits are drawn with every
estimator. *Variance*: of one such gradient, divided by ARM's. *Bias*: distance of the mean from the true gradient,
relative to its length, without what the noise of so many draws adds to it; unbiased estimators have none (a test holds
each against enumeration for up to 10 bits). *ms a step*: loss and backward pass of one batch, the fastest of {ROUNDS}
rounds in which all have their turn.
"""

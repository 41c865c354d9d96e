"""Precision by amount of supervision: no labels, labelled pairs, a few labels, all labels."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fewbits.benchmark.experiments.base import Experiment, markdown_section, markdown_table
from fewbits.data.datasets import Dataset, Split
from fewbits.hashers.base import Hasher
from fewbits.hashers.bernoulli_vae import BernoulliVAE
from fewbits.hashers.pairwise import PairwiseHasher
from fewbits.metrics import encoded_precision

N_PAIRS = 2000
LABELLED_FRACTION = 0.05


@dataclass(frozen=True)
class Supervision:
    """Precision at 100 with one kind of supervision."""

    told: str  # the kind of supervision
    dataset: str
    bits: int
    precision: list[float]  # per seed
    seconds: list[float]


@dataclass(frozen=True)
class SupervisionComparison(Experiment[list[Supervision]]):
    """Fit with different amounts of supervision on the training part, and search it with another part."""

    folder = "supervision"
    fact = Supervision
    page = "supervision.md"

    dataset: Dataset
    n_bits: int = 32
    seeds: Sequence[int] = (0, 1, 2)
    part: str = "test"
    epochs: int | None = None

    def measure(self) -> Iterator[list[Supervision]]:
        """Yield the facts of all kinds of supervision as one list."""
        train = self.dataset.train

        def pairwise(seed: int) -> PairwiseHasher:
            return PairwiseHasher(self.n_bits, epochs=self.epochs, random_state=seed)

        fits: dict[str, Callable[[int], Hasher]] = {
            "nothing": lambda seed: BernoulliVAE(self.n_bits, epochs=self.epochs, random_state=seed).fit(
                train.features
            ),
            f"{N_PAIRS:,} pairs": lambda seed: pairwise(seed).fit_pairs(
                train.features, *draw_pairs(train, N_PAIRS, seed)
            ),
            f"{LABELLED_FRACTION:.0%} of the labels": lambda seed: pairwise(seed).fit(
                train.features, sample_labels(train, LABELLED_FRACTION, seed)
            ),
            "all labels": lambda seed: pairwise(seed).fit(train.features, train.labels),
        }
        yield [self._measure(name, fit) for name, fit in fits.items()]

    def _measure(self, supervision: str, fit: Callable[[int], Hasher]) -> Supervision:
        precision, seconds = [], []
        queries, train = self.dataset.part(self.part), self.dataset.train
        for seed in self.seeds:
            start = time.perf_counter()
            hasher = fit(seed)
            seconds.append(round(time.perf_counter() - start, 1))
            value = encoded_precision(hasher, queries.features, queries.labels, train.features, train.labels)
            precision.append(round(value, 4))
        return Supervision(supervision, self.dataset.name, self.n_bits, precision, seconds)

    @classmethod
    def file_name(cls, facts: list[Supervision]) -> str:
        """Return the name of the JSON file."""
        return f"supervision-{facts[0].dataset}-{facts[0].bits}bits.json"

    @classmethod
    def render(cls, facts: Sequence[list[Supervision]]) -> str:
        """Return the page in Markdown."""
        parts = [INTRODUCTION]
        for kinds in facts:
            dataset, bits = kinds[0].dataset, kinds[0].bits
            rows = [
                [
                    one.told,
                    f"{statistics.mean(one.precision):.3f}",
                    f"{min(one.precision):.3f}",
                    f"{max(one.precision):.3f}",
                    f"{statistics.mean(one.seconds):.0f}",
                ]
                for one in kinds
            ]
            table = markdown_table(["supervision", "precision at 100", "minimum", "maximum", "seconds"], rows)
            command = f"fewbits bench supervision --dataset {dataset} --bits {bits} --save"
            parts.append(markdown_section(f"{dataset}, {bits} bits", table, command))
        return "\n".join(parts)


def draw_pairs(split: Split, count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Draw pairs of documents, half of which share a label; return the rows and whether they share one."""
    generator = np.random.default_rng(seed)
    remaining = {True: count // 2, False: count - count // 2}
    pairs: list[Any] = []
    same: list[bool] = []
    while len(pairs) < count:
        left, right = (int(row) for row in generator.integers(0, split.features.shape[0], 2))
        share = bool(split.labels[[left]].multiply(split.labels[[right]]).sum() > 0)
        if left != right and remaining[share]:
            remaining[share] -= 1
            pairs.append((left, right))
            same.append(share)
    return np.array(pairs, dtype=np.int64), np.array(same)


def sample_labels(split: Split, fraction: float, seed: int) -> Any:
    """Return the labels of a random sample of the documents; the rows of the others are empty."""
    count = split.features.shape[0]
    mask = np.zeros((count, 1), dtype=np.uint8)
    mask[np.random.default_rng(seed).choice(count, round(count * fraction), replace=False)] = 1
    labels = sparse.csr_array(split.labels.multiply(mask))
    labels.eliminate_zeros()
    return labels


INTRODUCTION = f"""\
# A few labels, or pairs alone

Rendered by `fewbits bench report`. Methods are fitted on the same training documents with increasing supervision.
*nothing* is `BernoulliVAE`. The others are `PairwiseHasher`: `fit_pairs` with {N_PAIRS:,} labelled pairs, half of them
similar, and no other labels; `fit` with the labels of {LABELLED_FRACTION:.0%} of the documents; and `fit` with all
labels. The figures are the precision at 100 with the test documents as queries: mean, minimum and maximum over the
seeds.
"""

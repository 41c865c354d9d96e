"""How much a few labels, or marked pairs alone, are worth: codes learnt with more and more told about the documents."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fewbits.benchmark.report.tables import markdown
from fewbits.data.datasets import Dataset, Split
from fewbits.hashers.base import Hasher
from fewbits.hashers.bernoulli_vae import BernoulliVAE
from fewbits.hashers.pairwise import PairwiseHasher
from fewbits.metrics import precision_at_k
from fewbits.storage import read_json, write_json

PAIRS = 2000
LABELLED_SHARE = 0.05


@dataclass(frozen=True)
class Supervision:
    """Test precision at 100 of codes that were told so much."""

    told: str
    dataset: str
    bits: int
    precision: list[float]  # a figure a seed
    seconds: list[float]


def compare_supervision(
    dataset: Dataset, n_bits: int, seeds: list[int], *, part: str = "test", epochs: int | None = None
) -> list[Supervision]:
    """Learn from the training part with nothing, pairs, a few labels and all labels; query with another part."""
    train = dataset.train
    told: dict[str, Callable[[int], Hasher]] = {
        "nothing": lambda seed: BernoulliVAE(n_bits, epochs=epochs, random_state=seed).fit(train.features),
        f"{PAIRS:,} pairs": lambda seed: PairwiseHasher(n_bits, epochs=epochs, random_state=seed).fit_pairs(
            train.features, *draw_pairs(train, PAIRS, seed)
        ),
        f"{LABELLED_SHARE:.0%} of the labels": lambda seed: PairwiseHasher(
            n_bits, epochs=epochs, random_state=seed
        ).fit(train.features, some_labels(train, LABELLED_SHARE, seed)),
        "all labels": lambda seed: PairwiseHasher(n_bits, epochs=epochs, random_state=seed).fit(
            train.features, train.labels
        ),
    }
    return [_measure(name, learn, dataset, n_bits, seeds, part) for name, learn in told.items()]


def _measure(
    told: str, learn: Callable[[int], Hasher], dataset: Dataset, n_bits: int, seeds: list[int], part: str
) -> Supervision:
    precision, seconds = [], []
    queries, train = dataset.part(part), dataset.train
    for seed in seeds:
        start = time.perf_counter()
        hasher = learn(seed)
        seconds.append(round(time.perf_counter() - start, 1))
        codes = hasher.transform(queries.features), hasher.transform(train.features)
        precision.append(round(precision_at_k(codes[0], queries.labels, codes[1], train.labels), 4))
    return Supervision(told, dataset.name, n_bits, precision, seconds)


def draw_pairs(split: Split, count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Pairs of documents, half of which share a label, and which those are."""
    generator = np.random.default_rng(seed)
    wanted = {True: count // 2, False: count - count // 2}
    pairs: list[Any] = []
    same: list[bool] = []
    while len(pairs) < count:
        left, right = (int(row) for row in generator.integers(0, split.features.shape[0], 2))
        share = bool(split.labels[[left]].multiply(split.labels[[right]]).sum() > 0)
        if left != right and wanted[share]:
            wanted[share] -= 1
            pairs.append((left, right))
            same.append(share)
    return np.array(pairs, dtype=np.int64), np.array(same)


def some_labels(split: Split, share: float, seed: int) -> Any:
    """The labels of some documents; the others have none."""
    count = split.features.shape[0]
    keep = np.zeros((count, 1), dtype=np.uint8)
    keep[np.random.default_rng(seed).choice(count, round(count * share), replace=False)] = 1
    labels = sparse.csr_array(split.labels.multiply(keep))
    labels.eliminate_zeros()
    return labels


def save_supervision(facts: list[Supervision], folder: Path) -> Path:
    """Write one file for a data set and length."""
    path = Path(folder) / f"supervision-{facts[0].dataset}-{facts[0].bits}bits.json"
    write_json(path, [asdict(fact) for fact in facts])
    return path


def render_supervision(folder: Path) -> str:
    """Tables in Markdown of all files of a folder."""
    parts = [INTRODUCTION]
    for path in sorted(Path(folder).glob("supervision-*.json")):
        facts = [Supervision(**fact) for fact in read_json(path)]
        rows = [
            [
                f.told,
                f"{statistics.mean(f.precision):.3f}",
                f"{min(f.precision):.3f}",
                f"{max(f.precision):.3f}",
                f"{statistics.mean(f.seconds):.0f}",
            ]
            for f in facts
        ]
        parts.append(f"## {facts[0].dataset}, {facts[0].bits} bits\n")
        parts.append(markdown(["told", "precision at 100", "least", "most", "seconds"], rows))
        parts.append(
            f"```sh\nfewbits bench supervision --dataset {facts[0].dataset} --bits {facts[0].bits} --save\n```\n"
        )
    return "\n".join(parts)


INTRODUCTION = f"""\
# A few labels, or pairs alone

Rendered by `fewbits bench report`. The same training documents, with more and more
told about them: *nothing* is `BernoulliVAE`; the others are `PairwiseHasher`, with `fit_pairs` on {PAIRS:,} pairs of
which half belong together and no label at all, with labels for {LABELLED_SHARE:.0%} of the documents, and with all
labels. Precision at 100 of the test documents, which nothing was learnt from: mean, least and most of the seeds.
"""

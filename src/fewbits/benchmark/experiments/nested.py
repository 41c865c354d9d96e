"""Nested codes beside separate trainings: the precision of every prefix, and of a code of its length."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from fewbits.benchmark.evaluate import DEPTH
from fewbits.benchmark.experiments.base import Experiment, markdown_section, markdown_table
from fewbits.benchmark.results import PRECISION, load_results
from fewbits.benchmark.spec import Spec
from fewbits.data.datasets import Dataset
from fewbits.hashers._nested import nested_lengths
from fewbits.hashers.base import Hasher
from fewbits.hashers.registry import METHODS, WITH_LABELS, WITHOUT_LABELS, make_hasher
from fewbits.metrics import precision_at_k

LONGEST = 128  # bits
COMPARED = (WITHOUT_LABELS, WITH_LABELS)


@dataclass(frozen=True)
class NestedPrecision:
    """Precision at 100 of the prefixes of one nested code, and of codes that were trained for their lengths."""

    method: str
    dataset: str
    part: str
    seed: int
    lengths: list[int]
    nested: list[float]  # per length
    separate: list[float]
    seconds: float  # CPU time of the nested training
    separate_seconds: float | None  # of all separate trainings; None where some were read from results


@dataclass(frozen=True)
class NestedComparison(Experiment[NestedPrecision]):
    """Fit one nested code per method and seed, and codes of all its lengths."""

    folder = "nested"
    fact = NestedPrecision
    page = "nested.md"

    dataset: Dataset
    methods: Sequence[str] = COMPARED
    seeds: Sequence[int] = (0,)
    part: str = "test"
    n_bits: int = LONGEST
    parameters: Mapping[str, Any] = field(default_factory=dict)
    results: Path | None = None  # folder with results of separate trainings; those that are missing are made

    def measure(self) -> Iterator[NestedPrecision]:
        """Yield the facts of one method and seed at a time."""
        lengths = list(nested_lengths(self.n_bits))
        stored = {}
        if self.results is not None and self.results.is_dir():
            runs = load_results(self.results)
            stored = {run.key: run for run in runs if run.data_fingerprint == self.dataset.fingerprint}
        for method in self.methods:
            for seed in self.seeds:
                nested, seconds = self._fit(method, self.n_bits, seed, nested=True)
                separate, costs = [], []
                for bits in lengths:
                    spec = Spec(method, self.dataset.name, bits, seed, self.part, dict(self.parameters))
                    if (run := stored.get(spec.key)) is not None:
                        separate.append(round(run.metrics[PRECISION], 4))
                        continue
                    hasher, cost = self._fit(method, bits, seed)
                    separate.append(self._precision(hasher))
                    costs.append(cost)
                yield NestedPrecision(
                    method=method,
                    dataset=self.dataset.name,
                    part=self.part,
                    seed=seed,
                    lengths=lengths,
                    nested=[self._precision(nested.truncate(bits)) for bits in lengths],
                    separate=separate,
                    seconds=seconds,
                    separate_seconds=round(sum(costs), 1) if len(costs) == len(lengths) else None,
                )

    def _fit(self, method: str, n_bits: int, seed: int, **nested: bool) -> tuple[Hasher, float]:
        train = self.dataset.train
        start = time.process_time()
        hasher = make_hasher(method, n_bits, seed, **self.parameters, **nested).fit(train.features, train.labels)
        return hasher, round(time.process_time() - start, 1)

    def _precision(self, hasher: Hasher) -> float:
        queries, train = self.dataset.part(self.part), self.dataset.train
        codes = hasher.transform(queries.features), hasher.transform(train.features)
        return round(precision_at_k(codes[0], queries.labels, codes[1], train.labels, k=DEPTH), 4)

    @classmethod
    def file_name(cls, facts: NestedPrecision) -> str:
        """Return the name of the JSON file."""
        part = "" if facts.part == "test" else f"-{facts.part}"
        return f"nested-{facts.dataset}-{facts.method}-seed{facts.seed}{part}.json"

    @classmethod
    def render(cls, facts: Sequence[NestedPrecision]) -> str:
        """Return the page in Markdown."""
        return "\n".join([INTRODUCTION, *_sections(facts)])


def _sections(facts: Sequence[NestedPrecision]) -> Iterator[str]:
    """Yield a table per data set: for each method the separate codes, the prefixes, and the difference."""
    shown = sorted((one for one in facts if one.part == "test"), key=lambda one: one.dataset)
    for dataset, some in groupby(shown, key=lambda one: one.dataset):
        runs = list(some)
        lengths = sorted({bits for run in runs for bits in run.lengths})
        rows = []
        methods = [name for name in METHODS if any(run.method == name for run in runs)]
        for method in methods:
            ours = [run for run in runs if run.method == method]
            means = [[_mean(ours, bits, kind) for bits in lengths] for kind in ("separate", "nested")]
            differences = [None if a is None or b is None else b - a for a, b in zip(*means, strict=True)]
            title = METHODS[method].title
            rows.append([f"{title}, separate", *("" if one is None else f"{one:.3f}" for one in means[0])])
            rows.append([f"{title}, nested", *("" if one is None else f"{one:.3f}" for one in means[1])])
            rows.append(["difference", *("" if one is None else f"{one:+.3f}" for one in differences)])
        seeds = sorted({run.seed for run in runs})
        words = [*(f"--method {name}" for name in methods), *(f"--seed {seed}" for seed in seeds)]
        table = markdown_table(["precision at 100", *(f"{bits} bits" for bits in lengths)], rows)
        yield markdown_section(dataset, table, f"fewbits bench nested --dataset {dataset} {' '.join(words)} --save")


def _mean(runs: Sequence[NestedPrecision], bits: int, kind: str) -> float | None:
    values = [getattr(run, kind)[run.lengths.index(bits)] for run in runs if bits in run.lengths]
    return statistics.mean(values) if values else None


INTRODUCTION = f"""\
# Nested codes

Rendered by `fewbits bench report`. *Separate* are trainings for each length. *Nested* is one training of {LONGEST} bits
with `nested=True`, of which the first 8, 16, 32 and 64 bits are codes of their own. The figures are the precision at
100 of the test documents among the training documents, the mean over the seeds; separate trainings that have a result
file are read from it. The class documentation of `BernoulliVAE` and `PairwiseHasher` (`nested`) says how nested codes
are trained.
"""

"""Cells, rows and tables of the report, and the page with the tables of all results."""

from __future__ import annotations

import json
import shlex
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from fewbits.benchmark.evaluate import ASYMMETRIC, BOTH_REAL
from fewbits.benchmark.experiments import markdown_table
from fewbits.benchmark.report.published import CHOSEN_WITH_LABELS
from fewbits.benchmark.results import Result
from fewbits.data.datasets import GENERALISATION_SOURCES
from fewbits.hashers.registry import METHODS, make_hasher


@dataclass(frozen=True)
class Cell:
    """Our figures over the seeds, or a text, and the published counterpart."""

    values: tuple[float, ...] = ()
    published: float | None = None
    text: str = ""
    published_text: str = ""

    @property
    def mean(self) -> float | None:
        """Return the mean over the seeds."""
        return statistics.mean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """Return the standard deviation over the seeds."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def published_figure(self) -> str:
        """Return the published counterpart as text, empty if there is none."""
        return self.published_text or ("" if self.published is None else f"{self.published:.3f}")

    def __str__(self) -> str:
        ours = self.text
        if self.mean is not None:
            ours = f"{self.mean:.3f}" + (f" ± {self.spread:.3f}" if self.spread is not None else "")
        return f"{ours} ({self.published_figure})".strip() if self.published_figure else ours


@dataclass(frozen=True)
class Row:
    """The cells of one method."""

    method: str
    title: str
    cells: list[Cell]


@dataclass(frozen=True)
class Table:
    """A table of the report."""

    name: str
    title: str
    columns: list[str]
    rows: list[Row]
    command: str
    notes: list[str] = field(default_factory=list)
    row_header: str = "method"
    has_best: bool = True  # whether the rows of a column can be compared

    def markdown(self) -> str:
        """Return the table in Markdown, with published figures in parentheses and the command that fills it."""
        rows = [[row.title, *map(str, row.cells)] for row in self.rows]
        notes = [" ".join(self.notes) + "\n"] if self.notes else []
        table = markdown_table(["", *self.columns], rows)
        return "\n".join([f"## {self.title}\n", *notes, table, f"Produced by `{self.command}`.\n"])


Key = TypeVar("Key")
Value = TypeVar("Value", int, str)
METRICS = {
    "precision_at_100": "Precision at 100",
    "neighbour_recall": "Neighbor recall",
    "mean_average_precision": "Mean average precision",
    "bit_entropy": "Entropy per bit",
    "distinct_share": "Ratio of distinct codes to documents",
}
CONFIDENCE_METRICS = {
    ASYMMETRIC: "Precision at 100, a differing bit costs the query's confidence in it",
    BOTH_REAL: "Precision at 100, real values on both sides",
}
INTRODUCTION = f"""\
# Results

Rendered by `fewbits bench report` from the files in `results/`. The test documents are the queries, and the
training documents are the database. Each figure is the exact expectation over all orders of documents at the same
distance: the mean over the seeds, ± the standard deviation if there is more than one seed.

*Precision at 100* is the fraction of the 100 nearest documents that share a label with the query; the chance level is
the precision of a random ranking. *Neighbor recall* is the fraction of a query's 10 nearest documents by tf-idf cosine
that are among its 100 nearest documents by code.

{CHOSEN_WITH_LABELS}
"""


def render_results(results: Iterable[Result], part: str = "test") -> str:
    """Render the tables of all results on one part, one table per data set and metric."""
    groups: defaultdict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        # results on different versions of the data are not combined; the small corpora have a page of their own
        if result.part == part and result.dataset not in GENERALISATION_SOURCES:
            groups[result.dataset, result.data_fingerprint].append(result)
    return "\n".join([INTRODUCTION, *(_render_dataset(groups[key]) for key in sorted(groups))])


def _render_dataset(results: list[Result]) -> str:
    first = results[0]
    chance = f"Chance level of the precision: {first.metrics['random_floor']:.4f}."
    fingerprint = f"Data fingerprint: {first.data_fingerprint[:12]}."
    tables = [_metric_table(metric, title, results) for metric, title in METRICS.items()]
    with_confidence = [replace(one, metrics={**one.metrics, **one.asymmetric}) for one in results if one.asymmetric]
    if with_confidence:
        tables[1:1] = [_metric_table(metric, title, with_confidence) for metric, title in CONFIDENCE_METRICS.items()]
    return "\n".join(
        [
            f"## {first.dataset}\n",
            f"{chance} {fingerprint}\n",
            *tables,
            "Produced by:\n",
            "```sh",
            *_commands(results),
            "```\n",
        ]
    )


def _metric_table(metric: str, title: str, results: list[Result]) -> str:
    lengths = sorted({result.bits for result in results})
    by_variant: defaultdict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        by_variant[result.method, ", ".join(_changed_parameters(result))].append(result)
    rows = []
    for method in in_registry_order({method for method, _ in by_variant}):
        for variant in sorted(variant for name, variant in by_variant if name == method):
            runs = by_variant[method, variant]
            name = METHODS[method].title + (f", {variant}" if variant else "")
            cells = [Cell(tuple(run.metrics[metric] for run in runs if run.bits == bits)) for bits in lengths]
            rows.append([name, *map(str, cells)])
    return markdown_table([title, *(f"{bits} bits" for bits in lengths)], rows)


def _changed_parameters(result: Result) -> tuple[str, ...]:
    """Return the parameters that differ from the method's preset, as ``--set`` takes them."""
    preset = json.loads(json.dumps(make_hasher(result.method, result.bits).get_params(), default=str))
    parameters = {**METHODS[result.method].hasher.legacy_values, **result.parameters}

    def has_effect(name: str) -> bool:  # a parameter that was added later can be without effect in this run
        values = {**parameters, name: preset[name]}
        recorded = make_hasher(result.method, result.bits, **values).recorded_parameters()
        return name in result.parameters or name in recorded

    changed = {name: value for name, value in parameters.items() if value != preset.get(name) and has_effect(name)}
    return tuple(f"{name}={json.dumps(value)}" for name, value in changed.items())


def in_registry_order(methods: Collection[str]) -> list[str]:
    """Return the methods in the order of the registry."""
    return [name for name in METHODS if name in methods]


def _commands(results: list[Result]) -> list[str]:
    """Return commands that repeat these runs, one for all methods with the same lengths, seeds and parameters."""
    seeds = _gather(((r.method, _changed_parameters(r), r.bits), r.seed) for r in results)
    lengths = _gather(((method, parameters, some), bits) for (method, parameters, bits), some in seeds.items())
    methods = _gather(((parameters, some, of), method) for (method, parameters, of), some in lengths.items())
    dataset = results[0].dataset
    return [_command(in_registry_order(names), dataset, *common) for common, names in sorted(methods.items())]


def _gather(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, tuple[Value, ...]]:
    """Return the distinct values of each key, sorted."""
    values: defaultdict[Key, set[Value]] = defaultdict(set)
    for key, value in pairs:
        values[key].add(value)
    return {key: tuple(sorted(some)) for key, some in values.items()}


def _command(
    methods: Sequence[str], dataset: str, parameters: Sequence[str], lengths: Sequence[int], seeds: Sequence[int]
) -> str:
    words = ["fewbits evaluate --save", *(f"--method {method}" for method in methods), f"--dataset {dataset}"]
    words += [f"--bits {bits}" for bits in lengths] + [f"--seed {seed}" for seed in seeds]
    return " ".join([*words, *(f"--set {shlex.quote(parameter)}" for parameter in parameters)])

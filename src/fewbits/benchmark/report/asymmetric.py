"""Asymmetric ranking: documents are bits, and a differing bit costs the query's confidence in it."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from fewbits.benchmark.evaluate import ASYMMETRIC, BOTH_REAL
from fewbits.benchmark.experiments import markdown_table
from fewbits.benchmark.report.tables import Cell, in_registry_order
from fewbits.benchmark.results import PRECISION, Result, Store
from fewbits.benchmark.spec import Spec
from fewbits.data.datasets import GENERALISATION_SOURCES
from fewbits.hashers.registry import METHODS

SUITE = "asymmetric"
LONG = 32  # bits from which on the share of the gap is summarised
MINIMUM_GAP = 0.005  # a share of a smaller gap is meaningless
RANKINGS = ("by distance", "by confidence", "real values on both sides")


@dataclass(frozen=True)
class Comparison:
    """Precisions of one method on one data set at one length, per seed."""

    by_distance: tuple[float, ...]
    by_confidence: tuple[float, ...]
    real: tuple[float, ...]

    @property
    def gain(self) -> float:
        """Return what the confidence adds to the precision."""
        return statistics.mean(self.by_confidence) - statistics.mean(self.by_distance)

    @property
    def gap(self) -> float:
        """Return what real values on both sides add to the precision."""
        return statistics.mean(self.real) - statistics.mean(self.by_distance)


Table = dict[str, dict[int, Comparison]]  # by method and length


def compare_rankings(store: Store) -> dict[str, Table]:
    """Return the comparisons by data set, of methods with their presets; runs without confidences are left out."""
    tables: defaultdict[str, Table] = defaultdict(dict)
    for runs in store.by_cell.values():
        known = [run for run in runs if has_confidence(run)]
        if known and known[0].dataset not in GENERALISATION_SOURCES and _has_preset(known[0]):
            columns = zip(*([run.metrics[PRECISION], *_real(run)] for run in known), strict=True)
            tables[known[0].dataset].setdefault(known[0].method, {})[known[0].bits] = Comparison(*map(tuple, columns))
    return {name: tables[name] for name in sorted(tables)}


def has_confidence(result: Result) -> bool:
    """Return whether a result has the precision by confidence."""
    return result.asymmetric is not None


def _real(run: Result) -> tuple[float, float]:
    assert run.asymmetric is not None
    return run.asymmetric[ASYMMETRIC], run.asymmetric[BOTH_REAL]


def _has_preset(result: Result) -> bool:
    return Spec(result.method, result.dataset, result.bits, result.seed, result.part).cell == result.cell


def render_asymmetric(store: Store) -> str:
    """Return the page in Markdown."""
    return "\n".join([INTRODUCTION, *_tables(compare_rankings(store)), COMMANDS])


def render_asymmetric_tables(store: Store, datasets: Collection[str] = ()) -> str:
    """Return the tables alone, of some data sets or of all."""
    tables = compare_rankings(store)
    return "\n".join(_tables({name: table for name, table in tables.items() if not datasets or name in datasets}))


def _tables(tables: dict[str, Table]) -> Iterator[str]:
    for dataset, table in tables.items():
        lengths = sorted({bits for row in table.values() for bits in row})
        rows = []
        for method in in_registry_order(table):
            for number, ranking in enumerate(RANKINGS):
                cells = [_cell(table[method].get(bits), number) for bits in lengths]
                rows.append([f"{METHODS[method].title}, {ranking}", *cells])
        yield f"## {dataset}\n"
        yield markdown_table(["precision at 100", *(f"{bits} bits" for bits in lengths)], rows)
    if tables:
        yield "## Summary\n"
        yield markdown_table(
            [
                "method",
                "mean gain by confidence",
                "mean gain with real values",
                f"share of the gap, {LONG} bits or more",
            ],
            list(_summary(tables)),
        )


def _cell(comparison: Comparison | None, number: int) -> str:
    if comparison is None:
        return ""
    return str(Cell((comparison.by_distance, comparison.by_confidence, comparison.real)[number]))


def _summary(tables: dict[str, Table]) -> Iterator[list[str]]:
    for method in in_registry_order({method for table in tables.values() for method in table}):
        pairs = [(bits, one) for table in tables.values() for bits, one in table.get(method, {}).items()]
        gains, gaps = [one.gain for _, one in pairs], [one.gap for _, one in pairs]
        share = share_of_gap(one for bits, one in pairs if bits >= LONG)
        yield [
            METHODS[method].title,
            f"{statistics.mean(gains):+.4f}",
            f"{statistics.mean(gaps):+.4f}",
            "" if share is None else f"{share:.0%}",
        ]


def share_of_gap(comparisons: Iterable[Comparison]) -> float | None:
    """Return the sum of the gains as a share of the sum of the gaps, None if the gaps are too small for one."""
    some = list(comparisons)
    if not some or statistics.mean(one.gap for one in some) < MINIMUM_GAP:
        return None
    return sum(one.gain for one in some) / sum(one.gap for one in some)


INTRODUCTION = f"""\
# Asymmetric ranking

Rendered by `fewbits bench report` from the files in `results/`. An index stores only the bits of its documents, but a
query is encoded at search time, and the margins of its bits are known. *By distance* counts the bits that differ, as in
published tables. *By confidence*, a differing bit costs the query's confidence in it, without additional storage: this
is how `similar` and a hybrid search rank. For *real values on both sides*, the documents have confidences instead of
bits, in 32 times the memory or more; it is the better of inner product and cosine, and no code can be expected to reach
it. The figures are the precision at 100 of the test documents among the training documents, the mean over the seeds.

The *share of the gap* is the sum of the gains by confidence, divided by the sum of the gains with real values. It is
left out where real values gain less than {MINIMUM_GAP} on average.
"""
COMMANDS = """\
The first command makes the tables; the second adds a method:

```sh
fewbits bench asymmetric
fewbits evaluate --method lsh --dataset ng20 --bits 8 --bits 16 --bits 32 --bits 64 --bits 128 --save
```
"""

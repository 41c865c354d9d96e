"""Results found by what was run, and what of a suite is missing or has failed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from fewbits.benchmark.report.tables import Cell
from fewbits.benchmark.results import Result
from fewbits.benchmark.spec import Spec
from fewbits.benchmark.times import Times


class Store:
    """Results on the test part; of each data set those on one choice of documents, which most of them have."""

    def __init__(self, results: Iterable[Result], failures: Iterable[Result] = ()) -> None:
        well, failed = ([one for one in some if one.part == "test"] for some in (results, failures))
        documents = _prevailing([*well, *failed])
        self.by_cell: defaultdict[str, list[Result]] = defaultdict(list)
        self.left_out: Counter[str] = Counter()  # of each data set: results on other documents
        for result in well:
            if result.data_fingerprint == documents[result.dataset]:
                self.by_cell[result.cell].append(result)
            else:
                self.left_out[result.dataset] += 1
        self.floors = {cell[0].dataset: cell[0].metrics["random_floor"] for cell in self.by_cell.values()}
        self.times = Times(result for cell in self.by_cell.values() for result in cell)
        self._well = {result.key for cell in self.by_cell.values() for result in cell}
        self._failed = {result.key for result in failed if result.data_fingerprint == documents[result.dataset]}

    def of(self, spec: Spec) -> list[Result]:
        """Results of a run and of those that differ by the seed alone."""
        return self.by_cell.get(spec.cell, [])

    def cell(self, specs: Sequence[Spec], published: float | None = None) -> Cell:
        """The precision of the runs that a cell stands for, equal but for the seed."""
        values = tuple(result.metrics["precision_at_100"] for result in (self.of(specs[0]) if specs else []))
        return Cell(values, published)

    def missing(self, specs: Sequence[Spec]) -> int:
        """How many runs were not done, or not on these documents."""
        done = self._well | self._failed
        return sum(spec.key not in done for spec in specs)

    def failed(self, specs: Sequence[Spec]) -> int:
        """How many runs were done and failed."""
        return sum(spec.key in self._failed for spec in specs)

    def shortfall(self, specs: Sequence[Spec]) -> list[str]:
        """How many runs have no figure, in words; nothing where all have one."""
        counts = {"are missing": self.missing(specs), "failed": self.failed(specs)}
        return [f"{count} of {len(specs)} runs {what}." for what, count in counts.items() if count]

    @property
    def others(self) -> list[str]:
        """What was left out, in words."""
        counted = ", ".join(f"{count} on {dataset}" for dataset, count in sorted(self.left_out.items()))
        return [f"Results on other documents than most have were left out: {counted}."] if counted else []


def _prevailing(results: Iterable[Result]) -> dict[str, str]:
    """The documents that most results of each data set are on, by their fingerprint."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        counts[result.dataset][result.data_fingerprint] += 1
    return {dataset: max(found, key=lambda one: (found[one], one)) for dataset, found in counts.items()}

"""How long runs take, judged by those that were done."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable

from fewbits.benchmark.results import Result
from fewbits.benchmark.spec import Spec

PHASES = ("fit", "encode", "evaluate")


class Times:
    """Seconds of runs, from learning to measuring; medians, because a run that stalled once says nothing."""

    def __init__(self, results: Iterable[Result] = ()) -> None:
        self._of_cell: defaultdict[str, list[float]] = defaultdict(list)
        self._of_method: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        for result in results:
            self.add(result)

    def add(self, result: Result) -> None:
        """Take a run into account; one that failed tells nothing."""
        if result.error is None:
            seconds = sum(result.seconds.get(phase, 0.0) for phase in PHASES)
            self._of_cell[result.cell].append(seconds)
            self._of_method[result.method, result.dataset].append(seconds)

    def of(self, spec: Spec) -> float | None:
        """As long as those that differ by the seed, else as those of the same method on the same data set."""
        known = self._of_cell.get(spec.cell) or self._of_method.get((spec.method, spec.dataset_name))
        return statistics.median(known) if known else None

    def together(self, specs: Iterable[Spec]) -> tuple[float, int]:
        """Seconds of all runs one after the other, and of how many nothing is known."""
        each = [self.of(spec) for spec in specs]
        return sum(seconds for seconds in each if seconds is not None), each.count(None)

    def left(self, specs: Collection[Spec]) -> float | None:
        """Seconds of runs that are to do; those of which nothing is known take as long as the others on average."""
        if not specs:
            return 0.0
        all_done = [seconds for some in self._of_cell.values() for seconds in some]
        known = [seconds for spec in specs if (seconds := self.of(spec)) is not None] or all_done
        return statistics.mean(known) * len(specs) if known else None

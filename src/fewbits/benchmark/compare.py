"""Comparison of results with earlier ones: cells whose precision has decreased, and runs that now fail."""

from __future__ import annotations

import io
import statistics
import subprocess
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fewbits.benchmark.results import PRECISION, Result, load_results
from fewbits.errors import MissingFileError


@dataclass(frozen=True)
class Regression:
    """A cell whose mean precision over the common seeds has decreased, or a run that now fails."""

    method: str
    dataset: str
    bits: int
    before: float
    now: float | None
    error: str = ""

    def __str__(self) -> str:
        now = f"failed now: {self.error}" if self.now is None else f"{self.now:.4f} now"
        return f"{self.method} {self.dataset} {self.bits} bits: {self.before:.4f} before, {now}"


@dataclass(frozen=True)
class Comparison:
    """Regressions between two sets of results, and the number of runs that could be compared."""

    compared: int
    unmatched: Counter[str]  # earlier runs without a counterpart now, by reason
    worse: list[Regression]

    def __str__(self) -> str:
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.unmatched.most_common())
        text = f"{self.compared} runs compared, {self.unmatched.total()} without a counterpart"
        return f"{text} ({reasons})" if reasons else text


def compare(now: Iterable[Result], before: Iterable[Result], tolerance: float) -> Comparison:
    """Compare runs on the same data; a cell is worse if its precision decreased by more than the tolerance."""
    current = {_run(result): result for result in now}
    unmatched: Counter[str] = Counter()
    cells: defaultdict[tuple[str, str], list[tuple[Result, Result]]] = defaultdict(list)
    for old in before:
        if new := current.get(_run(old)):
            cells[old.cell, old.data_fingerprint].append((old, new))
        else:
            unmatched[_mismatch(old, current.values())] += 1
    worse = [one for cell in cells.values() for one in _regressions(cell, tolerance)]
    return Comparison(sum(map(len, cells.values())), unmatched, worse)


def _run(result: Result) -> tuple[str, str]:
    return result.key, result.data_fingerprint


def _regressions(cell: Sequence[tuple[Result, Result]], tolerance: float) -> Iterator[Regression]:
    cell_name = (cell[0][0].method, cell[0][0].dataset, cell[0][0].bits)
    for old, new in cell:
        if new.error is not None:
            yield Regression(*cell_name, old.metrics[PRECISION], None, new.error)
    precisions = [(old.metrics[PRECISION], new.metrics[PRECISION]) for old, new in cell if new.error is None]
    if precisions:
        mean_before, mean_now = map(statistics.mean, zip(*precisions, strict=True))
        if mean_before - mean_now > tolerance:
            yield Regression(*cell_name, mean_before, mean_now)


def _mismatch(old: Result, now: Iterable[Result]) -> str:
    def position(result: Result) -> tuple[str, str, int, int, str]:
        return result.method, result.dataset, result.bits, result.seed, result.part

    same_position = [result for result in now if position(result) == position(old)]
    if any(result.key == old.key for result in same_position):
        return "on different data"
    return "with different parameters" if same_position else "not run"


def load_baseline(baseline: str, results: Path) -> list[Result]:
    """Load the results to compare with, from a folder or from the same folder in a git revision."""
    if Path(baseline).is_dir():
        return list(load_results(Path(baseline)))
    folder = Path(results).absolute()
    command = ["git", "archive", "--format=tar", baseline]  # archives the working directory
    archive = None
    if folder.is_dir():
        archive = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    if archive is None or archive.returncode:
        raise MissingFileError(
            f"no results to compare {results} with",
            allowed="a folder of results, or a git revision that contains them",
            got=baseline,
        )
    with tempfile.TemporaryDirectory() as folder_before, tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
        packed.extractall(folder_before, filter="data")
        return list(load_results(Path(folder_before)))

"""Our figures beside our own of before: has anything got worse?"""

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

from fewbits.benchmark.results import Result, load_results
from fewbits.errors import MissingFileError

METRIC = "precision_at_100"


@dataclass(frozen=True)
class Worse:
    """A cell whose precision has fallen: means over the seeds that both have; or one of which a run fails now."""

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
    """How two stores differ: what got worse, and how much could be compared at all."""

    compared: int
    alone: Counter[str]  # runs of before that have no counterpart now, by the reason
    worse: list[Worse]

    def __str__(self) -> str:
        why = ", ".join(f"{count} {reason}" for reason, count in self.alone.most_common())
        return f"{self.compared} runs compared, {self.alone.total()} have no counterpart" + (f" ({why})" if why else "")


def compare(now: Iterable[Result], before: Iterable[Result], tolerance: float) -> Comparison:
    """Compare runs on the same documents; a cell is worse where its precision fell by more than the tolerance."""
    found = {_run(result): result for result in now}
    alone: Counter[str] = Counter()
    cells: defaultdict[tuple[str, str], list[tuple[Result, Result]]] = defaultdict(list)
    for old in before:
        if new := found.get(_run(old)):
            cells[old.cell, old.data_fingerprint].append((old, new))
        else:
            alone[_why_alone(old, found.values())] += 1
    worse = [one for both in cells.values() for one in _worse(both, tolerance)]
    return Comparison(sum(map(len, cells.values())), alone, worse)


def _run(result: Result) -> tuple[str, str]:
    return result.key, result.data_fingerprint


def _worse(cell: Sequence[tuple[Result, Result]], tolerance: float) -> Iterator[Worse]:
    where = (cell[0][0].method, cell[0][0].dataset, cell[0][0].bits)
    for old, new in cell:
        if new.error is not None:
            yield Worse(*where, old.metrics[METRIC], None, new.error)
    well = [(old.metrics[METRIC], new.metrics[METRIC]) for old, new in cell if new.error is None]
    if well:
        was, is_now = map(statistics.mean, zip(*well, strict=True))
        if was - is_now > tolerance:
            yield Worse(*where, was, is_now)


def _why_alone(old: Result, now: Iterable[Result]) -> str:
    def place(result: Result) -> tuple[str, str, int, int, str]:
        return result.method, result.dataset, result.bits, result.seed, result.part

    same_place = [result for result in now if place(result) == place(old)]
    if any(result.key == old.key for result in same_place):
        return "on other documents"
    return "with other parameters" if same_place else "not run"


def load_baseline(baseline: str, results: Path) -> list[Result]:
    """Results to compare with: those of a folder, or those that a git revision has of the same folder."""
    if Path(baseline).is_dir():
        return list(load_results(Path(baseline)))
    folder = Path(results).absolute()
    command = ["git", "archive", "--format=tar", baseline]  # of the folder that it is called in
    archive = None
    if folder.is_dir():
        archive = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    if archive is None or archive.returncode:
        raise MissingFileError(
            f"there is nothing to compare {results} with",
            allowed="a folder of results, or a git revision that has them",
            got=baseline,
        )
    with tempfile.TemporaryDirectory() as place, tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
        packed.extractall(place, filter="data")
        return list(load_results(Path(place)))

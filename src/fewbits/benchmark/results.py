"""Results of runs: one JSON file per run in a folder, lookup by table cell, run times, and regressions."""

from __future__ import annotations

import dataclasses
import io
import statistics
import subprocess
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewbits.benchmark.spec import IdentifiedRun, Identity, Spec, file_name
from fewbits.errors import BrokenFolderError, MissingFileError
from fewbits.storage import read_json, write_json

FORMAT_VERSION = 1
PRECISION = "precision_at_100"
OPTIONAL = {"error", "asymmetric"}  # fields that are left out if they are None
PHASES = ("fit", "encode", "evaluate")


@dataclass(frozen=True)
class Result(IdentifiedRun):
    """The outcome of one run: its specification with metrics and costs, or the error that ended it."""

    method: str
    dataset: str
    bits: int
    seed: int
    part: str  # the part that provided the queries
    parameters: dict[str, Any]
    metrics: dict[str, float]
    seconds: dict[str, float]
    peak_memory_mb: float
    versions: dict[str, str]
    data_fingerprint: str
    error: str | None = None  # if set, metrics is empty and no table includes the run
    asymmetric: dict[str, float] | None = None  # precision with real values; None in files of earlier versions

    @property
    def file_name(self) -> str:
        """Return the name of the file, unique to the run's specification and data."""
        return file_name(*self.identity, self.data_fingerprint)

    @property
    def identity(self) -> Identity:
        """Return the identity of the run, without the fingerprint of the data."""
        return self.method, self.dataset, self.bits, self.seed, self.part, self.parameters

    def save(self, folder: Path) -> Path:
        """Write the result, replacing an earlier result of the same run."""
        path = Path(folder) / self.file_name
        content = dataclasses.asdict(self)
        for name in OPTIONAL:
            if content[name] is None:
                del content[name]
        write_json(path, {"format_version": FORMAT_VERSION, **content})
        return path

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read one result file."""
        content = read_json(path)
        names = {field.name for field in dataclasses.fields(cls)}
        if (
            not isinstance(content, dict)
            or content.pop("format_version", None) != FORMAT_VERSION
            or set(content) | OPTIONAL != names
            or not (content.get("error") or PRECISION in content["metrics"])
        ):
            raise BrokenFolderError(f"{path} is not a valid result file", allowed=f"format version {FORMAT_VERSION}")
        return cls(**content)


def load_results(folder: Path) -> Iterator[Result]:
    """Yield the results of all successful runs in a folder, ordered by file name."""
    return (result for result in _load_all(folder) if result.error is None)


def load_failures(folder: Path) -> Iterator[Result]:
    """Yield the results of all failed runs in a folder, ordered by file name."""
    return (result for result in _load_all(folder) if result.error is not None)


def _load_all(folder: Path) -> Iterator[Result]:
    if not Path(folder).is_dir():
        raise MissingFileError(f"{folder} does not exist", hint="Create results with: fewbits bench run quick")
    return (Result.load(path) for path in sorted(Path(folder).glob("*.json")))


class Store:
    """Results on the test part, indexed by table cell.

    For each data set, only results on the most frequent version of the data (its fingerprint) are included.
    """

    def __init__(self, results: Iterable[Result], failures: Iterable[Result] = ()) -> None:
        succeeded, failed = ([one for one in some if one.part == "test"] for some in (results, failures))
        fingerprints = _most_frequent_fingerprints([*succeeded, *failed])
        self.by_cell: defaultdict[str, list[Result]] = defaultdict(list)
        self.n_excluded: Counter[str] = Counter()  # per data set: results on another version of the data
        for result in succeeded:
            if result.data_fingerprint == fingerprints[result.dataset]:
                self.by_cell[result.cell].append(result)
            else:
                self.n_excluded[result.dataset] += 1
        included = [result for results in self.by_cell.values() for result in results]
        self.chance_levels = {result.dataset: result.metrics["random_floor"] for result in included}
        self.times = RunTimes(included)
        self._succeeded = {result.key for result in included}
        self._failed = {result.key for result in failed if result.data_fingerprint == fingerprints[result.dataset]}

    def runs(self, spec: Spec) -> list[Result]:
        """Return the results of a run and of all runs that differ from it only in the seed."""
        return self.by_cell.get(spec.cell, [])

    def precisions(self, specs: Sequence[Spec]) -> tuple[float, ...]:
        """Return the precision per seed of specifications that differ only in the seed."""
        return tuple(result.metrics[PRECISION] for result in self.runs(specs[0])) if specs else ()

    def count_missing(self, specs: Sequence[Spec]) -> int:
        """Count the runs that have neither a result nor a failure on this version of the data."""
        finished = self._succeeded | self._failed
        return sum(spec.key not in finished for spec in specs)

    def shortfall(self, specs: Sequence[Spec]) -> list[str]:
        """Return a sentence each for missing and failed runs; an empty list if all runs have a result."""
        n_failed = sum(spec.key in self._failed for spec in specs)
        counts = {"are missing": self.count_missing(specs), "failed": n_failed}
        return [f"{count} of {len(specs)} runs {state}." for state, count in counts.items() if count]

    @property
    def exclusions(self) -> list[str]:
        """Return a sentence that counts the excluded results; an empty list if there are none."""
        counts = ", ".join(f"{count} on {dataset}" for dataset, count in sorted(self.n_excluded.items()))
        return [f"Results on a different version of the data are excluded: {counts}."] if counts else []


def _most_frequent_fingerprints(results: Iterable[Result]) -> dict[str, str]:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        counts[result.dataset][result.data_fingerprint] += 1
    return {dataset: max(count, key=lambda one: (count[one], one)) for dataset, count in counts.items()}


class RunTimes:
    """Estimates of run times from finished runs: medians, so that a run that stalled has no effect."""

    def __init__(self, results: Iterable[Result] = ()) -> None:
        self._by_cell: defaultdict[str, list[float]] = defaultdict(list)
        self._by_method: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        for result in results:
            self.add(result)

    def add(self, result: Result) -> None:
        """Include a run, unless it failed."""
        if result.error is None:
            seconds = sum(result.seconds.get(phase, 0.0) for phase in PHASES)
            self._by_cell[result.cell].append(seconds)
            self._by_method[result.method, result.dataset].append(seconds)

    def estimate(self, spec: Spec) -> float | None:
        """Return the median over the seeds, else over the method on the data set; None without any such run."""
        seconds = self._by_cell.get(spec.cell) or self._by_method.get((spec.method, spec.dataset_name))
        return statistics.median(seconds) if seconds else None

    def total(self, specs: Iterable[Spec]) -> tuple[float, int]:
        """Return the estimated seconds of all runs, and the number of runs without an estimate."""
        estimates = [self.estimate(spec) for spec in specs]
        return sum(seconds for seconds in estimates if seconds is not None), estimates.count(None)

    def remaining(self, specs: Collection[Spec]) -> float | None:
        """Return the estimated seconds left; runs without an estimate count as the mean of the others."""
        if not specs:
            return 0.0
        finished = [seconds for some in self._by_cell.values() for seconds in some]
        estimates = [seconds for spec in specs if (seconds := self.estimate(spec)) is not None] or finished
        return statistics.mean(estimates) * len(specs) if estimates else None


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

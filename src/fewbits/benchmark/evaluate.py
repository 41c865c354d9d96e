"""The most memory that this process has held since a moment."""

from __future__ import annotations

import dataclasses
import platform
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from fewbits.benchmark.results import Result, load_results
from fewbits.benchmark.spec import Spec
from fewbits.codes import Bits, pack, unpack
from fewbits.data.datasets import SOURCES, Dataset, load_dataset
from fewbits.features import nearest_by_cosine
from fewbits.metrics import bit_entropy, distinct_share, neighbour_recall, random_floor
from fewbits.metrics.retrieval import average_precision_from_ties, precision_from_ties, recall_from_ties
from fewbits.metrics.ties import tie_groups
from fewbits.storage import atomic_write, read_arrays

STATUS = Path("/proc/self/status")


def forget_peak() -> None:
    """Start counting anew, where the system can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # elsewhere the peak is that of the whole process
        return


def peak_memory_mb() -> float:
    """Peak of resident memory in megabytes (1,000,000 bytes)."""
    if STATUS.exists():
        [line] = [line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:")]
        return round(int(line.split()[1]) * 1024 / 1e6, 1)
    import resource  # not on every system

    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)


PACKAGES = ("fewbits", "numpy", "scipy", "scikit-learn", "faiss-cpu", "torch")
NEIGHBOURS = 10  # nearest by cosine that a code should find among its first DEPTH
DEPTH = 100
RADIUS = 2


@dataclass(frozen=True)
class Codes:
    """What a run is measured by: codes of the queries and of the training documents, 0/1."""

    queries: Bits
    database: Bits


def evaluate(
    method: str, dataset: Dataset, bits: int, seed: int, *, part: str = "test", parameters: dict[str, Any] | None = None
) -> Result:
    """Run a method on a data set: queries are one part of it, the database is the training part."""
    return learn_and_measure(Spec(method, dataset.name, bits, seed, part, parameters or {}), dataset)[0]


def learn_and_measure(spec: Spec, dataset: Dataset) -> tuple[Result, Codes]:
    """Do one run on the data set that it names."""
    hasher = spec.hasher()
    queries = dataset.part(spec.part)
    seconds: dict[str, float] = {}
    forget_peak()
    with _timed(seconds, "fit"):
        hasher.fit(dataset.train.features, dataset.train.labels)
    with _timed(seconds, "encode"):
        codes = Codes(hasher.transform(queries.features), hasher.transform(dataset.train.features))
    peak = peak_memory_mb()  # of learning and encoding; measuring has its own
    with _timed(seconds, "evaluate"):
        metrics = measure(dataset, spec.part, codes)
    history = getattr(hasher, "history_", [])
    if history:
        seconds["epoch"] = statistics.median(record["seconds"] for record in history)
    result = Result(
        method=spec.method,
        dataset=dataset.name,
        bits=spec.bits,
        seed=spec.seed,
        part=spec.part,
        parameters=spec.all_parameters,
        metrics=metrics,
        seconds={name: round(value, 3) for name, value in seconds.items()},
        peak_memory_mb=peak,
        versions=versions(),
        data_fingerprint=dataset.fingerprint,
    )
    return result, codes


def failed(spec: Spec, data_fingerprint: str, error: str) -> Result:
    """The result of a run that did not end well."""
    where = (spec.method, spec.dataset_name, spec.bits, spec.seed, spec.part)
    return Result(*where, spec.all_parameters, {}, {}, 0.0, versions(), data_fingerprint, error)


def versions() -> dict[str, str]:
    """Versions of Python and of what takes part in a run."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):  # torch is an extra
            found[name] = version(name)
    return found


def measure(dataset: Dataset, part: str, codes: Codes) -> dict[str, float]:
    """Every metric of the codes of one part against those of the training part."""
    queries, database = codes.queries, codes.database
    labels = dataset.part(part).labels
    counted = tie_groups(queries, labels, database, dataset.train.labels)
    metrics = {
        f"precision_at_{DEPTH}": precision_from_ties(counted, DEPTH),
        "mean_average_precision": average_precision_from_ties(counted),
        f"recall_within_radius_{RADIUS}": recall_from_ties(counted, min(RADIUS, queries.shape[1])),
        "neighbour_recall": neighbour_recall(queries, database, _true_neighbours(dataset, part), DEPTH),
        "bit_entropy": float(bit_entropy(database).mean()),
        "least_bit_entropy": float(bit_entropy(database).min()),
        "distinct_share": distinct_share(database),
        "random_floor": random_floor(labels, dataset.train.labels),
    }
    return {name: round(value, 6) for name, value in metrics.items()}


@lru_cache(maxsize=1)  # the same for every method and length, and slower to find than any code
def _true_neighbours(dataset: Dataset, part: str) -> NDArray[np.int64]:
    return nearest_by_cosine(dataset.part(part).features, dataset.train.features, NEIGHBOURS)


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - start


FOLDER = "codes"  # inside the store, and outside git


@dataclass(frozen=True)
class Measured:
    """A result whose metrics were computed again, and whether they differ from what was stored."""

    result: Result
    changed: bool


def keep_codes(result: Result, codes: Codes, results: Path) -> Path:
    """Write the codes of a run, packed."""
    path = _place(result, results)
    arrays = {
        "queries": np.ascontiguousarray(pack(codes.queries)),
        "database": np.ascontiguousarray(pack(codes.database)),
    }
    with atomic_write(path) as stream:
        stream.write(save(arrays))
    return path


def reevaluate(results: Path, sources: Sequence[str] = (), *, progress: bool = False) -> Iterator[Measured]:
    """Compute the metrics of all results whose codes were kept, and store what has changed.

    ``sources`` are paths of .mat files that results are of. Results of other documents than the data set has now are
    left alone.
    """
    paths = {Path(source).name: source for source in sources}
    by_dataset: defaultdict[str, list[Result]] = defaultdict(list)
    for result in load_results(results):
        if _place(result, results).is_file() and (result.dataset in SOURCES or result.dataset in paths):
            by_dataset[result.dataset].append(result)
    for name, stored in by_dataset.items():
        dataset = load_dataset(paths.get(name, name), progress=progress)
        for result in stored:
            if result.data_fingerprint != dataset.fingerprint:
                continue
            arrays = read_arrays(_place(result, results))
            queries, database = (unpack(arrays[part], result.bits) for part in ("queries", "database"))
            metrics = measure(dataset, result.part, Codes(queries, database))
            again = dataclasses.replace(result, metrics=metrics)
            changed = again.metrics != result.metrics
            if changed:
                again.save(results)
            yield Measured(again, changed)


def count_left_out(results: Path, measured: Sequence[Measured]) -> dict[str, int]:
    """How many results could not be measured again, by the reason."""
    stored = list(load_results(results))
    without = sum(not _place(result, results).is_file() for result in stored)
    return {"without kept codes": without, "on documents that are not here": len(stored) - without - len(measured)}


def _place(result: Result, results: Path) -> Path:
    return Path(results) / FOLDER / result.file_name.replace(".json", ".safetensors")

"""One run: fit a hasher on a data set, encode, and compute the metrics; also from stored codes, without fitting."""

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
from sklearn.preprocessing import normalize

from fewbits.benchmark.results import Result, load_results
from fewbits.benchmark.spec import Spec
from fewbits.codes import Bits, pack, unpack
from fewbits.data.datasets import PARTS, Dataset, is_source, load_dataset
from fewbits.features import nearest_by_cosine
from fewbits.hashers.base import Hasher
from fewbits.metrics import (
    asymmetric_precision_at_k,
    bit_entropy,
    inner_product_precision_at_k,
    neighbour_recall,
    random_floor,
    unique_code_ratio,
)
from fewbits.metrics.retrieval import average_precision_from_ties, precision_from_ties, recall_from_ties
from fewbits.metrics.ties import tie_groups
from fewbits.storage import atomic_write, read_arrays

PACKAGES = ("fewbits", "numpy", "scipy", "scikit-learn", "faiss-cpu", "torch")
DEPTH = 100
PRECISION_AT_TENTH = "precision_at_tenth"  # at a tenth of the database, at least 10; of databases below 1,000 documents
ASYMMETRIC = f"asymmetric_precision_at_{DEPTH}"  # a differing bit costs the query's confidence in it
BOTH_REAL = f"real_precision_at_{DEPTH}"  # the documents, too, have confidences instead of bits
N_NEIGHBORS = 10  # nearest by cosine, expected among the first DEPTH by code
RADIUS = 2
CODES_FOLDER = "codes"  # inside the folder of results, ignored by git
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Codes:
    """Codes of the queries and of the database, as 0/1."""

    queries: Bits
    database: Bits


def describe(dataset: Dataset) -> dict[str, Any]:
    """Return the sizes of a data set and the precision of a random ranking on it."""
    return {
        "name": dataset.name,
        **{part: len(dataset.part(part)) for part in PARTS},
        "vocabulary": len(dataset.vocabulary),
        "labels": len(dataset.label_names),
        "random_floor": round(random_floor(dataset.test.labels, dataset.train.labels), 4),
        "fingerprint": dataset.fingerprint[:12],
    }


def evaluate(
    method: str, dataset: Dataset, bits: int, seed: int, *, part: str = "test", parameters: dict[str, Any] | None = None
) -> Result:
    """Fit a method on the training part of a data set and search it with the documents of another part."""
    return run_spec(Spec(method, dataset.name, bits, seed, part, parameters or {}), dataset)[0]


def run_spec(spec: Spec, dataset: Dataset) -> tuple[Result, Codes]:
    """Do one run on the data set that it names."""
    hasher = spec.hasher()
    queries = dataset.part(spec.part)
    seconds: dict[str, float] = {}
    reset_peak_memory()
    with _timed(seconds, "fit"):
        hasher.fit(dataset.train.features, dataset.train.labels)
    with _timed(seconds, "encode"):
        codes = Codes(hasher.transform(queries.features), hasher.transform(dataset.train.features))
    peak = peak_memory_mb()  # of fitting and encoding, not of the evaluation
    with _timed(seconds, "evaluate"):
        metrics = compute_metrics(dataset, spec.part, codes)
        asymmetric = asymmetric_metrics(hasher, dataset, spec.part, codes)
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
        asymmetric=asymmetric,
    )
    return result, codes


def failed_result(spec: Spec, data_fingerprint: str, error: str) -> Result:
    """Return the result of a run that ended with an error."""
    run = (spec.method, spec.dataset_name, spec.bits, spec.seed, spec.part)
    return Result(*run, spec.all_parameters, {}, {}, 0.0, versions(), data_fingerprint, error)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect a run."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):  # torch is optional
            found[name] = version(name)
    return found


def compute_metrics(dataset: Dataset, part: str, codes: Codes) -> dict[str, float]:
    """Compute all metrics of the codes of one part, searched among those of the training part."""
    queries, database = codes.queries, codes.database
    labels = dataset.part(part).labels
    groups = tie_groups(queries, labels, database, dataset.train.labels)
    metrics = {
        f"precision_at_{DEPTH}": precision_from_ties(groups, DEPTH),
        "mean_average_precision": average_precision_from_ties(groups),
        f"recall_within_radius_{RADIUS}": recall_from_ties(groups, min(RADIUS, queries.shape[1])),
        "neighbour_recall": neighbour_recall(queries, database, _true_neighbors(dataset, part), DEPTH),
        "bit_entropy": float(bit_entropy(database).mean()),
        "least_bit_entropy": float(bit_entropy(database).min()),
        "distinct_share": unique_code_ratio(database),
        "random_floor": random_floor(labels, dataset.train.labels),
    }
    if len(database) < 10 * DEPTH:  # the first 100 of a small database are a large part of it
        metrics[PRECISION_AT_TENTH] = precision_from_ties(groups, max(10, len(database) // 10))
    return {name: round(value, 6) for name, value in metrics.items()}


def asymmetric_metrics(hasher: Hasher, dataset: Dataset, part: str, codes: Codes) -> dict[str, float]:
    """Compute the precision with bits weighted by confidence: of the queries alone, and on both sides.

    On both sides it is the larger of those by inner product and by cosine, a reference that no code can be expected to
    reach.
    """
    queries, train = dataset.part(part), dataset.train
    ours, theirs = hasher.signed_confidence(queries.features), hasher.signed_confidence(train.features)
    both = [
        inner_product_precision_at_k(ours, queries.labels, vectors, train.labels, DEPTH)
        for vectors in (theirs, normalize(theirs))  # the length of the query does not change its order
    ]
    by_confidence = asymmetric_precision_at_k(ours, queries.labels, codes.database, train.labels, DEPTH)
    return {ASYMMETRIC: round(by_confidence, 6), BOTH_REAL: round(max(both), 6)}


@lru_cache(maxsize=1)  # independent of method and length, and slower to compute than the metrics
def _true_neighbors(dataset: Dataset, part: str) -> NDArray[np.int64]:
    return nearest_by_cosine(dataset.part(part).features, dataset.train.features, N_NEIGHBORS)


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - start


# psutil is no substitute: on Linux it reports the current memory, and neither reads nor resets the peak.


def reset_peak_memory() -> None:
    """Reset the peak to the current memory; on Linux only, elsewhere it remains that of the whole process."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_mb() -> float:
    """Return the peak resident memory of this process in megabytes (1,000,000 bytes)."""
    if STATUS.exists():
        [line] = [line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:")]
        return round(int(line.split()[1]) * 1024 / 1e6, 1)
    import resource  # not available on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)


@dataclass(frozen=True)
class Reevaluation:
    """A result with recomputed metrics, and whether they differ from the stored ones."""

    result: Result
    changed: bool


def save_codes(result: Result, codes: Codes, results: Path) -> Path:
    """Store the packed codes of a run."""
    path = _codes_path(result, results)
    arrays = {
        "queries": np.ascontiguousarray(pack(codes.queries)),
        "database": np.ascontiguousarray(pack(codes.database)),
    }
    with atomic_write(path) as stream:
        stream.write(save(arrays))
    return path


def reevaluate(results: Path, sources: Sequence[str] = (), *, progress: bool = False) -> Iterator[Reevaluation]:
    """Recompute the metrics of all results with stored codes, and save those that have changed.

    ``sources`` are paths of .mat files. Results on a different version of a data set are skipped.
    """
    paths = {Path(source).name: source for source in sources}
    by_dataset: defaultdict[str, list[Result]] = defaultdict(list)
    for result in load_results(results):
        if _codes_path(result, results).is_file() and (is_source(result.dataset) or result.dataset in paths):
            by_dataset[result.dataset].append(result)
    for name, stored in by_dataset.items():
        dataset = load_dataset(paths.get(name, name), progress=progress)
        for result in stored:
            if result.data_fingerprint != dataset.fingerprint:
                continue
            arrays = read_arrays(_codes_path(result, results))
            queries, database = (unpack(arrays[side], result.bits) for side in ("queries", "database"))
            metrics = compute_metrics(dataset, result.part, Codes(queries, database))
            updated = dataclasses.replace(result, metrics=metrics)
            changed = updated.metrics != result.metrics
            if changed:
                updated.save(results)
            yield Reevaluation(updated, changed)


def count_skipped(results: Path, reevaluated: Sequence[Reevaluation]) -> dict[str, int]:
    """Count the results that could not be reevaluated, by reason."""
    stored = list(load_results(results))
    without_codes = sum(not _codes_path(result, results).is_file() for result in stored)
    return {
        "without stored codes": without_codes,
        "on data that is not available": len(stored) - without_codes - len(reevaluated),
    }


def _codes_path(result: Result, results: Path) -> Path:
    return Path(results) / CODES_FOLDER / result.file_name.replace(".json", ".safetensors")

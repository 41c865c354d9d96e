"""One run: learn on the training part, encode, measure."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewbits.benchmark.memory import forget_peak, peak_memory_mb
from fewbits.benchmark.results import Result
from fewbits.benchmark.suites import Spec
from fewbits.codes import Bits
from fewbits.datasets import Dataset
from fewbits.evaluation import bit_entropy, distinct_share, neighbour_recall, random_floor
from fewbits.evaluation.retrieval import shell_average_precision, shell_precision, shell_recall
from fewbits.evaluation.shells import shells
from fewbits.features import nearest_by_cosine

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
    counted = shells(queries, labels, database, dataset.train.labels)
    metrics = {
        f"precision_at_{DEPTH}": shell_precision(counted, DEPTH),
        "mean_average_precision": shell_average_precision(counted),
        f"recall_within_radius_{RADIUS}": shell_recall(counted, min(RADIUS, queries.shape[1])),
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

"""One run: learn on the training part, encode, measure."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewbits.benchmark.memory import forget_peak, peak_memory_mb
from fewbits.benchmark.results import Result, file_name
from fewbits.codes import Bits
from fewbits.datasets import Dataset
from fewbits.evaluation import bit_entropy, distinct_share, neighbour_recall, random_floor
from fewbits.evaluation.retrieval import shell_average_precision, shell_precision, shell_recall
from fewbits.evaluation.shells import shells
from fewbits.features import nearest_by_cosine
from fewbits.hashers.base import Hasher
from fewbits.hashers.registry import make_hasher

# parameters that are told elsewhere in a result, or say nothing about what was learnt
HOW_NOT_WHAT = ("n_bits", "random_state", "callbacks", "checkpoint", "device", "verbose")
PACKAGES = ("fewbits", "numpy", "scipy", "scikit-learn", "faiss-cpu")
NEIGHBOURS = 10  # nearest by cosine that a code should find among its first DEPTH
DEPTH = 100
RADIUS = 2


def evaluate(
    method: str, dataset: Dataset, bits: int, seed: int, *, part: str = "test", parameters: dict[str, Any] | None = None
) -> Result:
    """Run a method on a data set: queries are one part of it, the database is the training part."""
    hasher = make_hasher(method, bits, seed, **(parameters or {}))
    seconds: dict[str, float] = {}
    forget_peak()
    with _timed(seconds, "fit"):
        hasher.fit(dataset.train.features, dataset.train.labels)
    with _timed(seconds, "encode"):
        queries = hasher.transform(dataset.part(part).features)
        database = hasher.transform(dataset.train.features)
    peak = peak_memory_mb()  # of learning and encoding; measuring has its own
    with _timed(seconds, "evaluate"):
        metrics = measure(dataset, part, queries, database)
    history = getattr(hasher, "history_", [])
    if history:
        seconds["epoch"] = statistics.median(record["seconds"] for record in history)
    return Result(
        method=method,
        dataset=dataset.name,
        bits=bits,
        seed=seed,
        part=part,
        parameters=_used(hasher),
        metrics={name: round(value, 6) for name, value in metrics.items()},
        seconds={name: round(value, 3) for name, value in seconds.items()},
        peak_memory_mb=peak,
        versions={"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        data_fingerprint=dataset.fingerprint,
    )


def planned_file_name(
    method: str, dataset: Dataset, bits: int, seed: int, *, part: str = "test", parameters: dict[str, Any] | None = None
) -> str:
    """The name that the result of :func:`evaluate` with these arguments will have."""
    used = _used(make_hasher(method, bits, seed, **(parameters or {})))
    return file_name(method, dataset.name, bits, seed, part, used, dataset.fingerprint)


def _used(hasher: Hasher) -> dict[str, Any]:
    return {name: value for name, value in hasher.get_params().items() if name not in HOW_NOT_WHAT}


def measure(dataset: Dataset, part: str, queries: Bits, database: Bits) -> dict[str, float]:
    """Every metric of the codes of one part against those of the training part."""
    labels = dataset.part(part).labels
    counted = shells(queries, labels, database, dataset.train.labels)
    return {
        f"precision_at_{DEPTH}": shell_precision(counted, DEPTH),
        "mean_average_precision": shell_average_precision(counted),
        f"recall_within_radius_{RADIUS}": shell_recall(counted, min(RADIUS, queries.shape[1])),
        "neighbour_recall": neighbour_recall(queries, database, _true_neighbours(dataset, part), DEPTH),
        "bit_entropy": float(bit_entropy(database).mean()),
        "least_bit_entropy": float(bit_entropy(database).min()),
        "distinct_share": distinct_share(database),
        "random_floor": random_floor(labels, dataset.train.labels),
    }


@lru_cache(maxsize=1)  # the same for every method and length, and slower to find than any code
def _true_neighbours(dataset: Dataset, part: str) -> NDArray[np.int64]:
    return nearest_by_cosine(dataset.part(part).features, dataset.train.features, NEIGHBOURS)


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - start

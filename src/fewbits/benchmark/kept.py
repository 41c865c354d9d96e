"""Codes of finished runs, kept beside the results, so that a metric can be computed again without learning."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from fewbits.benchmark.results import Result, load_results
from fewbits.benchmark.run import Codes, measure
from fewbits.codes import pack, unpack
from fewbits.datasets import SOURCES, load_dataset
from fewbits.files import read_arrays, replacing

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
    with replacing(path) as stream:
        stream.write(save(arrays))
    return path


def measure_again(results: Path, sources: Sequence[str] = (), *, progress: bool = False) -> Iterator[Measured]:
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

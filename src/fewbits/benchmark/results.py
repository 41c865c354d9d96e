"""The store of results: one JSON file for each method, data set, length and seed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewbits.errors import BrokenFolderError, MissingFileError
from fewbits.storage import read_json, write_json

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Result:
    """What was run, what came out, and what it took; or, of a run that failed, why."""

    method: str
    dataset: str
    bits: int
    seed: int
    part: str  # which part the queries were: figures are of "test"
    parameters: dict[str, Any]
    metrics: dict[str, float]
    seconds: dict[str, float]
    peak_memory_mb: float
    versions: dict[str, str]
    data_fingerprint: str
    error: str | None = None  # then there are no metrics, and no table has the run

    @property
    def file_name(self) -> str:
        """Readable, and different for whatever was run differently."""
        return file_name(
            self.method, self.dataset, self.bits, self.seed, self.part, self.parameters, self.data_fingerprint
        )

    @property
    def key(self) -> str:
        """What was run, whatever the documents were."""
        return run_key(self.method, self.dataset, self.bits, self.seed, self.part, self.parameters)

    @property
    def cell(self) -> str:
        """What the runs of one cell of a table have in common: all but the seed."""
        return run_key(self.method, self.dataset, self.bits, None, self.part, self.parameters)

    def save(self, folder: Path) -> Path:
        """Write into the store, in the place of the same run's last result."""
        path = Path(folder) / self.file_name
        content = dataclasses.asdict(self)
        if self.error is None:
            del content["error"]
        write_json(path, {"format_version": FORMAT_VERSION, **content})
        return path

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read one result."""
        content = read_json(path)
        names = {field.name for field in dataclasses.fields(cls)}
        if (
            not isinstance(content, dict)
            or content.pop("format_version", None) != FORMAT_VERSION
            or set(content) | {"error"} != names
            or not (content.get("error") or "precision_at_100" in content["metrics"])
        ):
            raise BrokenFolderError(f"{path} is no result of this version", allowed=f"format {FORMAT_VERSION}")
        return cls(**content)


def run_key(method: str, dataset: str, bits: int, seed: int | None, part: str, parameters: dict[str, Any]) -> str:
    """What was run in one line: equal for equal runs; without a seed, for runs that differ by it alone."""
    return json.dumps([method, dataset, bits, seed, part, parameters], sort_keys=True)


def file_name(
    method: str, dataset: str, bits: int, seed: int, part: str, parameters: dict[str, Any], data_fingerprint: str
) -> str:
    """Where the result of a run is kept; known before it is run."""
    spec = [method, dataset, bits, seed, part, parameters, data_fingerprint]
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:8]
    return f"{method}-{dataset}-{bits}bits-seed{seed}-{digest}.json"


def load_results(folder: Path) -> Iterator[Result]:
    """Read the results of all runs of a store that ended well, in order of their file names."""
    return (result for result in _load_all(folder) if result.error is None)


def load_failures(folder: Path) -> Iterator[Result]:
    """Read the results of all runs of a store that failed."""
    return (result for result in _load_all(folder) if result.error is not None)


def _load_all(folder: Path) -> Iterator[Result]:
    if not Path(folder).is_dir():
        raise MissingFileError(f"{folder} is not there", hint="Make results with: fewbits bench run quick")
    return (Result.load(path) for path in sorted(Path(folder).glob("*.json")))

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
from fewbits.files import read_json, write_json

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Result:
    """What was run, what came out, and what it took."""

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

    @property
    def file_name(self) -> str:
        """Readable, and different for whatever was run differently."""
        return file_name(
            self.method, self.dataset, self.bits, self.seed, self.part, self.parameters, self.data_fingerprint
        )

    def save(self, folder: Path) -> Path:
        """Write into the store, in the place of the same run's last result."""
        path = Path(folder) / self.file_name
        write_json(path, {"format_version": FORMAT_VERSION, **dataclasses.asdict(self)})
        return path

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read one result."""
        content = read_json(path)
        names = {field.name for field in dataclasses.fields(cls)}
        if (
            not isinstance(content, dict)
            or content.pop("format_version", None) != FORMAT_VERSION
            or set(content) != names
        ):
            raise BrokenFolderError(f"{path} is no result of this version", allowed=f"format {FORMAT_VERSION}")
        return cls(**content)


def file_name(
    method: str, dataset: str, bits: int, seed: int, part: str, parameters: dict[str, Any], data_fingerprint: str
) -> str:
    """Where the result of a run is kept; known before it is run."""
    spec = [method, dataset, bits, seed, part, parameters, data_fingerprint]
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:8]
    return f"{method}-{dataset}-{bits}bits-seed{seed}-{digest}.json"


def load_results(folder: Path) -> Iterator[Result]:
    """Read all results of a store, in order of their file names."""
    if not Path(folder).is_dir():
        raise MissingFileError(f"{folder} is not there", hint="Make results with: fewbits evaluate --save")
    return (Result.load(path) for path in sorted(Path(folder).glob("*.json")))

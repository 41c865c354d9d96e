"""Specifications of benchmark runs, and suites of them in TOML: methods x data sets x lengths x seeds x parameters."""

from __future__ import annotations

import hashlib
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from fewbits.codes import check_n_bits
from fewbits.data.datasets import PARTS, find_source
from fewbits.errors import DataError, MissingFileError, ParameterError
from fewbits.hashers.base import EXECUTION_PARAMETERS, Hasher
from fewbits.hashers.registry import make_hasher
from fewbits.validation import check_whole_number

if sys.version_info >= (3, 11):
    import tomllib
else:  # the same library, before it was part of Python
    import tomli as tomllib

SUITES = ("quick", "paper", "scale", "ablation", "estimators", "generalisation", "asymmetric")
REQUIRED_KEYS = {"methods", "datasets", "bits", "seeds"}
ALLOWED_KEYS = REQUIRED_KEYS | {"parameters", "grid"}
MAX_SEED = 2**32 - 1  # of NumPy's generators
# Left out of a result's parameters: stored elsewhere in it, or without effect on the fitted hasher.
UNRECORDED_PARAMETERS = ("n_bits", "random_state", *EXECUTION_PARAMETERS)


Identity = tuple[str, str, int, int, str, dict[str, Any]]  # method, data set, bits, seed, part, parameters


class IdentifiedRun(ABC):
    """Anything that belongs to one run, and the keys and file names that follow from the run's identity."""

    @property
    @abstractmethod
    def identity(self) -> Identity:
        """Return what distinguishes the run from others on the same data."""

    @property
    def key(self) -> str:
        """Return the key of the run; a specification and its result have the same."""
        return run_key(*self.identity)

    @property
    def cell(self) -> str:
        """Return the key of the table cell: shared by all runs that differ only in the seed."""
        method, dataset, bits, _, part, parameters = self.identity
        return run_key(method, dataset, bits, None, part, parameters)


@dataclass(frozen=True)
class Spec(IdentifiedRun):
    """One run: the method with its parameters, the data set, and the part that provides the queries."""

    method: str
    dataset: str
    bits: int
    seed: int
    part: str = "test"
    parameters: dict[str, Any] = field(default_factory=dict)  # those that differ from the method's preset

    def check(self) -> None:
        """Raise an error if the run cannot be started."""
        self.hasher()
        check_n_bits(self.bits)
        find_source(self.dataset)
        if self.part not in PARTS:
            raise ParameterError("unknown part", allowed=", ".join(PARTS), got=repr(self.part))

    def hasher(self) -> Hasher:
        """Return the unfitted hasher."""
        return make_hasher(self.method, self.bits, self.seed, **self.parameters)

    @cached_property
    def all_parameters(self) -> dict[str, Any]:
        """Return the parameters that a result stores: the preset's and the changed ones, except legacy values."""
        recorded = self.hasher().recorded_parameters()
        return {name: value for name, value in recorded.items() if name not in UNRECORDED_PARAMETERS}

    def preset_value(self, parameter: str) -> Any:
        """Return the value that the method's preset gives a parameter."""
        return make_hasher(self.method, self.bits).get_params()[parameter]

    @property
    def identity(self) -> Identity:
        """Return the identity that the result of this run will have."""
        return self.method, self.dataset_name, self.bits, self.seed, self.part, self.all_parameters

    @property
    def dataset_name(self) -> str:
        """Return the name of the data set in results: for a .mat file, its name without the folder."""
        return Path(self.dataset).name

    def file_name(self, data_fingerprint: str) -> str:
        """Return the name of the result file."""
        return file_name(*self.identity, data_fingerprint)


def run_key(method: str, dataset: str, bits: int, seed: int | None, part: str, parameters: dict[str, Any]) -> str:
    """Return a key that is equal for equal runs; with ``seed=None``, for runs that differ only in the seed."""
    return json.dumps([method, dataset, bits, seed, part, parameters], sort_keys=True)


def file_name(
    method: str, dataset: str, bits: int, seed: int, part: str, parameters: dict[str, Any], data_fingerprint: str
) -> str:
    """Return the name of a run's result file, which depends only on the run and the data."""
    run = [method, dataset, bits, seed, part, parameters, data_fingerprint]
    digest = hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()[:8]
    return f"{method}-{dataset}-{bits}bits-seed{seed}-{digest}.json"


@dataclass(frozen=True)
class Suite:
    """A named list of runs."""

    name: str
    title: str
    specs: list[Spec]


def load_suite(name: str | Path) -> Suite:
    """Load a built-in suite by name, or a suite from a TOML file by path."""
    is_file = str(name).endswith(".toml")
    if not is_file and name not in SUITES:
        raise ParameterError("unknown suite", allowed=", ".join(SUITES) + " or a .toml file", got=repr(str(name)))
    if is_file and not Path(name).is_file():
        raise MissingFileError(f"{name} does not exist")
    source = Path(name) if is_file else files("fewbits.benchmark").joinpath("suites", f"{name}.toml")
    try:
        content = tomllib.loads(source.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{name} is not valid TOML", got=error) from error
    blocks = content.get("runs", [])
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise DataError(f"{name}: runs is not a list of blocks", allowed="one [[runs]] or more", got=repr(blocks))
    specs = [spec for block in blocks for spec in _expand(block, str(name))]
    if not specs:
        raise DataError(f"{name} contains no runs", allowed="one [[runs]] or more", hint="See docs/benchmark.md.")
    return Suite(Path(name).stem, str(content.get("title", "")), specs)


def _expand(block: dict[str, Any], suite: str) -> Iterator[Spec]:
    """Yield all runs of a block, each checked."""
    if not _is_valid(block):
        raise DataError(
            f"{suite}: a [[runs]] block is not valid",
            allowed=f"lists {', '.join(sorted(REQUIRED_KEYS))}; tables parameters, grid (of lists)",
            got=", ".join(f"{name} = {value!r}" for name, value in sorted(block.items())),
        )
    grid = block.get("grid", {})
    for seed in block["seeds"]:
        check_whole_number(f"{suite}: a seed", seed, 0, MAX_SEED)
    for dataset, method, bits, seed in product(block["datasets"], block["methods"], block["bits"], block["seeds"]):
        for values in product(*grid.values()):
            parameters = {**block.get("parameters", {}), **dict(zip(grid, values, strict=True))}
            spec = Spec(method, dataset, bits, seed, parameters=parameters)
            spec.check()
            yield spec


def _is_valid(block: dict[str, Any]) -> bool:
    tables = [block.get(name, {}) for name in ("parameters", "grid")]
    return (
        set(block) >= REQUIRED_KEYS
        and set(block) <= ALLOWED_KEYS
        and all(isinstance(block[name], list) for name in REQUIRED_KEYS)
        and all(isinstance(table, dict) for table in tables)
        and all(isinstance(values, list) for values in tables[1].values())
    )

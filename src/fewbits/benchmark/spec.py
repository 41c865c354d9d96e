"""Suites of runs, each a readable file: methods x data sets x lengths x seeds, and parameters."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from fewbits.benchmark.results import file_name, run_key
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

SUITES = ("quick", "paper", "scale", "ablation", "estimators")
NEEDED = {"methods", "datasets", "bits", "seeds"}
ALLOWED = NEEDED | {"parameters", "grid"}
LARGEST_SEED = 2**32 - 1  # of NumPy's generators
# Not among a result's parameters: recorded elsewhere in it, or without effect on what is learned.
UNRECORDED_PARAMETERS = ("n_bits", "random_state", *EXECUTION_PARAMETERS)


@dataclass(frozen=True)
class Spec:
    """One run: what is learnt, from what, and which part the queries are."""

    method: str
    dataset: str
    bits: int
    seed: int
    part: str = "test"
    parameters: dict[str, Any] = field(default_factory=dict)  # other than the method's own

    def check(self) -> None:
        """Refuse a run that cannot be started."""
        make_hasher(self.method, self.bits, self.seed, **self.parameters)
        check_n_bits(self.bits)
        find_source(self.dataset)
        if self.part not in PARTS:
            raise ParameterError("there is no such part", allowed=", ".join(PARTS), got=repr(self.part))

    def hasher(self) -> Hasher:
        """The method, ready to learn."""
        return make_hasher(self.method, self.bits, self.seed, **self.parameters)

    @cached_property
    def all_parameters(self) -> dict[str, Any]:
        """Parameters as a result has them: the method's own and the changed ones."""
        return {name: value for name, value in self.hasher().get_params().items() if name not in UNRECORDED_PARAMETERS}

    def own(self, parameter: str) -> Any:
        """What the method itself has for a parameter."""
        return make_hasher(self.method, self.bits).get_params()[parameter]

    @property
    def key(self) -> str:
        """The same as that of this run's result, whatever the documents were."""
        return run_key(self.method, self.dataset_name, self.bits, self.seed, self.part, self.all_parameters)

    @property
    def cell(self) -> str:
        """What the runs of one cell of a table have in common: all but the seed."""
        return run_key(self.method, self.dataset_name, self.bits, None, self.part, self.all_parameters)

    @property
    def dataset_name(self) -> str:
        """As results have it: a .mat file has its own name, wherever it lies."""
        return Path(self.dataset).name

    def file_name(self, data_fingerprint: str) -> str:
        """The name that this run's result will have."""
        where = (self.method, self.dataset_name, self.bits, self.seed, self.part)
        return file_name(*where, self.all_parameters, data_fingerprint)


@dataclass(frozen=True)
class Suite:
    """Runs that belong together."""

    name: str
    title: str
    specs: list[Spec]


def load_suite(name: str | Path) -> Suite:
    """Load a suite of the package by its name, or one of the user's own by the path of its TOML file."""
    own = str(name).endswith(".toml")
    if not own and name not in SUITES:
        raise ParameterError(
            "there is no such suite", allowed=", ".join(SUITES) + " or a .toml file", got=repr(str(name))
        )
    if own and not Path(name).is_file():
        raise MissingFileError(f"{name} is not there")
    source = Path(name) if own else files("fewbits.benchmark").joinpath("suites", f"{name}.toml")
    try:
        content = tomllib.loads(source.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{name} is not TOML", got=error) from error
    blocks = content.get("runs", [])
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise DataError(f"{name}: runs are not as they should be", allowed="one [[runs]] or more", got=repr(blocks))
    specs = [spec for block in blocks for spec in _specs(block, str(name))]
    if not specs:
        raise DataError(f"{name} names no run", allowed="one [[runs]] or more", hint="See docs/benchmark.md.")
    return Suite(Path(name).stem, str(content.get("title", "")), specs)


def _specs(block: dict[str, Any], suite: str) -> Iterator[Spec]:
    """All runs of one block, checked."""
    if not _is_block(block):
        raise DataError(
            f"{suite}: a block of runs is not as it should be",
            allowed=f"lists {', '.join(sorted(NEEDED))}; tables parameters, grid (of lists)",
            got=", ".join(f"{name} = {value!r}" for name, value in sorted(block.items())),
        )
    grid = block.get("grid", {})
    for seed in block["seeds"]:
        check_whole_number(f"{suite}: a seed", seed, 0, LARGEST_SEED)
    for dataset, method, bits, seed in product(block["datasets"], block["methods"], block["bits"], block["seeds"]):
        for values in product(*grid.values()):
            chosen = {**block.get("parameters", {}), **dict(zip(grid, values, strict=True))}
            spec = Spec(method, dataset, bits, seed, parameters=chosen)
            spec.check()
            yield spec


def _is_block(block: dict[str, Any]) -> bool:
    tables = [block.get(name, {}) for name in ("parameters", "grid")]
    return (
        set(block) >= NEEDED
        and set(block) <= ALLOWED
        and all(isinstance(block[name], list) for name in NEEDED)
        and all(isinstance(table, dict) for table in tables)
        and all(isinstance(values, list) for values in tables[1].values())
    )

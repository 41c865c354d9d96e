"""Every method by its name in the tables, in lower case; the names that result files and commands carry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fewbits.errors import ParameterError
from fewbits.files import read_json, write_json
from fewbits.hashers.base import Hasher
from fewbits.hashers.hyperplanes import RandomHyperplanes
from fewbits.hashers.itq import ITQ


@dataclass(frozen=True)
class Method:
    """A hasher with its name in the tables and whether it looks at labels."""

    name: str
    title: str
    hasher: type[Hasher]
    setting: Literal["unsupervised", "supervised"]


METHODS = {
    method.name: method
    for method in (
        Method("lsh", "LSH", RandomHyperplanes, "unsupervised"),
        Method("itq", "ITQ", ITQ, "unsupervised"),
    )
}
DEFAULT_METHOD = "itq"


def find_method(name: str) -> Method:
    """Look up a method by name."""
    if name not in METHODS:
        raise ParameterError("there is no such method", allowed=", ".join(METHODS), got=repr(name))
    return METHODS[name]


def make_hasher(name: str, n_bits: int, random_state: Any = None, **parameters: Any) -> Hasher:
    """Make a hasher by the name of its method.

    >>> make_hasher("itq", 16)
    ITQ(n_bits=16)
    """
    return find_method(name).hasher(n_bits=n_bits, random_state=random_state, **parameters)


def write_hasher(hasher: Hasher, folder: Path) -> None:
    """Write a hasher together with its method's name."""
    names = [method.name for method in METHODS.values() if type(hasher) is method.hasher]
    if not names:
        raise ParameterError(
            "only a method of the registry can be saved",
            allowed=", ".join(METHODS),
            got=type(hasher).__name__,
        )
    write_json(folder / "method.json", {"method": names[0]})
    hasher.write(folder)


def read_hasher(folder: Path) -> Hasher:
    """Read what :func:`write_hasher` wrote."""
    return find_method(read_json(folder / "method.json")["method"]).hasher.read(folder)

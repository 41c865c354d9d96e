"""Codes with ids of the user's choice, searched by Hamming distance.

To add a backend, subclass :class:`Index` in a new file and add it to the table below.
"""

from fewbits.errors import ParameterError
from fewbits.index.base import Index, Neighbours
from fewbits.index.flat import FlatIndex

__all__ = ["FlatIndex", "Index", "Neighbours", "make_index"]

INDEXES: dict[str, type[Index]] = {"flat": FlatIndex}
DEFAULT_INDEX = "flat"


def make_index(kind: str, n_bits: int) -> Index:
    """Create an empty index of a registered kind.

    >>> len(make_index("flat", n_bits=64))
    0
    """
    if kind not in INDEXES:
        raise ParameterError("the kind of index is unknown", allowed=", ".join(INDEXES), got=repr(kind))
    return INDEXES[kind](n_bits)

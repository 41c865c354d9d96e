"""Small functions that every stage uses: parameter validation, batches of a stream, evenly spaced samples."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fewbits.errors import EmptyDocumentsWarning, ParameterError

Item = TypeVar("Item")


def check_whole_number(
    name: str, value: Any, low: int, high: int | None = None, *, why: str = "", hint: str = ""
) -> int:
    """Return ``value`` as an int if it is a whole number (not a bool) in the allowed range, else raise an error.

    >>> check_whole_number("k", 3, 1, 5)
    3
    """
    allowed = f"{low} or more" if high is None else f"{low} to {high}{why}" if low <= high else "no value"
    try:
        number = operator.index(value)
    except TypeError:
        number = low - 1
    if isinstance(value, bool) or number < low or (high is not None and number > high):
        raise ParameterError(f"{name} is out of range", allowed=allowed, got=repr(value), hint=hint)
    return number


def warn_of_empty(rows: Any, consequence: str, stacklevel: int) -> Any:
    """Warn of rows without a nonzero value, and return all."""
    sizes = np.asarray(abs(rows).sum(axis=1)).ravel() if sparse.issparse(rows) else rows.any(axis=1)
    empty = np.flatnonzero(sizes == 0)
    if len(empty):
        shown = ", ".join(map(str, empty[:5])) + (", …" if len(empty) > 5 else "")
        message = f"{len(empty)} of {rows.shape[0]} documents are empty and {consequence} (rows {shown}): remove them."
        warnings.warn(message, EmptyDocumentsWarning, stacklevel=stacklevel + 1)
    return rows


def batched(items: Iterable[Item], size: int) -> Iterator[tuple[Item, ...]]:
    """Yield tuples of ``size`` items, the last one possibly shorter, as ``itertools.batched`` of Python 3.12 does.

    >>> list(batched("abcde", 2))
    [('a', 'b'), ('c', 'd'), ('e',)]
    """
    iterator = iter(items)
    while batch := tuple(islice(iterator, size)):
        yield batch


def evenly_spaced(count: int, size: int) -> NDArray[np.int64]:
    """Return at most ``size`` positions spread evenly over ``range(count)``, the first and last included.

    >>> evenly_spaced(10, 4).tolist(), evenly_spaced(2, 4).tolist()
    ([0, 3, 6, 9], [0, 1])
    """
    return np.linspace(0, count - 1, min(size, count)).astype(np.int64)


def smallest(values: NDArray[Any], k: int) -> NDArray[np.int64]:
    """Return the positions of the k smallest values, in ascending order; equal values in order of position.

    >>> smallest(np.array([3, 1, 2, 1]), 3).tolist()
    [1, 3, 2]
    """
    if k >= len(values):
        return np.argsort(values, kind="stable")
    threshold = np.partition(values, k - 1)[k - 1]
    below = np.flatnonzero(values < threshold)
    chosen = np.concatenate([below, np.flatnonzero(values == threshold)[: k - len(below)]])
    return chosen[np.lexsort((chosen, values[chosen]))]

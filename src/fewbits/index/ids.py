"""Tables of ids and their rows.

Integers are stored in arrays (12 bytes per document or less), because a dictionary of a million would take ten times
the memory of the codes; strings are stored in a dictionary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewbits.errors import DataError, UnknownIdError
from fewbits.storage import read_array, read_json, write_array, write_json

Ids = Sequence[int | str] | NDArray[Any]
Rows = NDArray[np.int64]

INTEGERS_FILE = "ids.npy"
STRINGS_FILE = "ids.json"
MAX_UNSORTED = 64  # one id in 64 may be unsorted


def check_ids(ids: Iterable[Any]) -> list[str] | NDArray[np.int64]:
    """Return ids as a list of strings or an array of integers; anything else, or a mixture, is an error."""
    if isinstance(ids, (str, bytes)):
        raise DataError("ids must be a list", got=repr(ids), hint="Pass [id].")
    if isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.kind == "i":
        return ids.astype(np.int64, copy=False)
    values = list(ids)
    if all(isinstance(value, str) for value in values):
        return [str(value) for value in values]
    if all(is_id(value) and not isinstance(value, str) for value in values):
        return np.array(values, dtype=np.int64)
    kinds = sorted({type(value).__name__ for value in values})
    raise DataError("ids must be all strings or all 64-bit integers", got=" and ".join(kinds))


def is_id(value: object) -> bool:
    """Return whether a value can be an id: a string or a 64-bit integer."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return -(2**63) <= int(value) < 2**63
    return isinstance(value, str)


def has_duplicates(ids: list[str] | NDArray[np.int64]) -> bool:
    """Return whether an id occurs twice."""
    if isinstance(ids, list):
        return len(set(ids)) != len(ids)
    return not _is_ascending(ids) and not _is_ascending(np.sort(ids))


class IdTable(ABC):
    """Rows by id and ids by row, in order of insertion; ``values`` are all ids."""

    values: list[str] | NDArray[np.int64]
    start: int | None = None  # the first id if ids are consecutive numbers, so that no search is needed

    def __len__(self) -> int:
        return len(self.values)

    @abstractmethod
    def find(self, ids: Any) -> Rows:
        """Return the rows of ids, -1 for unknown ids."""

    @abstractmethod
    def append(self, ids: Any) -> None:
        """Add distinct new ids."""

    @abstractmethod
    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop all rows but those marked."""

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Write all ids."""

    def rows(self, ids: Any) -> Rows:
        """Return the rows of ids; an unknown id is an error."""
        found = self.find(ids)
        if (found < 0).any():
            missing = [ids[position] for position in np.flatnonzero(found < 0)[:3]]
            raise UnknownIdError(
                f"no document has the id {', '.join(repr(_plain(id)) for id in missing)}",
                hint="An integer and a string are different ids: 7 is not '7'.",
            )
        return found


class StringIds(IdTable):
    """A table of strings."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._set(ids)

    def _set(self, ids: Iterable[str]) -> None:
        self.values: list[str] = list(ids)
        self._rows = {id: row for row, id in enumerate(self.values)}

    def find(self, ids: list[str]) -> Rows:
        """Return the rows of ids, -1 for unknown ids."""
        return np.fromiter((self._rows.get(id, -1) for id in ids), dtype=np.int64, count=len(ids))

    def append(self, ids: list[str]) -> None:
        """Add distinct new ids."""
        self._rows.update(zip(ids, range(len(self.values), len(self.values) + len(ids)), strict=True))
        self.values.extend(ids)

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop all rows but those marked."""
        self._set(id for id, keep in zip(self.values, kept, strict=True) if keep)

    def write(self, folder: Path) -> None:
        """Write all ids."""
        write_json(folder / STRINGS_FILE, self.values)


class IntegerIds(IdTable):
    """A table of integers.

    Ids in ascending order, such as those of a counter, are found by bisection. Otherwise the rows in ascending order of
    id are stored too; recent ids are in a dictionary, and all are sorted again once one id in 64 is recent.
    """

    def __init__(self, ids: NDArray[np.int64] | None = None) -> None:
        self._ids = GrowingArray(np.zeros(0, np.int64) if ids is None else ids)
        self.values: NDArray[np.int64] = self._ids.rows
        self._order: NDArray[np.uint32] | None = None  # rows in ascending order of id; None if ids are in that order
        self._recent: dict[int, int] = {}
        if not _is_ascending(self.values):
            self._sort()
        self._set_start()

    def find(self, ids: NDArray[np.int64]) -> Rows:
        """Return the rows of ids, -1 for unknown ids."""
        values = self.values
        if not len(values):
            return np.full(len(ids), -1, dtype=np.int64)
        if self._order is None:
            candidates = np.minimum(np.searchsorted(values, ids), len(values) - 1)
        else:
            places = np.searchsorted(values[: len(self._order)], ids, sorter=self._order)
            candidates = self._order[np.minimum(places, len(self._order) - 1)].astype(np.int64)
        found = np.where(values[candidates] == ids, candidates, -1)
        for position in np.flatnonzero(found < 0) if self._recent else ():
            found[position] = self._recent.get(int(ids[position]), -1)
        return found

    def append(self, ids: NDArray[np.int64]) -> None:
        """Add distinct new ids."""
        start = len(self.values)
        is_ascending = self._order is None and _is_ascending(np.concatenate([self.values[-1:], ids]))
        self._ids.append(ids)
        self.values = self._ids.rows
        if is_ascending:
            self._set_start()
            return
        self.start = None
        if self._order is None or len(self._recent) + len(ids) > len(self.values) // MAX_UNSORTED:
            self._sort()
        else:
            self._recent.update(zip(ids.tolist(), range(start, start + len(ids)), strict=True))

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop all rows but those marked."""
        if self._recent:
            self._sort()
        if self._order is not None:
            new_rows = np.cumsum(kept, dtype=np.uint32) - np.uint32(1)
            self._order = new_rows[self._order[kept[self._order]]]
        self._ids.keep(kept)
        self.values = self._ids.rows
        self._set_start()

    def write(self, folder: Path) -> None:
        """Write all ids."""
        write_array(folder / INTEGERS_FILE, self.values)

    def _set_start(self) -> None:
        ids, count = self.values, len(self.values)
        is_consecutive = self._order is None and count > 0 and int(ids[-1]) - int(ids[0]) == count - 1
        self.start = int(ids[0]) if is_consecutive else None

    def _sort(self) -> None:
        self._order = np.argsort(self.values, kind="stable").astype(np.uint32)
        self._recent = {}


def _is_ascending(ids: NDArray[np.int64]) -> bool:
    return bool((ids[1:] > ids[:-1]).all())  # a difference could overflow


def make_table(ids: Any) -> IdTable:
    """Create an empty table for ids of the same kind."""
    return IntegerIds() if isinstance(ids, np.ndarray) else StringIds()


def read_ids(folder: Path, *, memory_map: bool) -> IdTable:
    """Read the ids that a table wrote."""
    if (folder / STRINGS_FILE).exists():
        return StringIds(read_json(folder / STRINGS_FILE))
    return IntegerIds(read_array(folder / INTEGERS_FILE, memory_map=memory_map))


def _plain(id: Any) -> Any:
    return id.item() if isinstance(id, np.generic) else id


GROWTH = 1.125  # small, because an index is most of the memory of a process


class GrowingArray:
    """Rows in one contiguous block of memory; ``rows`` is a view of all of them, and may be written to."""

    def __init__(self, rows: NDArray[Any]) -> None:
        self._buffer = rows
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows at the end."""
        length = len(self.rows)
        end = length + len(rows)
        if end > len(self._buffer):
            capacity = end if not length else max(end, int(length * GROWTH) + 16)
            grown = np.empty((capacity, *self._buffer.shape[1:]), dtype=self._buffer.dtype)
            grown[:length] = self.rows
            self._buffer = grown
        self._buffer[length:end] = rows
        self.rows = self._buffer[:end]

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop all rows but those marked."""
        self._buffer = self.rows = self.rows[kept]

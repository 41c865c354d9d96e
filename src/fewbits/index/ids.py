"""Ids of the user's own and the rows they stand for.

Whole numbers are kept in arrays (12 bytes a document or less), since a dictionary of a million would weigh ten
times the codes; texts are kept in a dictionary.
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
TEXTS_FILE = "ids.json"
RECENT_SHARE = 64  # one id in so many may wait unsorted


def check_ids(ids: Iterable[Any]) -> list[str] | NDArray[np.int64]:
    """Return ids as a list of texts or an array of whole numbers; anything else, or both mixed, is an error."""
    if isinstance(ids, (str, bytes)):
        raise DataError("one id is no list of ids", got=repr(ids), hint="Put it into a list: [id]")
    if isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.kind == "i":
        return ids.astype(np.int64, copy=False)
    values = list(ids)
    if all(isinstance(value, str) for value in values):
        return [str(value) for value in values]
    if all(is_id(value) and not isinstance(value, str) for value in values):
        return np.array(values, dtype=np.int64)
    kinds = sorted({type(value).__name__ for value in values})
    raise DataError("ids are all texts or all whole numbers of 64 bits", got=" and ".join(kinds))


def is_id(value: object) -> bool:
    """Tell whether a value can be an id: a text or a whole number of 64 bits."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return -(2**63) <= int(value) < 2**63
    return isinstance(value, str)


def has_duplicates(ids: list[str] | NDArray[np.int64]) -> bool:
    """Tell whether an id occurs twice."""
    if isinstance(ids, list):
        return len(set(ids)) != len(ids)
    return not _is_ascending(ids) and not _is_ascending(np.sort(ids))


class IdTable(ABC):
    """Rows by id and ids by row, in order of insertion."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def all(self) -> Sequence[Any]:
        """All ids in order of their rows."""

    @abstractmethod
    def at(self, rows: Rows | slice) -> NDArray[Any]:
        """Ids of rows."""

    @abstractmethod
    def find(self, ids: Any) -> Rows:
        """Rows of ids, -1 where there is none."""

    @abstractmethod
    def append(self, ids: Any) -> None:
        """Add ids that are new, each once."""

    @abstractmethod
    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop all other rows."""

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Write all ids."""

    def rows(self, ids: Any) -> Rows:
        """Rows of ids; an unknown one is an error."""
        found = self.find(ids)
        if (found < 0).any():
            missing = [ids[position] for position in np.flatnonzero(found < 0)[:3]]
            raise UnknownIdError(
                f"no document has the id {', '.join(repr(_plain(id)) for id in missing)}",
                hint="Ids are as they were added: 7 and '7' are two.",
            )
        return found


class TextIds(IdTable):
    """Ids that are texts."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._set(ids)

    def _set(self, ids: Iterable[str]) -> None:
        self._ids = list(ids)
        self._rows = {id: row for row, id in enumerate(self._ids)}

    def __len__(self) -> int:
        return len(self._ids)

    def all(self) -> Sequence[str]:
        """All ids in order of their rows."""
        return self._ids

    def at(self, rows: Rows | slice) -> NDArray[Any]:
        """Ids of rows."""
        return np.array(self._ids[rows] if isinstance(rows, slice) else [self._ids[row] for row in rows], dtype=object)

    def find(self, ids: list[str]) -> Rows:
        """Rows of ids, -1 where there is none."""
        return np.fromiter((self._rows.get(id, -1) for id in ids), dtype=np.int64, count=len(ids))

    def append(self, ids: list[str]) -> None:
        """Add ids that are new, each once."""
        self._rows.update(zip(ids, range(len(self._ids), len(self._ids) + len(ids)), strict=True))
        self._ids.extend(ids)

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop all other rows."""
        self._set(id for id, keep in zip(self._ids, kept, strict=True) if keep)

    def write(self, folder: Path) -> None:
        """Write all ids."""
        write_json(folder / TEXTS_FILE, self._ids)


class IntegerIds(IdTable):
    """Ids that are whole numbers.

    Ids in ascending order, as a counter gives them, need nothing beside themselves to be found by bisection.
    Others need their rows in ascending order of id; ids that came since the last sorting wait in a dictionary,
    and all are sorted again once one in 64 waits.
    """

    def __init__(self, ids: NDArray[np.int64] | None = None) -> None:
        self._ids = GrowingArray(np.zeros(0, np.int64) if ids is None else ids)
        self._order: NDArray[np.uint32] | None = None  # rows in ascending order of id; None: they are anyway
        self._recent: dict[int, int] = {}
        if not _is_ascending(self._ids.rows):
            self._sort()

    def __len__(self) -> int:
        return len(self._ids)

    def all(self) -> Sequence[Any]:
        """All ids in order of their rows."""
        return self._ids.rows.tolist()

    def at(self, rows: Rows | slice) -> NDArray[Any]:
        """Ids of rows."""
        return self._ids.rows[rows]

    def find(self, ids: NDArray[np.int64]) -> Rows:
        """Rows of ids, -1 where there is none."""
        rows = self._ids.rows
        if not len(rows):
            return np.full(len(ids), -1, dtype=np.int64)
        if self._order is None:
            candidates = np.minimum(np.searchsorted(rows, ids), len(rows) - 1)
        else:
            places = np.searchsorted(rows[: len(self._order)], ids, sorter=self._order)
            candidates = self._order[np.minimum(places, len(self._order) - 1)].astype(np.int64)
        found = np.where(rows[candidates] == ids, candidates, -1)
        for position in np.flatnonzero(found < 0) if self._recent else ():
            found[position] = self._recent.get(int(ids[position]), -1)
        return found

    def append(self, ids: NDArray[np.int64]) -> None:
        """Add ids that are new, each once."""
        start = len(self._ids)
        is_ascending = self._order is None and _is_ascending(np.concatenate([self._ids.rows[-1:], ids]))
        self._ids.append(ids)
        if is_ascending:
            return
        if self._order is None or len(self._recent) + len(ids) > len(self._ids) // RECENT_SHARE:
            self._sort()
        else:
            self._recent.update(zip(ids.tolist(), range(start, start + len(ids)), strict=True))

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop all other rows."""
        if self._recent:
            self._sort()
        if self._order is not None:
            new_rows = np.cumsum(kept, dtype=np.uint32) - np.uint32(1)
            self._order = new_rows[self._order[kept[self._order]]]
        self._ids.keep(kept)

    def write(self, folder: Path) -> None:
        """Write all ids."""
        write_array(folder / INTEGERS_FILE, self._ids.rows)

    def _sort(self) -> None:
        self._order = np.argsort(self._ids.rows, kind="stable").astype(np.uint32)
        self._recent = {}


def _is_ascending(ids: NDArray[np.int64]) -> bool:
    return bool((ids[1:] > ids[:-1]).all())  # a difference could overflow


def make_table(ids: Any) -> IdTable:
    """Make an empty table for ids of the same kind."""
    return IntegerIds() if isinstance(ids, np.ndarray) else TextIds()


def read_ids(folder: Path, *, memory_map: bool) -> IdTable:
    """Read what a table wrote."""
    if (folder / TEXTS_FILE).exists():
        return TextIds(read_json(folder / TEXTS_FILE))
    return IntegerIds(read_array(folder / INTEGERS_FILE, memory_map=memory_map))


def _plain(id: Any) -> Any:
    return id.item() if isinstance(id, np.generic) else id


GROWTH = 1.125  # spare room after growing; little, because an index is most of a process's memory


class GrowingArray:
    """Rows in one contiguous block of memory."""

    def __init__(self, rows: NDArray[Any]) -> None:
        self._buffer = rows
        self._length = len(rows)

    def __len__(self) -> int:
        return self._length

    @property
    def rows(self) -> NDArray[Any]:
        """A view of all rows; it may be written to."""
        return self._buffer[: self._length]

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows at the end."""
        end = self._length + len(rows)
        if end > len(self._buffer):
            room = end if not self._length else max(end, int(self._length * GROWTH) + 16)
            grown = np.empty((room, *self._buffer.shape[1:]), dtype=self._buffer.dtype)
            grown[: self._length] = self.rows
            self._buffer = grown
        self._buffer[self._length : end] = rows
        self._length = end

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop all other rows; the order stays."""
        self._buffer = self.rows[kept]
        self._length = len(self._buffer)

"""An array that grows at its end without being copied each time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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

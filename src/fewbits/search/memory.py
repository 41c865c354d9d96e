"""The codes of an engine in memory, kept up with what is on the disk."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

from fewbits.index import FlatIndex
from fewbits.search.documents import Positions, Reader


@dataclass(frozen=True)
class Held:
    """What is in memory of one state."""

    version: int
    index: FlatIndex
    new: Positions  # documents that were added or updated since the codes were learnt


class CodesInMemory:
    """An index of the codes of the state that was read last.

    An index is never changed once it is here: threads that search it see one state to the end.
    """

    def __init__(self, n_bits: int) -> None:
        self._n_bits = n_bits
        self._lock = threading.Lock()
        self._held: Held | None = None

    def at(self, reader: Reader) -> Held | None:
        """The state that a reader sees; None where memory is ahead of it, and it must look again."""
        version = reader.version()
        held = self._held
        if held is None or held.version < version:
            with self._lock:
                held = self._held
                if held is None or held.version < version:
                    held = self._held = Held(version, self._read(reader, held), reader.new_positions())
        return held if held.version == version else None

    def _read(self, reader: Reader, held: Held | None) -> FlatIndex:
        changes = None if held is None else reader.changes_since(held.version, self._n_bits)
        if held is None or changes is None:
            positions, codes = reader.codes(self._n_bits)
        else:
            positions, codes = held.index.arrays()
            kept = ~np.isin(positions, changes.gone)
            codes = np.concatenate([codes[kept], changes.codes])
            positions = np.concatenate([positions[kept], changes.fresh])
            order = np.argsort(positions, kind="stable")  # as if all had been read again
            positions, codes = positions[order], codes[order]
        index = FlatIndex(self._n_bits)
        index.add(positions, codes)
        return index

"""The words of many documents at once: most lie in a mapped file, the others are asked from the database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from fewbits.files import read_array, write_array
from fewbits.search.documents import WORD, Positions, Reader

WORDS, STARTS = "words.npy", "word_starts.npy"


class LearntWords:
    """Words of the documents that were learnt from, one after the other in a file that never changes.

    Three thousand documents are read from here in the time that a database takes for a few hundred. It says nothing
    that the database does not: a folder without it is slower, not poorer.
    """

    def __init__(self, starts: NDArray[np.int64], words: NDArray[Any]) -> None:
        self._starts = starts  # by position, and one more; a document that is not here has none
        self._words = words  # as WORD

    @classmethod
    def write(cls, folder: Path, reader: Reader) -> None:
        """Write two files into a folder."""
        last, total = reader.extent_of_learnt_words()
        counts = np.zeros(last + 2, dtype=np.int64)
        words = open_memmap(folder / WORDS, mode="w+", dtype=WORD, shape=(total,))
        end = 0
        for position, content in reader.learnt_words():
            found = np.frombuffer(content, dtype=WORD)
            words[end : end + len(found)] = found
            counts[position + 1] = len(found)
            end += len(found)
        words.flush()
        write_array(folder / STARTS, counts.cumsum())

    @classmethod
    def read(cls, folder: Path) -> LearntWords | None:
        """Map what :meth:`write` wrote; None where it is not there."""
        if not (folder / WORDS).exists():
            return None
        return cls(read_array(folder / STARTS), read_array(folder / WORDS, memory_map=True))

    def holds(self, positions: Positions) -> NDArray[np.bool_]:
        """Which documents may be here; those that were changed since may be too."""
        return positions < len(self._starts) - 1

    def of(self, positions: Positions) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Words of documents one after the other, and how many each has."""
        first = self._starts[positions]
        counts = self._starts[positions + 1] - first
        ends = counts.cumsum()
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - ends + counts, counts)
        return self._words[places], counts


@dataclass(frozen=True)
class StoredWords:
    """The words of all documents of one state."""

    reader: Reader
    learnt: LearntWords | None
    new: Positions  # documents that were added or updated since: what is learnt of them is out of date

    def parts(self, positions: Positions) -> Iterator[tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64]]]:
        """Words of documents in one or two parts: places in the list, their words in a row, and how many each has."""
        is_learnt = np.zeros(len(positions), dtype=bool)
        if self.learnt is not None:
            is_learnt = self.learnt.holds(positions) & ~np.isin(positions, self.new)
            if is_learnt.any():
                yield np.flatnonzero(is_learnt), *self.learnt.of(positions[is_learnt])
        if not is_learnt.all():
            yield np.flatnonzero(~is_learnt), *self.reader.words(positions[~is_learnt])

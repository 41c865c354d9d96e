"""What every index can do, whatever engine is under it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fewbits.codes import Packed, check_n_bits, check_packed
from fewbits.index.ids import Ids
from fewbits.storage import save_folder
from fewbits.validation import check_whole_number

FORMAT = "fewbits index"
FORMAT_VERSION = 1


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The answer to one query: ids and distances, by distance (by cost, where bits have weights), then by insertion."""

    ids: NDArray[Any]
    distances: NDArray[np.int32]
    costs: NDArray[np.float32] | None = None  # the weights of the bits that differ, summed

    def __len__(self) -> int:
        return len(self.ids)


class Index(ABC):
    """Packed codes under ids of the user's own, searched by Hamming distance.

    Answers are exact. Documents at the same distance come in the order in which they were added; ``upsert``
    of a known id replaces its code and keeps its place in that order.
    """

    def __init__(self, n_bits: int) -> None:
        self.n_bits = check_n_bits(n_bits)

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __contains__(self, id: object) -> bool: ...

    @abstractmethod
    def add(self, ids: Ids, codes: ArrayLike) -> None:
        """Add documents; an id that is there already is an error, and nothing is added."""

    @abstractmethod
    def upsert(self, ids: Ids, codes: ArrayLike) -> None:
        """Add documents, or replace the codes of those whose id is there already."""

    @abstractmethod
    def remove(self, ids: Ids) -> None:
        """Remove documents; an unknown id is an error, and nothing is removed."""

    @abstractmethod
    def codes(self, ids: Ids) -> Packed:
        """Packed codes of documents."""

    @abstractmethod
    def ids(self) -> Sequence[Any]:
        """All ids in order of insertion."""

    @abstractmethod
    def search(self, codes: ArrayLike, k: int, *, among: Ids | None = None) -> list[Neighbours]:
        """The k nearest documents of each query, or of those ``among`` a list of ids (fewer if that is shorter)."""

    @abstractmethod
    def within(self, codes: ArrayLike, radius: int, *, among: Ids | None = None) -> list[Neighbours]:
        """All documents that differ from each query in at most ``radius`` bits."""

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Write the index's files into an empty folder."""

    def save(self, folder: str | Path) -> None:
        """Save as a folder that is replaced as a whole."""
        save_folder(Path(folder), FORMAT, FORMAT_VERSION, self.write)

    def _check_search(self, codes: ArrayLike, k: int) -> Packed:
        hint = "Ask for fewer hits, or add documents first."
        check_whole_number("k, the number of hits,", k, 1, len(self), why=", the documents in the index", hint=hint)
        return check_packed(codes, self.n_bits)

    def _check_radius(self, codes: ArrayLike, radius: int) -> Packed:
        check_whole_number("radius, the bits that may differ,", radius, 0, self.n_bits)
        return check_packed(codes, self.n_bits)

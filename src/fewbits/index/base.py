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
from fewbits.errors import ParameterError
from fewbits.files import open_folder, save_folder
from fewbits.index.ids import Ids

FORMAT = "fewbits index"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class Neighbours:
    """The answer to one query: ids and distances, by distance and then by insertion."""

    ids: NDArray[Any]
    distances: NDArray[np.int32]

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

    @classmethod
    @abstractmethod
    def read(cls, folder: Path, *, memory_map: bool = False) -> Index:
        """Read what :meth:`write` wrote; memory-mapped, codes stay on disk until they are needed."""

    def save(self, folder: str | Path) -> None:
        """Save as a folder that is replaced as a whole."""
        save_folder(Path(folder), FORMAT, FORMAT_VERSION, self.write)

    @classmethod
    def load(cls, folder: str | Path, *, memory_map: bool = False) -> Index:
        """Load a saved folder after checking it."""
        return cls.read(open_folder(Path(folder), FORMAT, FORMAT_VERSION), memory_map=memory_map)

    def _check_search(self, codes: ArrayLike, k: int) -> Packed:
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= len(self):
            raise ParameterError(
                "k, the number of hits, is out of range",
                allowed=f"1 to {len(self)}, the documents in the index" if len(self) else "nothing: the index is empty",
                got=k,
                hint="Ask for fewer hits, or add documents first.",
            )
        return check_packed(codes, self.n_bits)

    def _check_radius(self, codes: ArrayLike, radius: int) -> Packed:
        if isinstance(radius, bool) or not isinstance(radius, (int, np.integer)) or not 0 <= radius <= self.n_bits:
            raise ParameterError(
                "radius, the bits that may differ, is out of range", allowed=f"0 to {self.n_bits}", got=radius
            )
        return check_packed(codes, self.n_bits)

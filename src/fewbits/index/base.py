"""The interface of an index backend: everything that the search engine calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fewbits.codes import Packed, check_n_bits
from fewbits.index.ids import Ids
from fewbits.index.multi_index import Groups, near_groups
from fewbits.storage import save_folder

FORMAT = "fewbits index"
FORMAT_VERSION = 1


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The answer to one query: ids in order of distance (of cost, for weighted bits), then of insertion."""

    ids: NDArray[Any]
    distances: NDArray[np.int32]
    costs: NDArray[np.float32] | None = None  # sums of the weights of differing bits

    def __len__(self) -> int:
        return len(self.ids)


class Index(ABC):
    """Packed codes with ids of the user's choice, searched by Hamming distance.

    Answers are exact. Documents at the same distance are in order of insertion; ``upsert`` of an existing id replaces
    its code and keeps its place in that order. Any number of threads may search while no method changes the codes.
    """

    def __init__(self, n_bits: int) -> None:
        self.n_bits = check_n_bits(n_bits)

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __contains__(self, id: object) -> bool: ...

    @abstractmethod
    def add(self, ids: Ids, codes: ArrayLike) -> None:
        """Add documents; an existing id is an error, and nothing is added."""

    @abstractmethod
    def upsert(self, ids: Ids, codes: ArrayLike) -> None:
        """Add documents, or replace the codes of existing ids."""

    @abstractmethod
    def remove(self, ids: Ids) -> None:
        """Remove documents; an unknown id is an error, and nothing is removed."""

    @abstractmethod
    def codes(self, ids: Ids) -> Packed:
        """Return the packed codes of documents."""

    @abstractmethod
    def existing_codes(self, ids: NDArray[Any]) -> tuple[NDArray[np.bool_], Packed]:
        """Return which of some ids are in the index, and a packed code for each: any code for those that are not."""

    @abstractmethod
    def arrays(self) -> tuple[NDArray[Any], Packed]:
        """Return all ids and codes in order of insertion; they may be views and must not be changed."""

    def ids(self) -> Sequence[Any]:
        """Return all ids in order of insertion."""
        return list(self.arrays()[0].tolist())

    def with_changes(self, removed: NDArray[np.int64], added: NDArray[np.int64], codes: Packed) -> Index:
        """Return a copy of an index with ascending integer ids, without some and with others, in ascending order."""
        ids, present = self.arrays()
        kept = ~np.isin(ids, removed)
        all_ids = np.concatenate([ids[kept], added])
        order = np.argsort(all_ids, kind="stable")
        changed = type(self)(self.n_bits)
        changed.add(all_ids[order], np.concatenate([present[kept], codes])[order])
        return changed

    @abstractmethod
    def search(self, codes: ArrayLike, k: int, *, among: Ids | None = None) -> list[Neighbours]:
        """Find the k nearest documents of each query, all or ``among`` given ids (fewer if there are fewer)."""

    @abstractmethod
    def within(self, codes: ArrayLike, radius: int, *, among: Ids | None = None) -> list[Neighbours]:
        """Find all documents that differ from each query in at most ``radius`` bits."""

    @abstractmethod
    def search_weighted(self, code: ArrayLike, weights: ArrayLike, k: int, *, among: Ids | None = None) -> Neighbours:
        """Find the k nearest documents of one query, if a differing bit costs its weight."""

    def prepare_weighted_search(self) -> None:
        """Build what makes many weighted searches faster; nothing by default."""
        return

    def near_groups(self, radius: int) -> Groups:
        """Number the groups of codes that are connected by steps of at most ``radius`` bits, in order of insertion."""
        return near_groups(self.arrays()[1], self.n_bits, radius)

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Write the index into an empty folder."""

    def save(self, folder: str | Path) -> None:
        """Save to a folder, which is replaced as a whole."""
        save_folder(Path(folder), FORMAT, FORMAT_VERSION, self.write)

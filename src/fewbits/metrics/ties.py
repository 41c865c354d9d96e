"""How many documents, and how many relevant ones, lie at each Hamming distance from each query.

Short codes put thousands of documents at the same distance; such a shell has no order of its own. Every metric
here is the exact expectation over all orders inside the tie_groups, which needs their sizes only: no sorting, no
seed. This is the one place where the tie rule lives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fewbits.codes import Packed, hamming, pack
from fewbits.data.labels import align_labels
from fewbits.errors import DataError
from fewbits.validation import check_whole_number

BLOCK_PAIRS = 1 << 22  # distances that are held at one time


@dataclass(frozen=True, eq=False)
class TieGroups:
    """Sizes of the tie_groups around each query."""

    documents: NDArray[np.int64]  # (queries, bits + 1)
    relevant: NDArray[np.int64]  # (queries, bits + 1)

    @property
    def nearer(self) -> NDArray[np.int64]:
        """Documents that are nearer than each shell."""
        return np.cumsum(self.documents, axis=1) - self.documents

    def taken(self, k: int) -> NDArray[np.float64]:
        """Share of each shell that is among the k nearest: 1, then one broken shell, then 0."""
        size = int(self.documents[0].sum())
        check_whole_number("k", k, 1, size, why=", the size of the database")
        return np.clip(k - self.nearer, 0, self.documents) / np.maximum(self.documents, 1)


def tie_groups(query_codes: ArrayLike, query_labels: Any, database_codes: ArrayLike, database_labels: Any) -> TieGroups:
    """Count the tie_groups of every query; a document is relevant if it shares a label with the query.

    Memory stays bounded whatever the sizes: distances are taken in blocks of queries.
    """
    queries, database, n_bits = packed_pair(query_codes, database_codes)
    wanted, offered = align_labels(query_labels, database_labels)
    for codes, labels, name in ((queries, wanted, "queries"), (database, offered, "the database")):
        if len(codes) != labels.shape[0]:
            raise DataError(f"codes and labels of {name} differ in number", got=f"{len(codes)} and {labels.shape[0]}")
    counted = TieGroups(*(np.zeros((len(queries), n_bits + 1), dtype=np.int64) for _ in range(2)))
    columns = offered.astype(np.float32).T.tocsr()  # (labels, database)
    for rows, distances in distance_blocks(queries, database):
        shares = wanted[rows].astype(np.float32) @ columns  # CSR, nonzero where a label is shared
        counted.documents[rows] = histogram(distances, n_bits)
        places = np.repeat(np.arange(len(distances)), np.diff(shares.indptr)) * len(database) + shares.indices
        counted.relevant[rows] = histogram(distances, n_bits, places)
    return counted


def packed_pair(query_codes: ArrayLike, database_codes: ArrayLike) -> tuple[Packed, Packed, int]:
    """Pack the codes of queries and database, checking that they belong together."""
    queries, database = np.asarray(query_codes), np.asarray(database_codes)
    if queries.ndim != 2 or database.ndim != 2 or queries.shape[1] != database.shape[1]:
        raise DataError("codes of queries and database differ in length", got=f"{queries.shape} and {database.shape}")
    if not len(queries) or not len(database):
        raise DataError("there is nothing to compare", allowed="one query and one document or more")
    return pack(queries), pack(database), queries.shape[1]


def distance_blocks(queries: Packed, database: Packed) -> Iterator[tuple[slice, NDArray[np.uint16]]]:
    """Yield distances to the whole database for a few queries at a time."""
    block = max(1, BLOCK_PAIRS // len(database))
    for start in range(0, len(queries), block):
        rows = slice(start, min(start + block, len(queries)))
        yield rows, hamming(queries[rows], database)


def histogram(distances: NDArray[np.uint16], n_bits: int, places: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Count the distances of each row (rows, bits + 1), all or those at some places of the flattened table."""
    row_starts = np.arange(len(distances)) * (n_bits + 1)
    keys = (distances + row_starts[:, None]).ravel()
    counts = np.bincount(keys if places is None else keys[places], minlength=len(distances) * (n_bits + 1))
    return counts.reshape(len(distances), n_bits + 1)

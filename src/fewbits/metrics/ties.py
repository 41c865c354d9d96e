"""Documents, and relevant documents, at each Hamming distance from each query.

Short codes put thousands of documents at the same distance from a query, and such a group of ties has no order. Every
retrieval metric here is the exact expectation over all orders within the groups. It needs only their sizes: no sorting
and no random numbers. No other module decides how ties count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fewbits.codes import Packed, hamming, pack
from fewbits.data.labels import align_labels
from fewbits.errors import DataError
from fewbits.validation import check_whole_number

BLOCK_PAIRS = 1 << 22  # distances in memory at one time
ROUNDING = 1e-9  # relative to the largest sum: sums of real numbers that differ by less are equal


@dataclass(frozen=True, eq=False)
class TieGroups:
    """Sizes of the groups of documents at the same distance from a query."""

    documents: NDArray[np.int64]  # (queries, bits + 1)
    relevant: NDArray[np.int64]  # (queries, bits + 1)

    @property
    def nearer(self) -> NDArray[np.int64]:
        """Return the number of documents nearer to the query than each group."""
        return np.cumsum(self.documents, axis=1) - self.documents

    def fraction_in_top_k(self, k: int) -> NDArray[np.float64]:
        """Return the fraction of each group among the k nearest: 1, then one fraction, then 0."""
        size = int(self.documents[0].sum())
        check_whole_number("k", k, 1, size, why=", the size of the database")
        return np.clip(k - self.nearer, 0, self.documents) / np.maximum(self.documents, 1)


def tie_groups(query_codes: ArrayLike, query_labels: Any, database_codes: ArrayLike, database_labels: Any) -> TieGroups:
    """Count the documents at each distance from every query; a document is relevant if it shares a label with it.

    Distances are computed for a block of queries at a time, so that memory is bounded.
    """
    queries, database, n_bits = packed_pair(query_codes, database_codes)
    relevant_positions = _relevance(queries, query_labels, database, database_labels)
    documents, relevant = (np.zeros((len(queries), n_bits + 1), dtype=np.int64) for _ in range(2))
    for rows, distances in distance_blocks(queries, database):
        documents[rows] = histogram(distances, n_bits)
        relevant[rows] = histogram(distances, n_bits, relevant_positions(rows))
    return TieGroups(documents, relevant)


def tie_groups_at_cut(
    query_vectors: ArrayLike, query_labels: Any, database_vectors: ArrayLike, database_labels: Any, k: int
) -> TieGroups:
    """Count the documents whose inner product with a query is above, equal to and below the k-th largest.

    The three groups are all that the precision at k needs, so that nothing is sorted. Sums of the same numbers in
    another order differ by rounding errors: products that differ by less than that are equal.
    """
    queries, database = _checked_pair(query_vectors, database_vectors, np.float64)
    check_whole_number("k", k, 1, len(database), why=", the size of the database")
    relevant_positions = _relevance(queries, query_labels, database, database_labels)
    documents, relevant = (np.zeros((len(queries), 3), dtype=np.int64) for _ in range(2))
    transposed = np.ascontiguousarray(database.T)  # (dimensions, database)
    for rows in _blocks(len(queries), len(database)):
        products = queries[rows] @ transposed  # (queries, database)
        threshold = np.partition(products, len(database) - k, axis=1)[:, [len(database) - k]]
        error = ROUNDING * np.abs(products).max(axis=1, keepdims=True)
        groups = (products <= threshold + error).astype(np.uint16) + (products < threshold - error)  # 0, 1 or 2
        documents[rows] = histogram(groups, 2)
        relevant[rows] = histogram(groups, 2, relevant_positions(rows))
    return TieGroups(documents, relevant)


def _relevance(
    queries: NDArray[Any], query_labels: Any, database: NDArray[Any], database_labels: Any
) -> Callable[[slice], NDArray[np.int64]]:
    """Return a function from a block of queries to the relevant positions in its flattened table of all pairs."""
    query_table, database_table = align_labels(query_labels, database_labels)
    for codes, labels, name in ((queries, query_table, "queries"), (database, database_table, "the database")):
        if len(codes) != labels.shape[0]:
            raise DataError(f"codes and labels of {name} differ in number", got=f"{len(codes)} and {labels.shape[0]}")
    columns = database_table.astype(np.float32).T.tocsr()  # (labels, database)

    def positions(rows: slice) -> NDArray[np.int64]:
        shared = query_table[rows].astype(np.float32) @ columns  # CSR, nonzero where a label is shared
        return np.repeat(np.arange(shared.shape[0]), np.diff(shared.indptr)) * len(database) + shared.indices

    return positions


def packed_pair(query_codes: ArrayLike, database_codes: ArrayLike) -> tuple[Packed, Packed, int]:
    """Pack the codes of queries and database, which must have the same length; return them and the length."""
    queries, database = _checked_pair(query_codes, database_codes)
    return pack(queries), pack(database), queries.shape[1]


def _checked_pair(
    query_codes: ArrayLike, database_codes: ArrayLike, dtype: type[np.float64] | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    queries, database = np.asarray(query_codes, dtype), np.asarray(database_codes, dtype)
    if queries.ndim != 2 or database.ndim != 2 or queries.shape[1] != database.shape[1]:
        raise DataError("codes of queries and database differ in length", got=f"{queries.shape} and {database.shape}")
    if not len(queries) or not len(database):
        raise DataError("there is nothing to compare", allowed="at least one query and one document")
    return queries, database


def distance_blocks(queries: Packed, database: Packed) -> Iterator[tuple[slice, NDArray[np.uint16]]]:
    """Yield blocks of queries and their distances to the whole database."""
    for rows in _blocks(len(queries), len(database)):
        yield rows, hamming(queries[rows], database)


def _blocks(n_queries: int, n_documents: int) -> Iterator[slice]:
    block = max(1, BLOCK_PAIRS // n_documents)
    return (slice(start, min(start + block, n_queries)) for start in range(0, n_queries, block))


def histogram(
    distances: NDArray[np.uint16], n_bits: int, positions: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Count the distances of each row (rows, bits + 1), all or those at some positions of the flattened table."""
    row_starts = np.arange(len(distances)) * (n_bits + 1)
    keys = (distances + row_starts[:, None]).ravel()
    counts = np.bincount(keys if positions is None else keys[positions], minlength=len(distances) * (n_bits + 1))
    return counts.reshape(len(distances), n_bits + 1)

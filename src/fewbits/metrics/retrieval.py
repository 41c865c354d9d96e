"""Retrieval quality, exact over all orders of documents at the same distance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma

from fewbits.data.labels import align_labels
from fewbits.errors import DataError
from fewbits.metrics.ties import TieGroups, distance_blocks, histogram, packed_pair, tie_groups
from fewbits.validation import check_whole_number


def precision_at_k(
    query_codes: ArrayLike, query_labels: Any, database_codes: ArrayLike, database_labels: Any, k: int = 100
) -> float:
    """Relevant share of the k nearest documents, averaged over the queries.

    Codes are rows of 0/1. Labels are a table (documents x labels, sparse or not) or one class a document; a
    document is relevant if it shares a label with the query.

    >>> precision_at_k([[0, 0]], ["a"], [[0, 1], [1, 0], [1, 1]], ["a", "b", "a"], k=1)
    0.5
    """
    return precision_from_ties(tie_groups(query_codes, query_labels, database_codes, database_labels), k)


def precision_at_k_per_query(
    query_codes: ArrayLike, query_labels: Any, database_codes: ArrayLike, database_labels: Any, k: int = 100
) -> NDArray[np.float64]:
    """:func:`precision_at_k` of each query by itself (queries,), to see how much it varies.

    >>> precision_at_k_per_query([[0, 0], [1, 1]], ["a", "b"], [[0, 1], [0, 0], [1, 1]], ["a", "b", "b"], k=1).tolist()
    [0.0, 1.0]
    """
    return _precisions(tie_groups(query_codes, query_labels, database_codes, database_labels), k)


def mean_average_precision(
    query_codes: ArrayLike, query_labels: Any, database_codes: ArrayLike, database_labels: Any
) -> float:
    """Average precision over the whole ranking, averaged over the queries that have a relevant document.

    >>> round(mean_average_precision([[0, 0]], ["a"], [[0, 0], [0, 1], [1, 1]], ["a", "b", "a"]), 6)
    0.833333
    """
    return average_precision_from_ties(tie_groups(query_codes, query_labels, database_codes, database_labels))


def recall_within_radius(
    query_codes: ArrayLike,
    query_labels: Any,
    database_codes: ArrayLike,
    database_labels: Any,
    radius: int = 2,
) -> float:
    """Share of the relevant documents that differ in at most ``radius`` bits, averaged over the queries with any.

    >>> recall_within_radius([[0, 0]], ["a"], [[0, 0], [0, 1], [1, 1]], ["a", "b", "a"], radius=1)
    0.5
    """
    return recall_from_ties(tie_groups(query_codes, query_labels, database_codes, database_labels), radius)


def precision_from_ties(counted: TieGroups, k: int) -> float:
    """:func:`precision_at_k` from tie_groups that are counted already."""
    return float(_precisions(counted, k).mean())


def _precisions(counted: TieGroups, k: int) -> NDArray[np.float64]:
    relevant: NDArray[np.float64] = (counted.relevant * counted.taken(k)).sum(axis=1)
    return relevant / k


def average_precision_from_ties(counted: TieGroups) -> float:
    """:func:`mean_average_precision` from tie_groups that are counted already.

    In a shell of n documents, r relevant, behind N documents with R relevant ones, place j holds a relevant
    document with probability r/n, and then the expected relevant count up to it is R + 1 + (j-1) (r-1)/(n-1).
    Divided by N + j and summed over j this has a closed form in harmonic numbers (McSherry and Najork, ECIR 2008).
    """
    n, r = counted.documents.astype(float), counted.relevant.astype(float)  # (queries, bits + 1)
    N = counted.nearer.astype(float)
    R = np.cumsum(r, axis=1) - r
    slope = np.where(n > 1, (r - 1) / np.maximum(n - 1, 1), 0.0)
    harmonic = digamma(N + n + 1) - digamma(N + 1)  # 1/(N+1) + ... + 1/(N+n)
    in_shell = np.where(n > 0, r / np.maximum(n, 1) * (slope * n + (R + 1 - slope * (N + 1)) * harmonic), 0.0)
    total = r.sum(axis=1)
    return _mean_where_relevant(in_shell.sum(axis=1), total)


def recall_from_ties(counted: TieGroups, radius: int) -> float:
    """:func:`recall_within_radius` from tie_groups that are counted already."""
    n_bits = counted.relevant.shape[1] - 1
    check_whole_number("radius", radius, 0, n_bits)
    return _mean_where_relevant(counted.relevant[:, : radius + 1].sum(axis=1), counted.relevant.sum(axis=1))


def random_floor(query_labels: Any, database_labels: Any) -> float:
    """Precision of a random ranking: the relevant share of the database, averaged over the queries.

    >>> random_floor(["a", "b"], ["a", "a", "b", "c"])
    0.375
    """
    wanted, offered = align_labels(query_labels, database_labels)
    if not wanted.shape[0] or not offered.shape[0]:
        raise DataError("there is nothing to compare", allowed="one query and one document or more")
    # Queries with the same labels have the same relevant documents, and there are few such sets.
    keys = np.array([wanted.indices[low:high].tobytes() for low, high in _bounds(wanted)], dtype=object)
    _, first, count = np.unique(keys, return_index=True, return_counts=True)
    shares = wanted[first].astype(np.float32) @ offered.astype(np.float32).T.tocsr()
    return float(np.average(np.diff(shares.indptr), weights=count) / offered.shape[0])


def neighbour_recall(query_codes: ArrayLike, database_codes: ArrayLike, nearest: ArrayLike, k: int = 100) -> float:
    """Share of each query's true neighbours that are among its k nearest by code.

    ``nearest`` (queries, neighbours) holds rows of the database, usually the ten nearest by cosine of the
    features (:func:`fewbits.features.nearest_by_cosine`). A code that only names the class fails this: it cannot
    tell the near from the far inside a class.

    >>> neighbour_recall([[0, 0]], [[0, 1], [1, 0], [1, 1]], nearest=[[1]], k=1)
    0.5
    """
    queries, database, n_bits = packed_pair(query_codes, database_codes)
    neighbours = np.asarray(nearest)
    if neighbours.ndim != 2 or len(neighbours) != len(queries) or not neighbours.size:
        raise DataError("nearest is a table", allowed=f"({len(queries)}, neighbours)", got=neighbours.shape)
    if neighbours.min() < 0 or neighbours.max() >= len(database):
        raise DataError("nearest holds rows of the database", allowed=f"0 to {len(database) - 1}", got=neighbours.max())
    found = 0.0
    for rows, distances in distance_blocks(queries, database):
        sizes = histogram(distances, n_bits)
        taken = TieGroups(sizes, sizes).taken(k)  # (queries, bits + 1)
        reached = np.take_along_axis(distances, neighbours[rows], axis=1)  # distances of the true neighbours
        found += float(np.take_along_axis(taken, reached.astype(np.intp), axis=1).sum())
    return found / neighbours.size


def _mean_where_relevant(values: Any, relevant: Any) -> float:
    """Average ``values / relevant`` over the queries that have a relevant document."""
    answerable = relevant > 0
    return float((values[answerable] / relevant[answerable]).mean()) if answerable.any() else 0.0


def _bounds(table: Any) -> Any:
    return zip(table.indptr[:-1], table.indptr[1:], strict=True)

"""Retrieval quality, averaged exactly over all orders of documents at the same distance."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma

from fewbits.data.labels import align_labels, label_patterns
from fewbits.errors import DataError
from fewbits.metrics.ties import TieGroups, distance_blocks, histogram, packed_pair, tie_groups, tie_groups_at_cut
from fewbits.validation import check_whole_number


class Encoder(Protocol):
    """Anything with ``transform``, from features to rows of 0/1."""

    def transform(self, X: Any) -> Any:
        """Return the codes of documents."""


def precision_at_k(
    query_codes: ArrayLike, query_labels: Any, database_codes: ArrayLike, database_labels: Any, k: int = 100
) -> float:
    """Compute the fraction of the k nearest documents that are relevant, averaged over the queries.

    Codes are rows of 0/1. Labels are a table (documents x labels, sparse or dense) or one class per document. A
    document is relevant if it shares a label with the query.

    >>> precision_at_k([[0, 0]], ["a"], [[0, 1], [1, 0], [1, 1]], ["a", "b", "a"], k=1)
    0.5
    """
    return precision_from_ties(tie_groups(query_codes, query_labels, database_codes, database_labels), k)


def precision_at_k_per_query(
    query_codes: ArrayLike, query_labels: Any, database_codes: ArrayLike, database_labels: Any, k: int = 100
) -> NDArray[np.float64]:
    """Compute :func:`precision_at_k` of each query, to see how much it varies.

    >>> precision_at_k_per_query([[0, 0], [1, 1]], ["a", "b"], [[0, 1], [0, 0], [1, 1]], ["a", "b", "b"], k=1).tolist()
    [0.0, 1.0]
    """
    return _precisions(tie_groups(query_codes, query_labels, database_codes, database_labels), k)


def encoded_precision(
    hasher: Encoder, queries: Any, query_labels: Any, database: Any, database_labels: Any, k: int = 100
) -> float:
    """Encode the features of queries and database with a fitted hasher, and compute :func:`precision_at_k`."""
    return precision_at_k(hasher.transform(queries), query_labels, hasher.transform(database), database_labels, k)


def asymmetric_precision_at_k(
    query_margins: ArrayLike, query_labels: Any, database_codes: ArrayLike, database_labels: Any, k: int = 100
) -> float:
    """Compute the precision at k if a differing bit costs its weight in the query: the database needs its bits only.

    ``query_margins`` (queries, bits) hold the weights, positive where the query's bit is 1 and negative where it is 0,
    for example the margins of a hasher. With equal weights this is :func:`precision_at_k`.

    >>> asymmetric_precision_at_k([[-0.9, 0.1]], ["a"], [[0, 0], [1, 1]], ["a", "b"], k=1)
    1.0
    """
    precisions = asymmetric_precision_at_k_per_query(query_margins, query_labels, database_codes, database_labels, k)
    return float(precisions.mean())


def asymmetric_precision_at_k_per_query(
    query_margins: ArrayLike, query_labels: Any, database_codes: ArrayLike, database_labels: Any, k: int = 100
) -> NDArray[np.float64]:
    """Compute :func:`asymmetric_precision_at_k` of each query, to see how much it varies.

    >>> asymmetric_precision_at_k_per_query([[-0.9, 0.1]], ["a"], [[0, 0], [1, 1]], ["a", "b"], k=1).tolist()
    [1.0]
    """
    signs = 2 * np.asarray(database_codes, dtype=np.float32) - 1
    return _precisions(tie_groups_at_cut(query_margins, query_labels, signs, database_labels, k), k)


def inner_product_precision_at_k(
    query_vectors: ArrayLike, query_labels: Any, database_vectors: ArrayLike, database_labels: Any, k: int = 100
) -> float:
    """Compute the precision at k with real vectors on both sides, nearest by the largest inner product.

    >>> inner_product_precision_at_k([[1.0, 0.5]], ["a"], [[0.9, 0.2], [0.2, 0.9]], ["a", "b"], k=1)
    1.0
    """
    return precision_from_ties(tie_groups_at_cut(query_vectors, query_labels, database_vectors, database_labels, k), k)


def mean_average_precision(
    query_codes: ArrayLike, query_labels: Any, database_codes: ArrayLike, database_labels: Any
) -> float:
    """Compute the average precision of the whole ranking, averaged over the queries that have a relevant document.

    >>> round(mean_average_precision([[0, 0]], ["a"], [[0, 0], [0, 1], [1, 1]], ["a", "b", "a"]), 6)
    0.833333
    """
    return average_precision_from_ties(tie_groups(query_codes, query_labels, database_codes, database_labels))


def recall_within_radius(
    query_codes: ArrayLike, query_labels: Any, database_codes: ArrayLike, database_labels: Any, radius: int = 2
) -> float:
    """Compute the fraction of relevant documents at a distance of at most ``radius``.

    It is averaged over the queries that have a relevant document.

    >>> recall_within_radius([[0, 0]], ["a"], [[0, 0], [0, 1], [1, 1]], ["a", "b", "a"], radius=1)
    0.5
    """
    return recall_from_ties(tie_groups(query_codes, query_labels, database_codes, database_labels), radius)


def precision_from_ties(groups: TieGroups, k: int) -> float:
    """Compute :func:`precision_at_k` from tie groups."""
    return float(_precisions(groups, k).mean())


def _precisions(groups: TieGroups, k: int) -> NDArray[np.float64]:
    relevant: NDArray[np.float64] = (groups.relevant * groups.fraction_in_top_k(k)).sum(axis=1)
    return relevant / k


def average_precision_from_ties(groups: TieGroups) -> float:
    """Compute :func:`mean_average_precision` from tie groups.

    In a group of n documents, r of them relevant, behind N documents with R relevant ones, rank j holds a relevant
    document with probability r/n, and then the expected number of relevant documents up to it is
    R + 1 + (j-1) (r-1)/(n-1). Divided by N + j and summed over j this has a closed form in harmonic numbers
    (McSherry and Najork, ECIR 2008).
    """
    n, r = groups.documents.astype(float), groups.relevant.astype(float)  # (queries, bits + 1)
    N = groups.nearer.astype(float)
    R = np.cumsum(r, axis=1) - r
    slope = np.where(n > 1, (r - 1) / np.maximum(n - 1, 1), 0.0)
    harmonic = digamma(N + n + 1) - digamma(N + 1)  # 1/(N+1) + ... + 1/(N+n)
    in_group = np.where(n > 0, r / np.maximum(n, 1) * (slope * n + (R + 1 - slope * (N + 1)) * harmonic), 0.0)
    return _mean_where_relevant(in_group.sum(axis=1), r.sum(axis=1))


def recall_from_ties(groups: TieGroups, radius: int) -> float:
    """Compute :func:`recall_within_radius` from tie groups."""
    n_bits = groups.relevant.shape[1] - 1
    check_whole_number("radius", radius, 0, n_bits)
    return _mean_where_relevant(groups.relevant[:, : radius + 1].sum(axis=1), groups.relevant.sum(axis=1))


def random_floor(query_labels: Any, database_labels: Any) -> float:
    """Compute the chance level: the precision of a random ranking, averaged over the queries.

    >>> random_floor(["a", "b"], ["a", "a", "b", "c"])
    0.375
    """
    queries, database = align_labels(query_labels, database_labels)
    if not queries.shape[0] or not database.shape[0]:
        raise DataError("there is nothing to compare", allowed="at least one query and one document")
    # Queries with the same labels have the same relevant documents.
    patterns, pattern_of = label_patterns(queries)
    shared = patterns.astype(np.float32) @ database.astype(np.float32).T.tocsr()
    return float(np.average(np.diff(shared.indptr), weights=np.bincount(pattern_of)) / database.shape[0])


def neighbour_recall(query_codes: ArrayLike, database_codes: ArrayLike, nearest: ArrayLike, k: int = 100) -> float:
    """Compute the fraction of each query's true neighbors that are among its k nearest documents by code.

    ``nearest`` (queries, neighbors) holds rows of the database, usually the ten nearest by cosine of the features
    (:func:`fewbits.features.nearest_by_cosine`). Codes that only identify the class score low, because they do not
    separate near from far documents within a class.

    >>> neighbour_recall([[0, 0]], [[0, 1], [1, 0], [1, 1]], nearest=[[1]], k=1)
    0.5
    """
    queries, database, n_bits = packed_pair(query_codes, database_codes)
    neighbors = np.asarray(nearest)
    if neighbors.ndim != 2 or len(neighbors) != len(queries) or not neighbors.size:
        raise DataError(
            "nearest must have one row per query", allowed=f"({len(queries)}, neighbors)", got=neighbors.shape
        )
    if neighbors.min() < 0 or neighbors.max() >= len(database):
        raise DataError(
            "nearest must contain row numbers of the database", allowed=f"0 to {len(database) - 1}", got=neighbors.max()
        )
    total = 0.0
    for rows, distances in distance_blocks(queries, database):
        sizes = histogram(distances, n_bits)
        fraction = TieGroups(sizes, sizes).fraction_in_top_k(k)  # (queries, bits + 1)
        to_neighbors = np.take_along_axis(distances, neighbors[rows], axis=1)
        total += float(np.take_along_axis(fraction, to_neighbors.astype(np.intp), axis=1).sum())
    return total / neighbors.size


def _mean_where_relevant(values: Any, relevant: Any) -> float:
    """Average ``values / relevant`` over the queries that have a relevant document."""
    answerable = relevant > 0
    return float((values[answerable] / relevant[answerable]).mean()) if answerable.any() else 0.0

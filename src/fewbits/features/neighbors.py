"""Exact nearest neighbors by cosine, without a dense matrix of documents x documents."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize

from fewbits.validation import check_whole_number, smallest

MAX_SIMILARITIES = 1 << 23  # in memory per thread
MAX_DENSE_VALUES = 1 << 25  # of the rows that are compared with each other at one time
SHRINKAGE = 0.05  # of the covariance within pairs, relative to its mean variance
Pairs = NDArray[np.int64]  # (pairs, 2): rows


def nearest_by_cosine(queries: Any, database: Any, k: int = 10) -> NDArray[np.int64]:
    """Return the rows of the database nearest to each query (queries, k), nearest first, ties in order of rows.

    Both are tables of rows of unit length, sparse or dense, as :mod:`fewbits.features` creates them.
    """
    k = min(check_whole_number("k", k, 1), database.shape[0])
    block = max(1, MAX_SIMILARITIES // database.shape[0])
    columns = sparse.csr_array(database.T) if sparse.issparse(database) else np.asarray(database).T

    def nearest(start: int) -> NDArray[np.int64]:
        product = queries[start : start + block] @ columns
        similarities = product.toarray() if sparse.issparse(product) else product
        return np.array([smallest(-row, k) for row in similarities], dtype=np.int64)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # sparse products release the interpreter lock
        blocks = list(pool.map(nearest, range(0, queries.shape[0], block)))
    return np.concatenate(blocks) if blocks else np.zeros((0, k), dtype=np.int64)


def nearest_to_each(rows: Any, k: int) -> NDArray[np.int64]:
    """Return the k nearest other rows of every row (rows, k), for sparse or dense rows of unit length.

    Sparse rows are converted to dense ones block by block.
    """
    count = rows.shape[0]
    k = min(k, count - 1)
    starts = range(0, count, max(1, MAX_DENSE_VALUES // rows.shape[1]))
    nearest = np.concatenate([_nearest_to_block(rows, start, starts, k + 1) for start in starts])
    others = nearest != np.arange(count)[:, None]
    others[others.all(axis=1), -1] = False  # among many equal rows a row may be missing from its own neighbors
    return nearest[others].reshape(count, k).astype(np.int64)


def _nearest_to_block(rows: Any, start: int, starts: range, k: int) -> NDArray[np.int64]:
    """Return the k nearest of all rows to each row of one block, comparing block by block."""
    queries = _dense(rows[start : start + starts.step])
    heap = faiss.ResultHeap(len(queries), k, keep_max=True)
    for other in starts:
        database = queries if other == start else _dense(rows[other : other + starts.step])
        similarities, nearest = faiss.knn(queries, database, min(k, len(database)), metric=faiss.METRIC_INNER_PRODUCT)
        if len(starts) == 1:  # nothing to merge, and ties keep the order of faiss
            return np.asarray(nearest)
        heap.add_result(similarities, nearest + other)
    heap.finalize()
    return np.asarray(heap.I)


def _dense(rows: Any) -> NDArray[np.float32]:
    return np.ascontiguousarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float32)


def latent_neighbors(
    X: Any, k: int, dimensions: int, random_state: int, similar_pairs: Pairs | None = None
) -> NDArray[np.int64]:
    """Return the k nearest other rows of every row by cosine in a latent semantic space.

    These neighbors are more often on the same topic than the nearest by words, since documents on one topic need not
    share words. The space may learn from ``similar_pairs`` of rows, see :func:`neighbors_by_pairs`.
    """
    dimensions = min(dimensions, *X.shape)
    if dimensions < X.shape[1]:
        X = TruncatedSVD(dimensions, random_state=random_state).fit_transform(X)
    return neighbors_by_pairs(X.astype(np.float32, copy=False), k, similar_pairs)


def neighbors_by_pairs(rows: Any, k: int, similar_pairs: Pairs | None) -> NDArray[np.int64]:
    """Return the k nearest other rows of every row (rows, k) by cosine in a space learned from pairs of similar rows.

    Directions in which similar rows differ get a low weight ("relevant component analysis"). If no pair differs, or the
    rows are sparse, all directions have the same weight.

    A. Bar-Hillel, T. Hertz, N. Shental, D. Weinshall. Learning a Mahalanobis metric from equivalence constraints. JMLR
    2005.
    """
    rows = normalize(rows)
    if similar_pairs is None or sparse.issparse(rows):
        return nearest_to_each(rows, k)
    differences = rows[similar_pairs[:, 0]] - rows[similar_pairs[:, 1]]
    within = differences.T @ differences / max(1, len(differences))  # (columns, columns)
    if not within.any():
        return nearest_to_each(rows, k)
    within += SHRINKAGE * np.trace(within) / len(within) * np.eye(len(within), dtype=within.dtype)
    variances, directions = np.linalg.eigh(within)
    return nearest_to_each(normalize(rows @ (directions / np.sqrt(variances))), k)

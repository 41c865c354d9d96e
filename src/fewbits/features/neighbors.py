"""The nearest documents by cosine, exactly, without a dense documents x documents matrix."""

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

BLOCK_VALUES = 1 << 23  # similarities that a thread holds at one time
SHRINKING = 0.05  # of the covariance within pairs: what is added to it, as a share of its mean variance
BLOCK_OF_ROWS = 1 << 25  # values of the rows that are compared with each other at one time
Pairs = NDArray[np.int64]  # (pairs, 2): rows


def nearest_by_cosine(queries: Any, database: Any, k: int = 10) -> NDArray[np.int64]:
    """Rows of the database nearest to each query (queries, k), nearest first, earlier rows first among equals.

    Both are tables of rows of length 1, sparse or dense, as :mod:`fewbits.features` makes them.
    """
    k = min(check_whole_number("k", k, 1), database.shape[0])
    block = max(1, BLOCK_VALUES // database.shape[0])
    columns = sparse.csr_array(database.T) if sparse.issparse(database) else np.asarray(database).T

    def nearest(start: int) -> NDArray[np.int64]:
        similarities = queries[start : start + block] @ columns
        dense = similarities.toarray() if sparse.issparse(similarities) else similarities
        return np.stack([smallest(-row, k) for row in dense])

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # sparse products run outside of Python's lock
        blocks = list(pool.map(nearest, range(0, queries.shape[0], block)))
    return np.concatenate(blocks) if blocks else np.zeros((0, k), dtype=np.int64)


def nearest_to_each(rows: Any, k: int) -> NDArray[np.int64]:
    """For every row of a table of rows of length 1, sparse or dense, the k nearest others (rows, k).

    Of sparse rows one block at a time is dense.
    """
    count = rows.shape[0]
    k = min(k, count - 1)
    starts = range(0, count, max(1, BLOCK_OF_ROWS // rows.shape[1]))
    found = np.concatenate([_nearest_to_block(rows, start, starts, k + 1) for start in starts])
    others = found != np.arange(count)[:, None]
    others[others.all(axis=1), -1] = False  # many equal rows may have pushed a row out of its own neighbours
    return found[others].reshape(count, k).astype(np.int64)


def _nearest_to_block(rows: Any, start: int, starts: range, k: int) -> NDArray[np.int64]:
    """The k nearest of all rows to each of those of one block, block by block."""
    queries = _dense(rows[start : start + starts.step])
    nearest = faiss.ResultHeap(len(queries), k, keep_max=True)
    for other in starts:
        database = queries if other == start else _dense(rows[other : other + starts.step])
        few = min(k, len(database))
        similarities, found = faiss.knn(queries, database, few, metric=faiss.METRIC_INNER_PRODUCT)
        if len(starts) == 1:  # nothing to merge, and the order among equals stays faiss's own
            return np.asarray(found)
        nearest.add_result(similarities, found + other)
    nearest.finalize()
    return np.asarray(nearest.I)


def _dense(rows: Any) -> NDArray[np.float32]:
    return np.ascontiguousarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float32)


def latent_neighbours(
    X: Any, k: int, dimensions: int, random_state: int, together: Pairs | None = None
) -> NDArray[np.int64]:
    """The k nearest others of every row by cosine in a latent semantic space of so many dimensions.

    Purer than the nearest by words: documents on one topic need not share any. Of rows that belong ``together`` (pairs
    of rows) the space may learn what counts, see :func:`neighbours_by_pairs`.
    """
    dimensions = min(dimensions, *X.shape)
    if dimensions < X.shape[1]:
        X = TruncatedSVD(dimensions, random_state=random_state).fit_transform(X)
    return neighbours_by_pairs(X.astype(np.float32, copy=False), k, together)


def neighbours_by_pairs(rows: Any, k: int, together: Pairs | None) -> NDArray[np.int64]:
    """The k nearest others of every row by cosine (rows, k), where directions count the less in which pairs that belong
    together differ.

    Without pairs that differ, or where rows are sparse, all directions count alike.

    A. Bar-Hillel, T. Hertz, N. Shental, D. Weinshall. Learning a Mahalanobis metric from equivalence constraints. JMLR
    2005 ("relevant component analysis").
    """
    rows = normalize(rows)
    if together is None or sparse.issparse(rows):
        return nearest_to_each(rows, k)
    differences = rows[together[:, 0]] - rows[together[:, 1]]
    within = differences.T @ differences / max(1, len(differences))  # (columns, columns)
    if not within.any():
        return nearest_to_each(rows, k)
    within += SHRINKING * np.trace(within) / len(within) * np.eye(len(within), dtype=within.dtype)
    variances, directions = np.linalg.eigh(within)
    return nearest_to_each(normalize(rows @ (directions / np.sqrt(variances))), k)

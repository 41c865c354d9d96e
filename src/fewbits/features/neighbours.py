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

from fewbits.checks import check_whole_number

BLOCK_VALUES = 1 << 23  # similarities that a thread holds at one time
BLOCK_OF_ROWS = 1 << 25  # values of the rows that are compared with each other at one time


def nearest_by_cosine(queries: Any, database: Any, k: int = 10) -> NDArray[np.int64]:
    """Rows of the database nearest to each query (queries, k), nearest first, earlier rows first among equals.

    Both are tables of rows of length 1, sparse or dense, as :mod:`fewbits.features` makes them.
    """
    k = min(check_whole_number("k", k, 1), database.shape[0])
    block = max(1, BLOCK_VALUES // database.shape[0])
    columns = sparse.csr_array(database.T) if sparse.issparse(database) else np.asarray(database).T

    def nearest(start: int) -> NDArray[np.int64]:
        similarities = queries[start : start + block] @ columns
        return _largest(similarities.toarray() if sparse.issparse(similarities) else similarities, k)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # sparse products run outside of Python's lock
        blocks = list(pool.map(nearest, range(0, queries.shape[0], block)))
    return np.concatenate(blocks) if blocks else np.zeros((0, k), dtype=np.int64)


def _largest(values: NDArray[Any], k: int) -> NDArray[np.int64]:
    """Columns of the k largest values of each row, earlier columns first among equals."""
    chosen = np.empty((len(values), k), dtype=np.int64)
    for row, target in zip(values, chosen, strict=True):
        threshold = np.partition(row, -k)[-k]  # the k-th largest; often 0, and then thousands are equal to it
        above = np.flatnonzero(row > threshold)
        equal = np.flatnonzero(row == threshold)[: k - len(above)]
        target[: len(above)] = above[np.argsort(-row[above], kind="stable")]
        target[len(above) :] = equal
    return chosen


def neighbours_of_each(rows: Any, k: int) -> NDArray[np.int64]:
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


def latent_neighbours(X: Any, k: int, dimensions: int, random_state: int) -> NDArray[np.int64]:
    """The k nearest others of every row by cosine in a latent semantic space of so many dimensions.

    Purer than the nearest by words: documents on one topic need not share any.
    """
    dimensions = min(dimensions, *X.shape)
    if dimensions < X.shape[1]:
        X = TruncatedSVD(dimensions, random_state=random_state).fit_transform(X)
    return neighbours_of_each(normalize(X.astype(np.float32, copy=False)), k)

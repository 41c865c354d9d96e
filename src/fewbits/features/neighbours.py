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


def neighbours_of_each(rows: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """For every row of a dense table of rows of length 1, the k nearest others (rows, k)."""
    k = min(k, len(rows) - 1)
    contiguous = np.ascontiguousarray(rows, dtype=np.float32)
    _, found = faiss.knn(contiguous, contiguous, k + 1, metric=faiss.METRIC_INNER_PRODUCT)
    others = found != np.arange(len(rows))[:, None]
    others[others.all(axis=1), -1] = False  # many equal rows may have pushed a row out of its own neighbours
    return found[others].reshape(len(rows), k).astype(np.int64)


def latent_neighbours(X: Any, k: int, dimensions: int, random_state: int) -> NDArray[np.int64]:
    """The k nearest others of every row by cosine in a latent semantic space of so many dimensions.

    Purer than the nearest by words: documents on one topic need not share any.
    """
    dimensions = min(dimensions, *X.shape)
    latent = X
    if dimensions < X.shape[1]:
        latent = TruncatedSVD(dimensions, random_state=random_state).fit_transform(X)
    elif sparse.issparse(X):
        latent = X.toarray()  # no wider than the latent space would be
    return neighbours_of_each(normalize(np.asarray(latent, dtype=np.float32)), k)

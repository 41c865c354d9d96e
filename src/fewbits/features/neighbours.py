"""The nearest documents by cosine, exactly, without a dense documents x documents matrix."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

BLOCK_ROWS = 128


def nearest_by_cosine(queries: Any, database: Any, k: int = 10) -> NDArray[np.int64]:
    """Rows of the database nearest to each query (queries, k), nearest first, earlier rows first among equals.

    Both are tables of rows of length 1, sparse or dense, as :mod:`fewbits.features` makes them.
    """
    k = min(k, database.shape[0])
    columns = sparse.csr_array(database.T) if sparse.issparse(database) else np.asarray(database).T

    def nearest(start: int) -> NDArray[np.int64]:
        similarities = queries[start : start + BLOCK_ROWS] @ columns
        return _largest(similarities.toarray() if sparse.issparse(similarities) else similarities, k)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # sparse products run outside of Python's lock
        blocks = list(pool.map(nearest, range(0, queries.shape[0], BLOCK_ROWS)))
    return np.concatenate(blocks) if blocks else np.zeros((0, k), dtype=np.int64)


def _largest(values: NDArray[Any], k: int) -> NDArray[np.int64]:
    """Columns of the k largest values of each row, earlier columns first among equals."""
    threshold = np.partition(values, values.shape[1] - k, axis=1)[:, -k]  # the k-th largest
    rows, columns = np.nonzero(values >= threshold[:, None])  # all ties with it are still in
    order = np.lexsort((columns, -values[rows, columns], rows))
    starts = np.searchsorted(rows, np.arange(len(values)))
    return columns[order][starts[:, None] + np.arange(k)]

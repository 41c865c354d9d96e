"""The nearest documents by cosine, exactly, without a dense documents x documents matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_VALUES = 1 << 24  # similarities that are held at one time


def nearest_by_cosine(queries: Any, database: Any, k: int) -> NDArray[np.int64]:
    """Rows of the database nearest to each query (queries, k), nearest first, earlier rows first among equals.

    Both are tables of rows of length 1, sparse or dense, as :mod:`fewbits.features` makes them.
    """
    k = min(k, database.shape[0])
    block = max(1, BLOCK_VALUES // database.shape[0])
    nearest = np.empty((queries.shape[0], k), dtype=np.int64)
    columns = database.T.tocsc() if hasattr(database, "tocsc") else database.T
    for start in range(0, queries.shape[0], block):
        product = queries[start : start + block] @ columns
        similarity = product.toarray() if hasattr(product, "toarray") else product
        nearest[start : start + block] = _largest(similarity, k)
    return nearest


def _largest(similarity: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Columns of the k largest values of each row; a stable sort keeps the earlier column among equals."""
    # The k-th value splits a row; all above it are in, and of those equal to it the first ones.
    threshold = -np.partition(-similarity, k - 1, axis=1)[:, k - 1 : k]
    above, equal = similarity > threshold, similarity == threshold
    room = k - above.sum(axis=1, keepdims=True)
    chosen = above | (equal & (np.cumsum(equal, axis=1) <= room))
    columns = np.nonzero(chosen)[1].reshape(-1, k)
    order = np.argsort(-np.take_along_axis(similarity, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)

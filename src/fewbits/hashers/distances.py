"""Distances of sparse rows to a few points, for the methods that compare with anchors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fewbits.hashers.base import row_by_row


def squared_distances(X: Any, points: NDArray[np.float32]) -> NDArray[np.float32]:
    """Squared distances (rows, points); each row's are the same whatever stands beside it."""
    rows = sparse.csr_array(X, dtype=np.float32)
    lengths = np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float32).reshape(-1, 1)
    products = row_by_row(rows, np.ascontiguousarray(points.T))
    return np.maximum(lengths + (points * points).sum(axis=1) - 2 * products, 0)

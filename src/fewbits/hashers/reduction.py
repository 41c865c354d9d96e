"""Principal directions of sparse rows, for the methods that begin by reducing them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

Floats = NDArray[np.float32]


def principal_directions(X: Any, count: int, generator: np.random.RandomState) -> tuple[Floats, Floats]:
    """The leading directions (features, r) of the centred rows, r <= count, and the rows' mean along each (r,).

    The centred rows are never made: scikit-learn multiplies by the sparse rows and takes the mean off.
    """
    rank = min(count, X.shape[0] - 1, X.shape[1])
    if rank < 1:  # a single row has no direction: any will do
        directions = np.eye(X.shape[1], 1)
    else:
        solver = "arpack" if rank < min(X.shape) else "covariance_eigh"  # as many as features: a small square matrix
        directions = PCA(rank, svd_solver=solver, random_state=generator).fit(X).components_.T
    mean = np.asarray(X.mean(axis=0)).ravel() @ directions
    return np.ascontiguousarray(directions, dtype=np.float32), mean.astype(np.float32)

"""Principal directions of sparse rows, for the methods that begin by reducing them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.utils.sparsefuncs import mean_variance_axis

Floats = NDArray[np.float32]


def principal_directions(X: Any, count: int, generator: np.random.RandomState) -> tuple[Floats, Floats, Floats]:
    """The leading directions (features, r) of the centred rows, r <= count; the rows' mean and variance along each.

    The centred rows are never made: scikit-learn multiplies by the sparse rows and takes the mean off.
    """
    rank = min(count, X.shape[0] - 1, X.shape[1])
    _, spread = mean_variance_axis(X, axis=0) if sparse.issparse(X) else (None, X.var(axis=0))
    if rank < 1 or spread.max() <= np.finfo(np.float32).tiny:  # equal rows have no direction: any will do
        directions, variances = np.eye(X.shape[1], 1), np.zeros(1)
    else:
        solver = "arpack" if rank < min(X.shape) else "covariance_eigh"  # as many as features: a small square matrix
        pca = PCA(rank, svd_solver=solver, random_state=generator).fit(X)
        directions, variances = pca.components_.T, pca.explained_variance_
    mean = np.asarray(X.mean(axis=0)).ravel() @ directions
    return np.ascontiguousarray(directions, dtype=np.float32), mean.astype(np.float32), variances.astype(np.float32)

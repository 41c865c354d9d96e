"""Principal directions of sparse rows, for the methods that begin by reducing them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.decomposition import PCA
from sklearn.utils.sparsefuncs import mean_variance_axis

from fewbits.hashers.base import rowwise_matmul

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


def squared_distances(X: Any, points: NDArray[np.float32]) -> NDArray[np.float32]:
    """Squared distances (rows, points); each row's are the same whatever stands beside it."""
    rows = sparse.csr_array(X, dtype=np.float32)
    lengths = np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float32).reshape(-1, 1)
    products = rowwise_matmul(rows, np.ascontiguousarray(points.T))
    return np.maximum(lengths + (points * points).sum(axis=1) - 2 * products, 0)


LARGE_SHARE = 0.01  # of all documents: a bit may tell such a part from the others
DEFLATION = 3  # times a trivial vector: its eigenvalue, now -2, is below all others, which are -1 or more
NOISE = 1e-6  # of a vector's largest value: smooth vectors of one part are 0 on the others, but for rounding


def trivial_eigenvectors(graph: Any, roots: NDArray[np.float64], sizes: NDArray[np.float64]) -> Any:
    """Orthonormal vectors (nodes, few), sparse, of the largest eigenvalue of a normalised graph that make no bit.

    Such vectors are the roots of the degrees on each connected part, one each. The constant, that on all parts, says
    nothing, and that of a small part is a bit wasted on a few documents. What remains of the large parts' vectors tells
    these parts apart. ``sizes`` are documents of each node.
    """
    _, part_of = connected_components(graph, directed=False)
    is_large = np.bincount(part_of, weights=sizes) >= LARGE_SHARE * sizes.sum()
    merged = np.where(is_large, -1, np.arange(len(is_large)))  # the large parts are one
    _, column_of = np.unique(merged[part_of], return_inverse=True)
    vectors = sparse.csr_array((roots, (np.arange(len(roots)), column_of)))
    lengths = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=0)).ravel())
    return sparse.csr_array(vectors @ sparse.diags_array(1 / lengths))


def without_noise(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors (nodes, some) that are 0 where only rounding is left of them."""
    return np.where(np.abs(vectors) > NOISE * np.abs(vectors).max(axis=0, initial=0), vectors, 0)

"""Linear algebra on sparse rows that several methods share: products, principal directions, trivial eigenvectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.decomposition import PCA
from sklearn.utils.sparsefuncs import mean_variance_axis

from fewbits.hashers.base import rowwise_matmul
from fewbits.validation import check_whole_number

Floats = NDArray[np.float32]

LARGE_SHARE = 0.01  # of all documents: connected parts of a graph at least this large may be told apart by bits
DEFLATION = 3  # subtracted from a trivial eigenvector's eigenvalue 1: it is then below all others, which are >= -1
NOISE = 1e-6  # of a vector's largest value: smaller values are rounding errors


def as_int32_csr(X: Any) -> Any:
    """Convert sparse rows to 32-bit indices, which parts of scikit-learn require; indexing rows may widen them."""
    if not sparse.issparse(X):
        return X
    rows = sparse.csr_array(X)
    return sparse.csr_array((rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)), shape=rows.shape)


def sample_rows(X: Any, max_rows: int, generator: np.random.RandomState) -> Any:
    """Return a random sample of at most ``max_rows`` rows, in their order."""
    check_whole_number("max_rows", max_rows, 1)
    return X if X.shape[0] <= max_rows else X[np.sort(generator.choice(X.shape[0], max_rows, replace=False))]


def principal_directions(X: Any, count: int, generator: np.random.RandomState) -> tuple[Floats, Floats, Floats]:
    """Return the leading principal directions (features, r), r <= count, and the rows' mean and variance along each.

    scikit-learn centres implicitly: sparse rows are never made dense.
    """
    rank = min(count, X.shape[0] - 1, X.shape[1])
    _, variance = mean_variance_axis(X, axis=0) if sparse.issparse(X) else (None, X.var(axis=0))
    if rank < 1 or variance.max() <= np.finfo(np.float32).tiny:  # equal rows: any direction will do
        directions, variances = np.eye(X.shape[1], 1), np.zeros(1)
    else:
        solver = "arpack" if rank < min(X.shape) else "covariance_eigh"  # full rank: a small square matrix
        pca = PCA(rank, svd_solver=solver, random_state=generator).fit(X)
        directions, variances = pca.components_.T, pca.explained_variance_
    mean = np.asarray(X.mean(axis=0)).ravel() @ directions
    return np.ascontiguousarray(directions, dtype=np.float32), mean.astype(np.float32), variances.astype(np.float32)


def squared_distances(X: Any, points: Floats) -> Floats:
    """Compute squared distances (rows, points); a row's distances do not depend on its batch."""
    rows = sparse.csr_array(X, dtype=np.float32)
    lengths = np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float32).reshape(-1, 1)
    products = rowwise_matmul(rows, np.ascontiguousarray(points.T))
    return np.maximum(lengths + (points * points).sum(axis=1) - 2 * products, 0)


def trivial_eigenvectors(graph: Any, roots: NDArray[np.float64], sizes: NDArray[np.float64]) -> Any:
    """Return eigenvectors of a normalised graph's largest eigenvalue that would waste a bit, orthonormal and sparse.

    Each connected part of the graph has one such eigenvector: the roots of the degrees on that part. Trivial are the
    sum over the large parts, which is constant, and those of small parts, which single out a few documents. The
    remaining combinations of the large parts' eigenvectors tell these parts apart. ``sizes`` are the documents per
    node.
    """
    _, part_of = connected_components(graph, directed=False)
    is_large = np.bincount(part_of, weights=sizes) >= LARGE_SHARE * sizes.sum()
    merged = np.where(is_large, -1, np.arange(len(is_large)))  # the large parts become one
    _, column_of = np.unique(merged[part_of], return_inverse=True)
    vectors = sparse.csr_array((roots, (np.arange(len(roots)), column_of)))
    lengths = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=0)).ravel())
    return sparse.csr_array(vectors @ sparse.diags_array(1 / lengths))


def without_noise(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Replace rounding errors in vectors (nodes, count) with 0: smooth vectors of one part are 0 on the others."""
    return np.where(np.abs(vectors) > NOISE * np.abs(vectors).max(axis=0, initial=0), vectors, 0)

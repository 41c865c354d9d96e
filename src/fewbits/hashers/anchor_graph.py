"""Hashing with anchor graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state

from fewbits.hashers._linalg import (
    DEFLATION,
    sample_rows,
    squared_distances,
    trivial_eigenvectors,
    without_noise,
)
from fewbits.hashers.base import Hasher, rowwise_matmul
from fewbits.validation import check_whole_number

BLOCK_ROWS = 20_000  # whose distances to all anchors are in memory at a time


class AnchorGraphHashing(Hasher):
    """Threshold smooth functions on a graph that links documents through a few anchors (AGH, one layer).

    Z (documents, anchors) holds each document's Gaussian weights on its nearest anchors, which sum to 1; the similarity
    of documents is Z L^-1 Z' with L the anchors' column sums. Its eigenvectors follow from a small anchors x anchors
    matrix, and a new document's value on them is its own row of Z times a table, so all documents, training ones
    included, are encoded in the same way. Left out are the constant eigenvector and those that only single out a few
    documents, which share no anchors with others.

    Documents and anchors are compared in a latent semantic space, by direction only. In the space of all words nearly
    all distances are equal: a few anchors near the centre would be nearest to most documents, others to one, and short
    codes would be constant.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code. A bit without an eigenvector is always 0.
    n_anchors : int, default=500
        Number of k-means centres; at least two more than bits, at most the number of documents.
    n_nearest : int, default=5
        Number of anchors on which a document has weights.
    n_dimensions : int, default=128
        Dimensions of the latent semantic space; rows with no more features are used as they are.
    random_state : int, RandomState instance or None, default=None
        Seed of the SVD and of k-means.

    References
    ----------
    W. Liu, J. Wang, S. Kumar, S. Chang. Hashing with graphs. ICML 2011.
    """

    fitted_arrays = ("directions", "anchors", "bandwidth", "weights", "offsets")
    directions_: NDArray[np.float32]  # (features, dimensions)
    anchors_: NDArray[np.float32]  # (anchors, dimensions)
    bandwidth_: NDArray[np.float32]  # (1,)
    weights_: NDArray[np.float32]  # (anchors, bits)
    offsets_: NDArray[np.float32]  # (bits,)

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_anchors: int = 500,
        n_nearest: int = 5,
        n_dimensions: int = 128,
        random_state: Any = None,
    ) -> None:
        super().__init__(n_bits, random_state=random_state)
        self.n_anchors = n_anchors
        self.n_nearest = n_nearest
        self.n_dimensions = n_dimensions

    def _fit(self, X: Any, y: Any) -> None:
        check_whole_number("n_anchors", self.n_anchors, 1)
        check_whole_number("n_nearest", self.n_nearest, 1)
        check_whole_number("n_dimensions", self.n_dimensions, 1)
        generator = check_random_state(self.random_state)
        directions = self._latent_directions(X, generator)
        latent = _latent(X, directions)
        count = min(max(self.n_anchors, self.n_bits + 2), X.shape[0])
        means = MiniBatchKMeans(count, n_init=1, batch_size=2048, random_state=generator).fit(latent)
        anchors = means.cluster_centers_.astype(np.float32)
        sample = sample_rows(latent, BLOCK_ROWS, generator)
        k = min(self.n_nearest, count)
        distances = np.partition(squared_distances(sample, anchors), k - 1, axis=1)
        furthest = np.sqrt(distances[:, k - 1])
        bandwidth = furthest.mean(keepdims=True) ** 2 + np.float32(1e-12)
        z = anchor_weights(X, directions, anchors, bandwidth, k)
        self.weights_, self.offsets_ = _eigenfunctions(z.astype(np.float64), self.n_bits)
        self.directions_, self.anchors_, self.bandwidth_ = directions, anchors, bandwidth

    def _latent_directions(self, X: Any, generator: np.random.RandomState) -> NDArray[np.float32]:
        if X.shape[1] <= self.n_dimensions:
            return np.eye(X.shape[1], dtype=np.float32)
        svd = TruncatedSVD(min(self.n_dimensions, X.shape[0]), random_state=generator).fit(X)
        return np.ascontiguousarray(svd.components_.T, dtype=np.float32)

    def _margins(self, X: Any) -> NDArray[np.float32]:
        k = min(self.n_nearest, len(self.anchors_))
        z = anchor_weights(X, self.directions_, self.anchors_, self.bandwidth_, k)
        return np.asarray(z @ self.weights_ - self.offsets_, dtype=np.float32)


def anchor_weights(
    X: Any, directions: NDArray[np.float32], anchors: NDArray[np.float32], bandwidth: NDArray[np.float32], k: int
) -> Any:
    """Compute Z: the Gaussian weights of rows on their k nearest anchors, (rows, anchors), sparse."""

    def weigh(rows: Any) -> Any:
        distances = squared_distances(_latent(rows, directions), anchors)
        nearest = np.sort(np.argsort(distances, axis=1, kind="stable")[:, :k], axis=1)
        chosen = np.take_along_axis(distances, nearest, axis=1)
        weights = np.exp((chosen.min(axis=1, keepdims=True) - chosen) / bandwidth)
        weights /= weights.sum(axis=1, keepdims=True)
        starts = np.arange(0, nearest.size + 1, k)
        return sparse.csr_array((weights.ravel(), nearest.ravel(), starts), shape=distances.shape)

    starts = range(0, max(X.shape[0], 1), BLOCK_ROWS)
    return sparse.csr_array(sparse.vstack([weigh(X[start : start + BLOCK_ROWS]) for start in starts]))


def _latent(X: Any, directions: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(normalize(rowwise_matmul(X, directions)))


def _eigenfunctions(z: Any, n_bits: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return weights (anchors, bits) and offsets (bits,) of the graph's smoothest functions, trivial ones left out.

    ``z`` has 64 bits: in 32 the largest eigenvalue is not quite 1.
    """
    sums = np.asarray(z.sum(axis=0)).ravel()  # L
    scale = 1 / np.sqrt(np.where(sums > 0, sums, 1))
    small = (z.T @ z).toarray() * np.outer(scale, scale)
    trivial = trivial_eigenvectors(sparse.csr_array(small), 1 / scale, sums)
    values, vectors = np.linalg.eigh(small - DEFLATION * (trivial @ trivial.T).toarray())
    chosen = np.flatnonzero(values > 1e-9)[::-1][:n_bits]
    weights = np.zeros((len(sums), n_bits), dtype=np.float32)
    weights[:, : len(chosen)] = scale[:, None] * without_noise(vectors[:, chosen]) / np.sqrt(values[chosen])
    offsets = np.zeros(n_bits, dtype=np.float32)
    offsets[len(chosen) :] = 1
    return weights, offsets

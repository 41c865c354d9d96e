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

from fewbits.codes import Bits
from fewbits.hashers._linalg import DEFLATION, squared_distances, trivial_eigenvectors, without_noise
from fewbits.hashers.base import Hasher, rowwise_matmul, sample_rows
from fewbits.validation import check_whole_number

MANY_ROWS = 20_000  # whose distances to all anchors are held at one time


class AnchorGraphHashing(Hasher):
    """Smooth functions on a graph in which documents are neighbours by way of a few anchors (AGH, one layer).

    Z (documents, anchors) holds each document's Gaussian weights on its nearest anchors, summing to 1; documents are
    as near as Z L^-1 Z' says, L the anchors' column sums. Its eigenvectors come from a small anchors x anchors
    matrix, and a new document's value on them is its own row of Z times a table, so all documents, training ones
    included, are encoded alike. The constant eigenvector is left out, and so are those that only tell a few documents,
    which share their anchors with no others, from the rest.

    Documents and anchors are compared in a latent semantic space, by direction alone. Among all words nearly all
    documents are equally far from each other: a few anchors near the middle would be everybody's nearest, others one
    document's own, and short codes would be constant.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code. A bit for which the graph has no eigenvector is always 0.
    n_anchors : int, default=500
        Centres of k-means; never fewer than two more than bits, nor more than documents.
    n_nearest : int, default=5
        Anchors that a document has weights on.
    n_dimensions : int, default=128
        Dimensions of the latent semantic space; rows with no more features are taken as they are.
    random_state : int, RandomState instance or None, default=None
        Starts the SVD and k-means.

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
        self.directions_ = self._learn_directions(X, generator)
        latent = self._latent(X)
        count = min(max(self.n_anchors, self.n_bits + 2), X.shape[0])
        means = MiniBatchKMeans(count, n_init=1, batch_size=2048, random_state=generator).fit(latent)
        self.anchors_ = means.cluster_centers_.astype(np.float32)
        sample = sample_rows(latent, MANY_ROWS, generator)
        k = min(self.n_nearest, count)
        distances = np.partition(squared_distances(sample, self.anchors_), k - 1, axis=1)
        furthest = np.sqrt(distances[:, k - 1])
        self.bandwidth_ = furthest.mean(keepdims=True) ** 2 + np.float32(1e-12)
        z = self._weights_on_anchors(X).astype(np.float64)  # Z: in 32 bits the largest eigenvalue is not quite 1
        sums = np.asarray(z.sum(axis=0)).ravel()  # L
        scale = 1 / np.sqrt(np.where(sums > 0, sums, 1))
        small = (z.T @ z).toarray() * np.outer(scale, scale)
        trivial = trivial_eigenvectors(sparse.csr_array(small), 1 / scale, sums)
        values, vectors = np.linalg.eigh(small - DEFLATION * (trivial @ trivial.T).toarray())
        kept = np.flatnonzero(values > 1e-9)[::-1][: self.n_bits]
        self.weights_ = np.zeros((count, self.n_bits), dtype=np.float32)
        self.weights_[:, : len(kept)] = scale[:, None] * without_noise(vectors[:, kept]) / np.sqrt(values[kept])
        self.offsets_ = np.zeros(self.n_bits, dtype=np.float32)
        self.offsets_[len(kept) :] = 1

    def _learn_directions(self, X: Any, generator: np.random.RandomState) -> NDArray[np.float32]:
        if X.shape[1] <= self.n_dimensions:
            return np.eye(X.shape[1], dtype=np.float32)
        svd = TruncatedSVD(min(self.n_dimensions, X.shape[0]), random_state=generator).fit(X)
        return np.ascontiguousarray(svd.components_.T, dtype=np.float32)

    def _latent(self, X: Any) -> NDArray[np.float32]:
        return np.asarray(normalize(rowwise_matmul(X, self.directions_)))

    def _weights_on_anchors(self, X: Any) -> Any:
        blocks = [self._block(X[start : start + MANY_ROWS]) for start in range(0, X.shape[0], MANY_ROWS)]
        return sparse.csr_array(sparse.vstack(blocks)) if blocks else self._block(X)

    def _block(self, X: Any) -> Any:
        distances = squared_distances(self._latent(X), self.anchors_)
        k = min(self.n_nearest, distances.shape[1])
        nearest = np.sort(np.argsort(distances, axis=1, kind="stable")[:, :k], axis=1)
        chosen = np.take_along_axis(distances, nearest, axis=1)
        weights = np.exp((chosen.min(axis=1, keepdims=True) - chosen) / self.bandwidth_)
        weights /= weights.sum(axis=1, keepdims=True)
        starts = np.arange(0, nearest.size + 1, k)
        return sparse.csr_array((weights.ravel(), nearest.ravel(), starts), shape=distances.shape)

    def _encode(self, X: Any) -> Bits:
        return (self._weights_on_anchors(X) @ self.weights_ >= self.offsets_).astype(np.uint8)

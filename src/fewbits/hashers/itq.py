"""Iterative quantisation on a truncated SVD."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.utils import check_random_state

from fewbits.errors import ParameterError
from fewbits.hashers.base import LinearHasher


class ITQ(LinearHasher):
    """Rotate the leading singular directions so that their signs lose as little as possible.

    Rows are projected on ``n_bits`` singular vectors and centred; a rotation is learnt by turns: signs for the
    rotation, then the rotation for the signs (orthogonal Procrustes). Where the features have fewer dimensions
    than the code has bits, the rotation becomes a map with orthonormal rows into ``n_bits`` dimensions.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code.
    n_iterations : int, default=50
        Turns of signs and rotation.
    random_state : int, RandomState instance or None, default=None
        Starts the SVD and the rotation.

    References
    ----------
    Y. Gong, S. Lazebnik, A. Gordo, F. Perronnin. Iterative quantization: a Procrustean approach to learning
    binary codes for large-scale image retrieval. TPAMI 2013.

    Examples
    --------
    >>> codes = ITQ(n_bits=2, random_state=0).fit_transform([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
    >>> bool((codes[0] == codes[1]).all() and (codes[2] == codes[3]).all() and (codes[0] != codes[2]).any())
    True
    """

    def __init__(self, n_bits: int = 64, *, n_iterations: int = 50, random_state: Any = None) -> None:
        super().__init__(n_bits, random_state=random_state)
        self.n_iterations = n_iterations

    def _fit(self, X: Any, y: Any) -> None:
        if not isinstance(self.n_iterations, int) or self.n_iterations < 0:
            raise ParameterError("n_iterations is out of range", allowed="0 or more", got=repr(self.n_iterations))
        generator = check_random_state(self.random_state)
        directions = _singular_directions(X, self.n_bits, generator)  # (features, r), r <= n_bits
        projected = np.asarray(X @ directions, dtype=np.float64)  # (rows, r)
        mean = projected.mean(axis=0)
        rotation = _learn_rotation(projected - mean, self.n_bits, self.n_iterations, generator)  # (r, n_bits)
        self.weights_ = (directions @ rotation).astype(np.float32)
        self.offsets_ = (mean @ rotation).astype(np.float32)


def _singular_directions(X: Any, n_bits: int, generator: np.random.RandomState) -> NDArray[np.float64]:
    rank = min(n_bits, *X.shape)
    if rank == X.shape[1]:  # nothing to leave out
        return np.eye(rank)
    svd = TruncatedSVD(n_components=rank, n_iter=7, random_state=generator).fit(X)
    return svd.components_.T.astype(np.float64)


def _learn_rotation(
    centred: NDArray[np.float64], n_bits: int, n_iterations: int, generator: np.random.RandomState
) -> NDArray[np.float64]:
    """Alternate signs B = sgn(VR) and the R nearest to mapping V on B."""
    start = generator.standard_normal((n_bits, n_bits))
    rotation = np.linalg.qr(start)[0][: centred.shape[1]]  # (r, n_bits), orthonormal rows
    for _ in range(n_iterations):
        signs = np.where(centred @ rotation >= 0, 1.0, -1.0)  # B
        left, _, right = np.linalg.svd(centred.T @ signs, full_matrices=False)  # (r, r), (r,), (r, n_bits)
        rotation = left @ right
    return rotation

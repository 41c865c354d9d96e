"""Iterative quantization on principal components."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from fewbits.hashers._linalg import principal_directions, sample_rows
from fewbits.hashers.base import LinearHasher
from fewbits.validation import check_whole_number


class ITQ(LinearHasher):
    """Rotate the leading principal directions to minimise the quantization error of their signs (ITQ).

    Rows are projected onto ``n_bits`` principal directions. Two steps alternate: the signs for the rotation, and the
    rotation for the signs (orthogonal Procrustes). If the features have fewer dimensions than the code has bits, the
    rotation is a map with orthonormal rows into ``n_bits`` dimensions.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code.
    n_iterations : int, default=50
        Iterations of signs and rotation.
    max_rows : int, default=50000
        Largest number of rows to fit the rotation to, a random sample.
    random_state : int, RandomState instance or None, default=None
        Seed of the principal directions and of the rotation.

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

    def __init__(
        self, n_bits: int = 64, *, n_iterations: int = 50, max_rows: int = 50_000, random_state: Any = None
    ) -> None:
        super().__init__(n_bits, random_state=random_state)
        self.n_iterations = n_iterations
        self.max_rows = max_rows

    def _fit(self, X: Any, y: Any) -> None:
        check_whole_number("n_iterations", self.n_iterations, 0)
        generator = check_random_state(self.random_state)
        directions, mean, _ = principal_directions(X, self.n_bits, generator)  # (features, r), (r,), r <= n_bits
        sample = sample_rows(X, self.max_rows, generator)
        centred = np.asarray(sample @ directions - mean, dtype=np.float64)  # (rows, r)
        rotation = fit_rotation(centred, self.n_bits, self.n_iterations, generator)  # (r, n_bits)
        self.weights_ = (directions @ rotation).astype(np.float32)
        self.offsets_ = (mean @ rotation).astype(np.float32)


def fit_rotation(
    centred: NDArray[np.float64], n_bits: int, n_iterations: int, generator: np.random.RandomState
) -> NDArray[np.float64]:
    """Alternate between the signs B = sgn(VR) and the rotation R that minimises |B - VR|."""
    start = generator.standard_normal((n_bits, n_bits))
    rotation = np.linalg.qr(start)[0][: centred.shape[1]]  # (r, n_bits), orthonormal rows
    for _ in range(n_iterations):
        signs = np.where(centred @ rotation >= 0, 1.0, -1.0)  # B
        left, _, right = np.linalg.svd(centred.T @ signs, full_matrices=False)  # (r, r), (r,), (r, n_bits)
        rotation = left @ right
    return rotation

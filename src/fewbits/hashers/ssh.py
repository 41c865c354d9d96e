"""Semi-supervised hashing: directions that fit a few labels and spread all documents."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from fewbits.data.labels import labelled_sample, pair_signs
from fewbits.hashers._linalg import principal_directions
from fewbits.hashers.base import LinearHasher, rowwise_matmul


class SemiSupervisedHashing(LinearHasher):
    """Cut along the leading eigenvectors of label similarity plus eta times the variance of all documents (SSH).

    With L the labelled sample and Z all documents, both centred and reduced to their principal directions, the
    hyperplanes are the leading eigenvectors of L'SL / a + eta Z'Z / b. S is 1 / s for each of the s similar pairs and
    -1 / d for each of the d dissimilar ones, so that both kinds have equal total weight; a document forms no pair with
    itself. a and b are the sums of the absolute eigenvalues of the two matrices, so that eta means the same for all
    data. Unlabelled documents contribute to Z.

    All pairs of the labelled sample are compared, so at most ``n_labelled`` labels are used.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code.
    n_labelled : int, default=2000
        Largest number of labelled documents to use, a random sample.
    eta : float, default=0.1
        Weight of the variance.
    n_directions : int, default=256
        Principal directions to reduce to first; at least the number of bits.
    random_state : int, RandomState instance or None, default=None
        Seed of the labelled sample and of the SVD.

    References
    ----------
    J. Wang, S. Kumar, S. Chang. Semi-supervised hashing for large-scale search. TPAMI 2012.
    """

    needs_labels = True

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_labelled: int = 2000,
        eta: float = 0.1,
        n_directions: int = 256,
        random_state: Any = None,
    ) -> None:
        super().__init__(n_bits, random_state=random_state)
        self.n_labelled = n_labelled
        self.eta = eta
        self.n_directions = n_directions

    def _fit(self, X: Any, y: Any) -> None:
        generator = check_random_state(self.random_state)
        chosen, labels = labelled_sample(y, X.shape[0], self.n_labelled, generator)
        directions, mean, variances = principal_directions(X, max(self.n_directions, self.n_bits), generator)
        sample = (rowwise_matmul(X[chosen], directions) - mean).astype(np.float64)  # L
        signs = pair_signs(labels).astype(np.float64)
        np.fill_diagonal(signs, 0)
        for kind in (signs > 0, signs < 0):
            signs[kind] /= max(int(kind.sum()), 1)
        adjusted = _scaled(sample.T @ signs @ sample) + self.eta * _scaled(np.diag(variances))  # Z'Z is diagonal
        _, vectors = np.linalg.eigh(adjusted)
        rank = len(vectors)
        planes = np.zeros((rank, self.n_bits))
        planes[:, : min(rank, self.n_bits)] = vectors[:, ::-1][
            :, : self.n_bits
        ]  # zeros if features are fewer than bits
        offsets = (mean @ planes).astype(np.float32)
        offsets[rank:] = 1  # a bit without a direction is always 0
        self.weights_, self.offsets_ = np.ascontiguousarray(directions @ planes, dtype=np.float32), offsets


def _scaled(matrix: Any) -> Any:
    """Divide a symmetric matrix by the sum of its absolute eigenvalues."""
    size = float(np.abs(np.linalg.eigvalsh(matrix)).sum())
    return matrix / size if size else matrix

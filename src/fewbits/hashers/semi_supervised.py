"""Semi-supervised hashing: directions that fit a few labels and spread all documents."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Tags, check_random_state

from fewbits.hashers.base import LinearHasher, row_by_row
from fewbits.hashers.reduction import principal_directions
from fewbits.hashers.similarity import labelled_sample, similarity_signs


class SemiSupervisedHashing(LinearHasher):
    """Leading eigenvectors of the labelled documents' similarity plus eta times the variance of all (SSH).

    With L the labelled sample, S who belongs with whom in it (1 or -1) and Z all documents, both centred and reduced to
    their principal directions, the planes are the leading eigenvectors of L'SL / |L|^2 + eta Z'Z / |Z|, each kind
    scaled by its own trace so that eta means the same for all data. Both kinds of pairs count alike. Unlabelled
    documents take part in the variance.

    Compares all pairs of the labelled sample, so it looks at ``n_labelled`` labels however many there are.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code.
    n_labelled : int, default=2000
        Labelled documents whose labels are looked at, a random choice.
    eta : float, default=0.1
        Weight of the variance.
    n_directions : int, default=256
        Principal directions to reduce to first; never fewer than bits.
    random_state : int, RandomState instance or None, default=None
        Chooses the labelled documents and starts the SVD.

    References
    ----------
    J. Wang, S. Kumar, S. Chang. Semi-supervised hashing for large-scale search. TPAMI 2012.
    """

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
        directions, mean = principal_directions(X, max(self.n_directions, self.n_bits), generator)
        reduced = (row_by_row(X, directions) - mean).astype(np.float64)  # Z
        sample = reduced[chosen]  # L
        signs = similarity_signs(labels).astype(np.float64)
        for kind in (signs > 0, signs < 0):
            signs[kind] /= max(int(kind.sum()), 1)
        adjusted = _scaled(sample.T @ signs @ sample) + self.eta * _scaled(reduced.T @ reduced)
        _, vectors = np.linalg.eigh(adjusted)
        rank = len(vectors)
        planes = np.zeros((rank, self.n_bits))
        planes[:, : min(rank, self.n_bits)] = vectors[:, ::-1][:, : self.n_bits]  # fewer features than bits: zeros
        self.weights_ = np.ascontiguousarray(directions @ planes, dtype=np.float32)
        self.offsets_ = (mean @ planes).astype(np.float32)
        self.offsets_[rank:] = 1  # a bit without a direction is always 0

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _scaled(matrix: Any) -> Any:
    size = float(np.abs(np.linalg.eigvalsh(matrix)).sum())
    return matrix / size if size else matrix

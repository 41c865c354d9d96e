"""Locality-sensitive hashing by random hyperplanes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from fewbits.hashers.base import LinearHasher


class RandomHyperplanes(LinearHasher):
    """Cut by random hyperplanes through the mean of the training rows (LSH).

    The share of differing bits estimates the angle between two centred rows. Centring matters: tf-idf rows have no
    negative values, so hyperplanes through the origin would leave most bits nearly constant.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code.
    random_state : int, RandomState instance or None, default=None
        Seed of the hyperplanes.

    References
    ----------
    M. Charikar. Similarity estimation techniques from rounding algorithms. STOC 2002.

    Examples
    --------
    >>> RandomHyperplanes(n_bits=4, random_state=0).fit_transform([[1.0, 0.0], [0.0, 1.0]]).sum(axis=0)
    array([1, 1, 1, 1], dtype=uint64)
    """

    def _fit(self, X: Any, y: Any) -> None:
        generator = check_random_state(self.random_state)
        self.weights_ = generator.standard_normal((X.shape[1], self.n_bits)).astype(np.float32)
        mean = np.asarray(X.mean(axis=0)).ravel()  # (features,)
        self.offsets_ = (mean @ self.weights_).astype(np.float32)

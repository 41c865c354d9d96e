"""Spectral hashing: the smoothest sinusoids along the principal directions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from fewbits.codes import Bits
from fewbits.hashers._linalg import principal_directions
from fewbits.hashers.base import Hasher, rowwise_matmul


class SpectralHashing(Hasher):
    """Cut the principal directions by the analytic eigenfunctions of a uniform distribution (SpH).

    Rows are projected on ``n_bits`` principal directions. Were they uniform in the box of the training rows' ranges,
    the smoothest functions on them would be cosines of one direction each, and mode m of a direction with range r has
    eigenvalue 1 - exp(-(pi m / r)^2 / 2): a wide direction gives several bits. The bits are the signs of the ``n_bits``
    cosines with the smallest eigenvalues above 0. A value outside of the training range counts as the end of it. The
    directions come from a sparse SVD, so nothing of size features x features is made.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code.
    random_state : int, RandomState instance or None, default=None
        Starts the SVD.

    Attributes
    ----------
    directions_ : array of shape (features, directions)
    low_, high_ : arrays of shape (directions,)
        Range of the training rows along each direction.
    modes_ : array of shape (n_bits, 2)
        Direction of each bit, and how many half waves its cosine makes over the range.

    References
    ----------
    Y. Weiss, A. Torralba, R. Fergus. Spectral hashing. NeurIPS 2008.
    """

    fitted_arrays = ("directions", "low", "high", "modes")
    directions_: NDArray[np.float32]
    low_: NDArray[np.float32]
    high_: NDArray[np.float32]
    modes_: NDArray[np.int64]

    def _fit(self, X: Any, y: Any) -> None:
        directions, _, _ = principal_directions(X, self.n_bits, check_random_state(self.random_state))
        self.directions_ = directions
        projected = rowwise_matmul(X, self.directions_)
        self.low_, self.high_ = projected.min(axis=0), projected.max(axis=0)
        self.modes_ = smoothest_modes(self.high_ - self.low_, self.n_bits)

    def _encode(self, X: Any) -> Bits:
        projected = np.clip(rowwise_matmul(X, self.directions_), self.low_, self.high_)
        width = np.where(self.high_ > self.low_, self.high_ - self.low_, 1)
        place = (projected - self.low_) / width  # 0 to 1 in the range
        direction, waves = self.modes_.T
        return (np.cos(np.pi * waves * place[:, direction]) >= 0).astype(np.uint8)


def smoothest_modes(ranges: NDArray[Any], count: int) -> NDArray[np.int64]:
    """The (direction, half waves) of the smallest eigenvalues, which grow with waves / range."""
    waves = np.arange(1, count + 1)  # no direction gives more than all of them
    width = np.maximum(np.asarray(ranges, dtype=float), np.finfo(np.float32).tiny)
    frequency = waves[None, :] / width[:, None]  # (directions, count)
    order = np.argsort(frequency, axis=None, kind="stable")[:count]
    direction, wave = np.unravel_index(order, frequency.shape)
    return np.stack([direction, waves[wave]], axis=1)

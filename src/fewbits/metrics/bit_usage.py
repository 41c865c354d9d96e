"""How well the bits themselves are used, without any label."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import entropy

from fewbits.codes import pack


def bit_balance(codes: ArrayLike) -> NDArray[np.float64]:
    """Share of documents in which each bit is 1; a good bit is near one half.

    >>> bit_balance([[0, 1], [1, 1]]).tolist()
    [0.5, 1.0]
    """
    return np.asarray(codes, dtype=float).mean(axis=0)


def bit_entropy(codes: ArrayLike) -> NDArray[np.float64]:
    """Entropy of each bit by itself, in bits: 1 where it is balanced, 0 where it is constant.

    >>> bit_entropy([[0, 1], [1, 1]]).tolist()
    [1.0, 0.0]
    """
    share = bit_balance(codes)
    return np.asarray(entropy(np.stack([share, 1 - share]), base=2))


def distinct_share(codes: ArrayLike) -> float:
    """Distinct codes per document.

    >>> distinct_share([[0, 1], [1, 1], [0, 1], [0, 1]])
    0.5
    """
    packed = pack(codes)
    return len(np.unique(packed, axis=0)) / len(packed)

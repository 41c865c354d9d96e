"""How well the bits of codes are used, measured without labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import entropy

from fewbits.codes import pack


def bit_balance(codes: ArrayLike) -> NDArray[np.float64]:
    """Return the fraction of documents in which each bit is 1; a good bit is close to one half.

    >>> bit_balance([[0, 1], [1, 1]]).tolist()
    [0.5, 1.0]
    """
    return np.asarray(codes, dtype=float).mean(axis=0)


def bit_entropy(codes: ArrayLike) -> NDArray[np.float64]:
    """Return the entropy of each bit, in bits: 1 if it is balanced, 0 if it is constant.

    >>> bit_entropy([[0, 1], [1, 1]]).tolist()
    [1.0, 0.0]
    """
    balance = bit_balance(codes)
    return np.asarray(entropy(np.stack([balance, 1 - balance]), base=2))


def unique_code_ratio(codes: ArrayLike) -> float:
    """Return the number of distinct codes divided by the number of documents.

    >>> unique_code_ratio([[0, 1], [1, 1], [0, 1], [0, 1]])
    0.5
    """
    packed = pack(codes)
    return len(np.unique(packed, axis=0)) / len(packed)


distinct_share = unique_code_ratio  # the former name

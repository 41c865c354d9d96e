"""Hamming distance where each bit has a weight: asymmetric, because only the query's bits are weighed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewbits.codes import Packed
from fewbits.errors import DataError

BLOCK = 1 << 16  # codes whose sums stay in the processor's cache
BITS_OF_A_BYTE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)  # (256, 8)


def weighted_distances(
    query: Packed, database: Packed, weights: NDArray[np.float32], n_bits: int
) -> NDArray[np.float32]:
    """For every code of the database, the weights of the bits in which it differs from one query, summed.

    For each two bytes of a code the sum is looked up in a table of all 65,536 that there may be.
    """
    if len(weights) != n_bits or len(query) != 1:
        raise DataError("every bit of one query has a weight", allowed=f"{n_bits}", got=len(weights))
    filled = np.zeros(-(-n_bits // 16) * 16, dtype=np.float32)
    filled[:n_bits] = weights
    codes, first = (np.pad(rows, ((0, 0), (0, rows.shape[1] % 2))).view(">u2") for rows in (database, query))
    tables = [_sums(part) for part in filled.reshape(-1, 16)]  # the pattern of differing bits is the place
    result = np.empty(len(codes), dtype=np.float32)
    for start in range(0, len(codes), BLOCK):
        differing = codes[start : start + BLOCK] ^ first
        part = result[start : start + BLOCK]
        part[:] = tables[0].take(differing[:, 0])
        for column, table in enumerate(tables[1:], 1):
            part += table.take(differing[:, column])
    return result


def smallest(values: NDArray[Any], k: int) -> NDArray[np.int64]:
    """Rows of the k smallest values, smallest first, earlier rows first among equals."""
    if k >= len(values):
        return np.argsort(values, kind="stable")
    limit = np.partition(values, k - 1)[k - 1]
    below = np.flatnonzero(values < limit)
    chosen = np.concatenate([below, np.flatnonzero(values == limit)[: k - len(below)]])
    return chosen[np.lexsort((chosen, values[chosen]))]


def _sums(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sums of all 2**16 choices of 16 weights; the first weight belongs to the highest bit."""
    high, low = (BITS_OF_A_BYTE @ part for part in weights.reshape(2, 8))
    return np.add.outer(high, low).ravel()

"""Checksums of the rows of the SQLite file, and of sets of rows.

A sum over a set of rows changes with every row by what that row adds, so a change costs no more than its own rows. If
one row differs, is missing or is there twice, the sum differs.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewbits.codes import Packed

WORD = 2**64  # sums are taken modulo this
# Odd numbers with about as many ones as zeros: multiplying by one of them loses nothing and spreads each bit.
KEY, POSITION, STEP = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def rows_sum(keys: Iterable[Any], positions: Sequence[int] | NDArray[np.int64]) -> int:
    """Sum up rows of a value and a position."""
    factors = np.fromiter((_factor(_as_text(key)) for key in keys), dtype=np.uint64, count=len(positions))
    return int((factors * _position_factors(positions)).sum(dtype=np.uint64))


def codes_sum(positions: Sequence[int] | NDArray[np.int64], codes: Packed) -> int:
    """Sum up rows of a position and a code."""
    padded = np.zeros((len(codes), -(-codes.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : codes.shape[1]] = codes
    rows = _position_factors(positions)
    for column in padded.view("<u8").T:
        rows = (rows ^ (rows >> np.uint64(29)) ^ column) * np.uint64(STEP)
    return int((rows ^ (rows >> np.uint64(32))).sum(dtype=np.uint64))


def total(*sums: int) -> int:
    """Add sums, in the signed form in which SQLite stores them.

    >>> total(2**64 - 1, -1), total(2**63)
    (-2, -9223372036854775808)
    """
    value = sum(sums) % WORD
    return value - WORD if value >= WORD // 2 else value


def _position_factors(positions: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a different odd number per position."""
    factors: NDArray[np.uint64] = np.asarray(positions, dtype=np.int64).astype(np.uint64)
    return factors * np.uint64(2 * POSITION % WORD) + np.uint64(1)


def _as_text(key: Any) -> str:
    return repr(key + 0.0 if isinstance(key, float) else key)  # SQLite has no negative zero


@lru_cache(maxsize=1 << 16)
def _factor(key: str) -> int:
    """Return an odd number that depends on a value."""
    return (2 * KEY * zlib.crc32(key.encode("utf-8", "surrogatepass")) + 1) % WORD

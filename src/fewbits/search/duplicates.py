"""Documents that say the same in nearly the same words: near by their codes, and nearly equal by their words.

Codes say what documents are about, and many are about the same. So codes choose who is compared, and words decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fewbits.codes import Packed
from fewbits.errors import ParameterError
from fewbits.index.multi_index import Groups, near_groups
from fewbits.search.rerank import TermVectors
from fewbits.search.store.documents import Positions

ROUNDING = 1e-5  # of a cosine in 32 bits
PAIRS = 1 << 20  # compared at one time
MOST_PARTS = 8  # of a code; from that radius on all are compared that share a rare word


def check_alike(alike: float) -> float:
    """The least cosine of the words of near-duplicates; 0 where codes alone decide."""
    if isinstance(alike, bool) or not isinstance(alike, (int, float)) or not 0 <= alike <= 1:
        raise ParameterError("alike, the least cosine of the words, is out of range", allowed="0 to 1", got=repr(alike))
    return float(alike)


def duplicate_groups(
    positions: Positions, codes: Packed, n_bits: int, words: TermVectors | None, radius: int, alike: float
) -> list[Positions]:
    """Groups of two documents or more, each in order of insertion, that a chain of near-duplicates connects."""
    groups = near_groups(codes, n_bits, radius)
    if words is not None and alike:
        crowded = np.flatnonzero(np.bincount(groups)[groups] > 1) if len(groups) else groups
        rows = _rows(words, positions[crowded])
        groups = np.arange(len(groups))
        groups[crowded] = crowded[_first_of(_alike_groups(rows, codes[crowded], n_bits, radius, alike - ROUNDING))]
    order = np.argsort(groups, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
    return [positions[rows] for rows in members if len(rows) > 1]


def _rows(words: TermVectors, positions: Positions) -> Any:
    """Words of documents as sparse rows."""
    owners, columns, weights = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    for places, found, values, counts in words.parts(positions):
        owners.append(np.repeat(places, counts))
        columns.append(found.astype(np.int64))
        weights.append(values)
    width = max(int(part.max(initial=0)) for part in columns) + 1
    cells = (np.concatenate(owners), np.concatenate(columns))
    return sparse.csr_array((np.concatenate(weights), cells), shape=(len(positions), width))


def _alike_groups(rows: Any, codes: Packed, n_bits: int, radius: int, least: float) -> Groups:
    """Groups of rows that pairs with at least such a cosine, whose codes are near, connect."""
    found = [np.zeros((2, 0), np.int64)]
    for left, right in _candidates(rows, codes, n_bits, radius, least):
        near = np.bitwise_count(codes[left] ^ codes[right]).sum(axis=1) <= radius
        left, right = left[near], right[near]
        cosines = np.asarray(rows[left].multiply(rows[right]).sum(axis=1)).ravel()
        found.append(np.stack([left, right])[:, cosines >= least])
    left, right = np.concatenate(found, axis=1)
    graph = sparse.coo_array((np.ones(len(left), bool), (left, right)), shape=(rows.shape[0], rows.shape[0]))
    groups: Groups = connected_components(graph, directed=False)[1]
    return groups


def _candidates(
    rows: Any, codes: Packed, n_bits: int, radius: int, least: float
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Pairs among which are all that have at least such a cosine and codes that near.

    Such a pair shares a word that is among the rarest of both. And of radius + 1 parts of a code, however it is
    divided, they agree in one. So for each part only rows are compared that share such a word and agree in the part.
    """
    owners, words = _rarest(rows, least)
    bits = np.unpackbits(codes, axis=1, count=n_bits)
    parts = (
        np.array_split(np.arange(n_bits), max(radius + 1, -(-n_bits // 62))) if radius < MOST_PARTS else [np.arange(0)]
    )
    for part in parts:
        _, key = np.unique(bits[:, part] @ (1 << np.arange(len(part))), return_inverse=True)
        shared, column = np.unique(words * (len(codes) + 1) + key[owners], return_inverse=True)
        has = sparse.csr_array((np.ones(len(owners), np.int8), (owners, column)), (len(codes), len(shared)))
        crowd = np.bincount(column, minlength=len(shared))
        pairs_of_row = np.bincount(owners, weights=crowd[column], minlength=len(codes))  # at most
        having = sparse.csr_array(has.T)
        start = 0
        for end in (np.flatnonzero(np.diff(np.cumsum(pairs_of_row) // PAIRS, append=-1)) + 1).tolist():
            together = (has[start:end] @ having).tocoo()
            left, right = together.row.astype(np.int64) + start, together.col.astype(np.int64)
            yield left[left < right], right[left < right]
            start = end


def _rarest(rows: Any, least: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rarest words of each row, so many that those left are too short for such a cosine: rows, and words.

    Rows whose cosine is so large share words; the rarest of these is among the rarest of both, or all that they share
    would be too short.
    """
    counts = np.bincount(rows.indices, minlength=rows.shape[1])
    owners = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    order = np.lexsort((rows.indices, -counts[rows.indices], owners))  # of each row the most frequent first
    sums = np.cumsum(rows.data[order].astype(np.float64) ** 2)
    before_row = np.concatenate([[0.0], sums])[rows.indptr[:-1]]
    kept = sums - before_row[owners] >= least**2  # the words up to this one are long enough
    return owners[kept], rows.indices[order[kept]].astype(np.int64)


def _first_of(groups: Groups) -> NDArray[np.int64]:
    """For each member the first member of its group."""
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    return first[inverse.ravel()]

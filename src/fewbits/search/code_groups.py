"""Near-duplicates by their codes: documents with near codes and nearly equal tf-idf rows.

Codes select the candidates, because comparing codes is cheap; but documents on one topic also have near codes, so the
cosine of the tf-idf rows decides. Pairs are found by prefix filtering.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fewbits.codes import Packed, differing_bits, unpack
from fewbits.index import Index
from fewbits.index.multi_index import Groups
from fewbits.search.explain import TermVectors
from fewbits.search.near_duplicates import check_min_similarity
from fewbits.search.store.reader import Positions

ROUNDING = 1e-5  # of a cosine in 32 bits
PAIRS = 1 << 20  # compared at a time
MAX_PARTS = 8  # of a code; at larger radii prefix filtering alone selects the pairs


def duplicate_groups(index: Index, vectors: TermVectors | None, radius: int, min_similarity: float) -> list[Positions]:
    """Return groups of two or more documents that are connected by near-duplicates, in order of insertion.

    Without term vectors codes alone decide.
    """
    check_min_similarity(min_similarity)
    positions, codes = index.arrays()
    groups = index.near_groups(radius)
    if vectors is not None and min_similarity:
        candidates = np.flatnonzero(np.bincount(groups)[groups] > 1) if len(groups) else groups
        rows = vectors.rows(positions[candidates])
        similar = _similar_groups(rows, codes[candidates], index.n_bits, radius, min_similarity - ROUNDING)
        groups = np.arange(len(groups))
        groups[candidates] = candidates[_first_of(similar)]
    order = np.argsort(groups, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
    return [positions[rows] for rows in members if len(rows) > 1]


def _similar_groups(rows: Any, codes: Packed, n_bits: int, radius: int, least: float) -> Groups:
    """Return a group number per row; rows are connected by pairs with near codes and a cosine of at least ``least``."""
    found = [np.zeros((2, 0), np.int64)]
    for left, right in _candidates(rows, codes, n_bits, radius, least):
        near = differing_bits(codes[left], codes[right]) <= radius
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
    """Yield pairs of rows, including all with near codes and a cosine of at least ``least``.

    By prefix filtering such a pair shares a word of both prefixes, the rarest words of a row. By the pigeonhole
    principle their codes agree in one of radius + 1 parts. So for each part only rows are compared that share a word of
    their prefixes and agree in the part.
    """
    owners, words = _prefixes(rows, least)
    bits = unpack(codes, n_bits)
    parts = (
        np.array_split(np.arange(n_bits), max(radius + 1, -(-n_bits // 62))) if radius < MAX_PARTS else [np.arange(0)]
    )
    for part in parts:
        _, key = np.unique(bits[:, part] @ (1 << np.arange(len(part))), return_inverse=True)
        shared, column = np.unique(words * (len(codes) + 1) + key[owners], return_inverse=True)
        table = sparse.csr_array((np.ones(len(owners), np.int8), (owners, column)), (len(codes), len(shared)))
        rows_per_key = np.bincount(column, minlength=len(shared))
        pairs_of_row = np.bincount(owners, weights=rows_per_key[column], minlength=len(codes))  # at most
        transposed = sparse.csr_array(table.T)
        start = 0
        for end in (np.flatnonzero(np.diff(np.cumsum(pairs_of_row) // PAIRS, append=-1)) + 1).tolist():
            pairs = (table[start:end] @ transposed).tocoo()
            left, right = pairs.row.astype(np.int64) + start, pairs.col.astype(np.int64)
            yield left[left < right], right[left < right]
            start = end


def _prefixes(rows: Any, least: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the prefix of each row, as rows and words: its rarest words.

    The other words of a row are together too short a vector for a cosine of ``least``, so rows with such a cosine share
    a word of their prefixes.
    """
    counts = np.bincount(rows.indices, minlength=rows.shape[1])
    owners = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    order = np.lexsort((rows.indices, -counts[rows.indices], owners))  # within a row the most frequent word first
    sums = np.cumsum(rows.data[order].astype(np.float64) ** 2)
    before_row = np.concatenate([[0.0], sums])[rows.indptr[:-1]]
    kept = sums - before_row[owners] >= least**2  # the words up to this one may reach the cosine
    return owners[kept], rows.indices[order[kept]].astype(np.int64)


def _first_of(groups: Groups) -> NDArray[np.int64]:
    """Return for each member the first member of its group."""
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    return first[inverse.ravel()]

"""Groups of codes within a Hamming radius, by the pigeonhole scheme of multi-index hashing.

If the bits are divided into m parts, codes that differ in at most r bits agree in m - r parts. So for each choice of
m - r parts the codes are sorted by these, and only codes that agree in them are compared. Equal codes are merged first,
and a bucket whose codes are all in one group is skipped, so dense clusters cost little.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fewbits.codes import Words, as_words, bit_masks, check_packed, differing_bits
from fewbits.validation import check_whole_number

Groups = NDArray[np.int64]

MAX_TABLES = 60  # each sorts all codes
SORT_COST = 32  # cost of sorting a code, in comparisons
MERGE_AFTER = 1 << 20  # pairs found before groups are merged
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplication is invertible


def near_groups(codes: ArrayLike, n_bits: int, radius: int) -> Groups:
    """Return a group number per code, equal for codes connected by steps of at most ``radius`` bits.

    Groups are numbered in order of their first codes.
    """
    packed = check_packed(codes, n_bits)
    check_whole_number("radius, the bits that may differ,", radius, 0, n_bits)
    if not len(packed):
        return np.zeros(0, dtype=np.int64)
    words = as_words(packed)
    _, first, distinct = np.unique(_as_keys(words), return_index=True, return_inverse=True)
    groups = _connect(np.ascontiguousarray(words[first]), n_bits, radius) if radius else np.arange(len(first))
    return _in_order(groups[distinct.ravel()])


def _connect(words: Words, n_bits: int, radius: int) -> Groups:
    groups = np.arange(len(words))
    parts = _divide(words, n_bits, radius)
    for mask in _masks(parts, radius):
        groups = _compare_buckets(words, _keys(words, mask), radius, groups)
    return groups


def _divide(words: Words, n_bits: int, radius: int) -> Words:
    """Divide the bits into the number of parts with the least work, estimated on one table; return their masks."""
    best, least = None, np.inf
    for count in range(radius + 1, n_bits + 1):
        tables = comb(count, radius)
        if tables > MAX_TABLES and best is not None:
            break
        parts = bit_masks(np.arange(n_bits) % count, count)  # neighbouring bits in different parts
        _, sizes = np.unique(_keys(words, next(_masks(parts, radius))), return_counts=True)
        work = tables * (SORT_COST * len(words) + float((sizes.astype(float) ** 2).sum()) / 2)
        if work < least:
            best, least = parts, work
    return np.zeros((1, words.shape[1]), np.uint64) if best is None else best


def _masks(parts: Words, radius: int) -> Iterator[Words]:
    """Yield a mask per choice of parts."""
    for chosen in combinations(range(len(parts)), max(0, len(parts) - radius)):
        yield np.bitwise_or.reduce(parts[list(chosen)], axis=0, initial=0, dtype=np.uint64)


def _keys(words: Words, mask: Words) -> NDArray[np.uint64]:
    """Hash the bits under a mask. Keys of codes longer than a word may collide; the distance check resolves it."""
    keys = words[:, 0] & mask[0]
    for column in range(1, words.shape[1]):
        keys = (keys * _MIX) ^ (keys >> np.uint64(29)) ^ (words[:, column] & mask[column])
    return keys


def _compare_buckets(words: Words, keys: NDArray[np.uint64], radius: int, groups: Groups) -> Groups:
    """Compare codes of equal keys: each with the next, the one after, and so on to the end of the bucket."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    left = np.arange(len(order) - 1)
    found: list[NDArray[np.int64]] = []
    pending = 0
    step = 1
    while len(left := left[left + step < len(order)]):
        left = left[keys[left] == keys[left + step]]  # no other row has an equal key at a larger step
        if not len(left):
            break
        one, other = order[left], order[left + step]
        differ = groups[one] != groups[other]
        one, other = one[differ], other[differ]
        near = differing_bits(words[one], words[other]) <= radius
        found.append(np.stack([one[near], other[near]]))
        pending += int(near.sum())
        if pending > MERGE_AFTER or step & (step - 1) == 0:  # more often at first, when it saves most
            groups, found, pending = _merge(groups, found), [], 0
            left = left[_is_open(keys, groups[order], left)]
        step += 1
    return _merge(groups, found)


def _is_open(keys: NDArray[np.uint64], groups: Groups, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether the bucket of a row has more than one group."""
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    mixed = np.maximum.reduceat(groups, starts) != np.minimum.reduceat(groups, starts)
    return mixed[np.searchsorted(starts, rows, side="right") - 1]


def _merge(groups: Groups, found: list[NDArray[np.int64]]) -> Groups:
    """Merge the groups of pairs."""
    pairs = np.concatenate(found, axis=1) if found else np.zeros((2, 0), np.int64)
    if not pairs.shape[1]:
        return groups
    count = len(groups)
    edges = groups[pairs]
    graph = sparse.coo_array((np.ones(edges.shape[1], np.bool_), (edges[0], edges[1])), shape=(count, count))
    _, joined = connected_components(graph, directed=False)
    return joined.astype(np.int64)[groups]


def _as_keys(words: Words) -> NDArray[np.generic]:
    return words[:, 0] if words.shape[1] == 1 else words.view(f"V{8 * words.shape[1]}")[:, 0]


def _in_order(groups: Groups) -> Groups:
    """Renumber groups in order of their first members."""
    _, first, numbers = np.unique(groups, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[numbers.ravel()]

"""Groups of codes that lie near each other, exactly, without comparing all with all.

Codes that differ in at most r bits agree in m - r of m parts, however the bits are divided. So for each choice of m - r
parts the codes are sorted by those, and only codes that agree in them are compared. Equal codes are one from the start,
and a bucket whose codes are in one group already is left alone: crowds cost little.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fewbits.codes import check_packed
from fewbits.validation import check_whole_number

Words = NDArray[np.uint64]  # (codes, words of 64 bits)
Groups = NDArray[np.int64]

MOST_TABLES = 60  # sorts of all codes
SORTING = 32  # comparisons that sorting one code costs about as much as
JOIN_AFTER = 1 << 20  # pairs found before groups are joined
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying loses nothing


def near_groups(codes: ArrayLike, n_bits: int, radius: int) -> Groups:
    """A number for every code, equal for codes that a chain of steps of at most ``radius`` bits connects.

    Groups are numbered in the order of their first codes.
    """
    packed = check_packed(codes, n_bits)
    check_whole_number("radius, the bits that may differ,", radius, 0, n_bits)
    if not len(packed):
        return np.zeros(0, dtype=np.int64)
    words = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8))).view(np.uint64)
    _, first, distinct = np.unique(_as_keys(words), return_index=True, return_inverse=True)
    groups = _connect(np.ascontiguousarray(words[first]), n_bits, radius) if radius else np.arange(len(first))
    return _in_order(groups[distinct.ravel()])


def _connect(words: Words, n_bits: int, radius: int) -> Groups:
    groups = np.arange(len(words))
    parts = _divide(words, n_bits, radius)
    for mask in _masks(parts, radius):
        groups = _join_buckets(words, _keys(words, mask), radius, groups)
    return groups


def _divide(words: Words, n_bits: int, radius: int) -> Words:
    """Divide the bits into parts, (parts, words): as many as make the least work, by a look at one table."""
    best, least = None, np.inf
    for count in range(radius + 1, n_bits + 1):
        tables = comb(count, radius)
        if tables > MOST_TABLES and best is not None:
            break
        parts = _parts(n_bits, count)
        _, sizes = np.unique(_keys(words, next(_masks(parts, radius))), return_counts=True)
        work = tables * (SORTING * len(words) + float((sizes.astype(float) ** 2).sum()) / 2)
        if work < least:
            best, least = parts, work
    return np.zeros((1, words.shape[1]), np.uint64) if best is None else best


def _parts(n_bits: int, count: int) -> Words:
    """Masks of the parts; neighbouring bits go to different ones."""
    bits = np.zeros((count, -(-n_bits // 64) * 64), dtype=np.uint8)
    bits[np.arange(n_bits) % count, np.arange(n_bits)] = 1
    return np.packbits(bits, axis=1).view(np.uint64)


def _masks(parts: Words, radius: int) -> Iterator[Words]:
    for chosen in combinations(range(len(parts)), max(0, len(parts) - radius)):
        yield np.bitwise_or.reduce(parts[list(chosen)], axis=0, initial=0, dtype=np.uint64)


def _keys(words: Words, mask: Words) -> NDArray[np.uint64]:
    """A number for the bits under a mask; of codes longer than a word, others may have it too, which costs a look."""
    keys = words[:, 0] & mask[0]
    for column in range(1, words.shape[1]):
        keys = (keys * _MIX) ^ (keys >> np.uint64(29)) ^ (words[:, column] & mask[column])
    return keys


def _join_buckets(words: Words, keys: NDArray[np.uint64], radius: int, groups: Groups) -> Groups:
    """Compare codes of equal keys: each with the next one, the one after, and so on to the bucket's end."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    left = np.arange(len(order) - 1)
    found: list[NDArray[np.int64]] = []
    waiting = 0
    step = 1
    while len(left := left[left + step < len(order)]):
        left = left[keys[left] == keys[left + step]]  # the others have no partner at any later step
        if not len(left):
            break
        one, other = order[left], order[left + step]
        apart = groups[one] != groups[other]
        one, other = one[apart], other[apart]
        near = np.bitwise_count(words[one] ^ words[other]).sum(axis=1) <= radius
        found.append(np.stack([one[near], other[near]]))
        waiting += int(near.sum())
        if waiting > JOIN_AFTER or step & (step - 1) == 0:  # often at first, when it saves most
            groups, found, waiting = _join(groups, found), [], 0
            left = left[_is_open(keys, groups[order], left)]
        step += 1
    return _join(groups, found)


def _is_open(keys: NDArray[np.uint64], groups: Groups, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a row's bucket holds more than one group."""
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    mixed = np.maximum.reduceat(groups, starts) != np.minimum.reduceat(groups, starts)
    return mixed[np.searchsorted(starts, rows, side="right") - 1]


def _join(groups: Groups, found: list[NDArray[np.int64]]) -> Groups:
    """Put the groups of found pairs together."""
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
    """Number groups in the order in which they first appear."""
    _, first, numbers = np.unique(groups, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[numbers.ravel()]

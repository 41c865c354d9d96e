"""All pairs of rows with a large cosine, found by their rarest words.

Prefix filtering (R. Bayardo, Y. Ma, R. Srikant. Scaling up all pairs similarity search. WWW 2007) compares rows that
share one of their rarest words. Here two shared words are required among the few rarest that any other row has, which
a pair with a cosine of 0.8 has with high probability, and the frequent words of short texts count in pairs. Sketches
of 64 random hyperplanes (M. Charikar. Similarity estimation techniques from rounding algorithms. STOC 2002) discard
most of what is left; the exact cosine decides. Rows with the same words are compared as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fewbits.search.word_rows import WORD_BITS, WordRows, mix

Rows = NDArray[np.int64]

RAREST = ((1 << 16, 16), (1 << 18, 12))  # for collections up to this size: size of a row's prefix
FEWEST = 8  # such words of more rows, and those of which frequent ones count in pairs
FREQUENT = 2_000  # rows with a word from which it counts in pairs
WORK = 8_000  # rows with a common key per row; the most frequent keys beyond them are ignored
LEAST_WORK = 1 << 26  # of a block
FEW = 4  # keys of a row below which one common key suffices
LARGEST_TABLE = 22  # bits of a key
SKETCH_BITS = 64
DEVIATIONS = 4.5  # by which the differing bits of a sketch may exceed their expectation
LEADERS = 64  # rows of a group that others are compared with
FIRST_BLOCK, LARGEST_BLOCK = 1 << 10, 1 << 16
PRODUCTS = 1 << 21  # of keys at a time
COMPARED = 1 << 14  # pairs whose cosines are computed at a time
ROUNDING = 1e-6


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows, the smaller number first, and their cosines."""

    left: Rows
    right: Rows
    cosine: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.left)

    def at_least(self, cosine: float) -> Pairs:
        """Return the pairs with a larger cosine."""
        return self.take(np.flatnonzero(self.cosine >= cosine - ROUNDING))

    def take(self, places: Rows) -> Pairs:
        """Return some of the pairs."""
        return Pairs(self.left[places], self.right[places], self.cosine[places])


def similar_pairs(rows: WordRows, min_similarity: float) -> tuple[Rows, Pairs]:
    """Return for each row the first with the same words, and the pairs of such first rows with a large cosine.

    If numbers are compared, the rows of a pair have the same. Of more than ``LEADERS`` rows that are all connected,
    others are compared with that many.
    """
    _, first, group = np.unique(rows.fingerprints, return_index=True, return_inverse=True)
    pairs = _join(rows, np.sort(first).astype(np.int64), min_similarity)
    return first[group].astype(np.int64), pairs.take(np.lexsort((pairs.right, pairs.left)))


@dataclass(frozen=True)
class _Keys:
    """The keys of rows, as a table with a one per key, and their sketches."""

    table: Any  # (rows, keys)
    count: Rows  # keys per row
    sketches: NDArray[np.uint64]


def _join(rows: WordRows, distinct: Rows, min_similarity: float) -> Pairs:
    """Compare distinct rows in random order, block by block: with leaders of earlier blocks, then among themselves."""
    keys = _find_keys(rows, distinct)
    order = np.random.default_rng(0).permutation(len(distinct))
    groups = np.arange(len(distinct))
    is_leader = np.zeros(len(distinct), dtype=np.bool_)
    n_leaders = np.zeros(len(distinct), dtype=np.int64)  # by group
    found: list[Pairs] = []
    start, size = 0, FIRST_BLOCK
    while start < len(order):
        block = np.sort(order[start : start + size])
        start, size = start + size, min(2 * size, LARGEST_BLOCK)
        leaders = np.flatnonzero(is_leader)
        near = _compare(rows, distinct, keys, block, leaders, min_similarity)
        full = near.left[n_leaders[groups[near.right]] >= LEADERS]
        rest = np.setdiff1d(block, full)
        near_rest = _compare(rows, distinct, keys, rest, rest, min_similarity)
        found += [near, near_rest]
        left = np.concatenate([near.left, near_rest.left])
        right = np.concatenate([near.right, near_rest.right])
        groups = _merged(groups, left, right)
        is_leader[rest] = True
        n_leaders = np.bincount(groups[is_leader], minlength=len(distinct))
        if (n_leaders > 2 * LEADERS).any():
            is_leader = _fewer(is_leader, groups, order)
            n_leaders = np.bincount(groups[is_leader], minlength=len(distinct))
    found.append(Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32)))
    left, right = (np.concatenate([getattr(pairs, side) for pairs in found]) for side in ("left", "right"))
    cosine = np.concatenate([pairs.cosine for pairs in found])
    return Pairs(distinct[np.minimum(left, right)], distinct[np.maximum(left, right)], cosine)


def _merged(groups: Rows, left: Rows, right: Rows) -> Rows:
    """Merge the groups of pairs."""
    if not len(left):
        return groups
    size = len(groups)
    graph = sparse.coo_array((np.ones(len(left), np.bool_), (groups[left], groups[right])), shape=(size, size))
    merged: Rows = connected_components(graph, directed=False)[1].astype(np.int64)
    return merged[groups]


def _fewer(is_leader: NDArray[np.bool_], groups: Rows, order: Rows) -> NDArray[np.bool_]:
    """Keep the first leaders of each group, in the order in which rows are compared."""
    leaders = order[is_leader[order]]
    of_group = groups[leaders]
    by_group = np.argsort(of_group, kind="stable")
    starts = np.flatnonzero(np.diff(of_group[by_group], prepend=-1))
    place = np.arange(len(leaders)) - np.repeat(starts, np.diff(starts, append=len(leaders)))
    kept = np.zeros(len(is_leader), dtype=np.bool_)
    kept[leaders[by_group[place < LEADERS]]] = True
    return kept


def _compare(rows: WordRows, distinct: Rows, keys: _Keys, left: Rows, right: Rows, min_similarity: float) -> Pairs:
    """Return the pairs of a row of ``left`` and one of ``right`` with a large cosine; within one table each once."""
    is_one = left is right
    angle = np.arccos(min_similarity)
    mean = SKETCH_BITS * angle / np.pi
    most = mean + DEVIATIONS * np.sqrt(mean * (1 - mean / SKETCH_BITS))
    lefts, rights, cosines = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    for one, other in _candidates(keys, left, right):
        if is_one:
            one, other = one[one < other], other[one < other]
        near = np.bitwise_count(keys.sketches[one] ^ keys.sketches[other]) <= most
        one, other = one[near], other[near]
        for start in range(0, len(one), COMPARED):
            pair = one[start : start + COMPARED], other[start : start + COMPARED]
            cosine = _cosines(rows, distinct[pair[0]], distinct[pair[1]])
            large = cosine >= min_similarity - ROUNDING
            lefts.append(pair[0][large])
            rights.append(pair[1][large])
            cosines.append(np.minimum(cosine[large], 1).astype(np.float32))
    return Pairs(np.concatenate(lefts), np.concatenate(rights), np.concatenate(cosines))


def _candidates(keys: _Keys, left: Rows, right: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Yield pairs that share two keys, or one where a row has few."""
    table, other = keys.table[left], keys.table[right]
    frequency = np.bincount(other.indices, minlength=other.shape[1])
    of_left = np.bincount(table.indices, minlength=other.shape[1])
    largest = _largest_frequency(frequency, of_left, max(LEAST_WORK, WORK * len(left)))
    if largest < frequency.max(initial=0):
        other.data[frequency[other.indices] > largest] = 0
        other.eliminate_zeros()
        frequency[frequency > largest] = 0
    products = np.concatenate([[0], np.cumsum(frequency[table.indices])])[table.indptr]
    other = sparse.csr_array(other.T)
    start = 0
    for end in [*(np.flatnonzero(np.diff(products // PRODUCTS)) + 1).tolist(), len(left)]:
        if end == start:
            continue
        shared = table[start:end] @ other
        one = np.repeat(left[start:end], np.diff(shared.indptr))
        two = right[shared.indices]
        enough = np.flatnonzero((shared.data >= 2) | (np.minimum(keys.count[one], keys.count[two]) < FEW))
        yield one[enough], two[enough]
        start = end


def _largest_frequency(frequency: Rows, of_left: Rows, work: int) -> int:
    """Return the frequency of keys up to which comparing the rows of each key takes some work."""
    if np.dot(frequency, of_left) <= work:
        return int(frequency.max(initial=0))
    used = np.flatnonzero((frequency > 0) & (of_left > 0))
    used = used[np.argsort(frequency[used], kind="stable")]
    affordable = int(np.searchsorted(np.cumsum((frequency[used] * of_left[used]).astype(np.float64)), work, "right"))
    return max(LEADERS, int(frequency[used[affordable]]) - 1)


def _cosines(rows: WordRows, left: Rows, right: Rows) -> NDArray[np.float64]:
    """Compute the exact cosines of pairs."""
    needed, places = np.unique(np.concatenate([left, right]), return_inverse=True)
    table = rows.tfidf(needed)
    one, other = table[places[: len(left)]], table[places[len(left) :]]
    return np.asarray(one.multiply(other).sum(axis=1), dtype=np.float64).ravel()


def _find_keys(rows: WordRows, distinct: Rows) -> _Keys:
    """Return the keys of distinct rows: their rarest words, and pairs of those that are frequent."""
    signatures = rows.signatures
    key_bits = min(LARGEST_TABLE, 4 + max(1, len(distinct)).bit_length())
    rarest = next((words for most, words in RAREST if len(distinct) <= most), FEWEST)
    sketches = np.empty(len(distinct), dtype=np.uint64)
    owners, columns = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    first = done = 0
    for starts, entries in rows.blocks():
        end = int(np.searchsorted(distinct, first + len(starts) - 1))
        chosen = distinct[done:end] - first
        owner, words, counts = _select(starts, entries, chosen)
        sketches[done:end] = _sketches(rows, owner, words, counts, len(chosen))
        key_owner, key = _keys_of(rows.frequency[words], owner, words, rarest)
        owners.append((key_owner + done).astype(np.int32))
        mixed = mix(key ^ signatures[distinct[done:end]][key_owner])
        columns.append((mixed >> np.uint64(64 - key_bits)).astype(np.int32))
        first, done = first + len(starts) - 1, end
    owner, column = np.concatenate(owners), np.concatenate(columns)
    table = sparse.csr_array((np.ones(len(owner), np.int8), (owner, column)), (len(distinct), 1 << key_bits))
    return _Keys(table, np.diff(table.indptr), sketches)


def _select(starts: Rows, entries: NDArray[np.void], chosen: Rows) -> tuple[Rows, Any, Any]:
    """Return the entries of some rows of a block: place of the row among the chosen, word and count."""
    lengths = np.diff(starts)
    place = np.full(len(lengths), -1)
    place[chosen] = np.arange(len(chosen))
    owner = np.repeat(place, lengths)
    kept = owner >= 0
    return owner[kept], entries["word"][kept], entries["count"][kept]


def _sketches(rows: WordRows, owner: Rows, words: Any, counts: Any, size: int) -> NDArray[np.uint64]:
    """Return on which side of 64 random hyperplanes the tf-idf rows lie."""
    known, column = np.unique(words, return_inverse=True)
    bits = np.unpackbits(mix(known.astype(np.uint64) + np.uint64(1)).view(np.uint8).reshape(-1, 8), axis=1)
    planes = bits.astype(np.float32) * 2 - 1  # (words, 64)
    weights = (counts * rows.idf(words)).astype(np.float32)
    table = sparse.csr_array((weights, (owner, column)), shape=(size, len(known)))
    sides = np.packbits(table @ planes > 0, axis=1)
    return sides.view(np.uint64).ravel()


def _keys_of(
    frequency: NDArray[np.int32], owner: Rows, words: NDArray[np.uint32], rarest: int
) -> tuple[Rows, NDArray[np.uint64]]:
    """Return the keys of the rows of a block: the row, and a rare word or two frequent ones."""
    shared = frequency > 1  # a word of one row finds no other
    owner, words, frequency = owner[shared], words[shared], frequency[shared]
    order = np.sort(
        (owner.astype(np.uint64) << np.uint64(53))
        | (np.minimum(frequency, (1 << 28) - 1).astype(np.uint64) << np.uint64(WORD_BITS))
        | words.astype(np.uint64)
    )
    owner = (order >> np.uint64(53)).astype(np.int64)
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    rank = np.arange(len(owner)) - np.repeat(starts, np.diff(starts, append=len(owner)))
    kept = rank < rarest
    owner, order, rank = owner[kept], order[kept], rank[kept]
    words64 = order & np.uint64((1 << WORD_BITS) - 1)
    is_frequent = ((order >> np.uint64(WORD_BITS)) & np.uint64((1 << 28) - 1)) > FREQUENT
    owners, keys = [owner[~is_frequent]], [words64[~is_frequent]]
    is_frequent &= rank < FEWEST
    slots = np.zeros((int(owner[-1]) + 1 if len(owner) else 0, FEWEST), dtype=np.uint64)  # frequent words, 0 for none
    slots[owner[is_frequent], rank[is_frequent]] = words64[is_frequent] + np.uint64(1)
    for one, other in combinations(range(FEWEST), 2):
        both = np.flatnonzero((slots[:, one] > 0) & (slots[:, other] > 0))
        low, high = (np.minimum(slots[both, one], slots[both, other]), np.maximum(slots[both, one], slots[both, other]))
        owners.append(both)
        keys.append(mix(low << np.uint64(32) | high))
    return np.concatenate(owners), np.concatenate(keys)

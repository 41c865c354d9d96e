"""The words of many documents at once: most lie in a mapped file, the others are asked from the database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from fewbits.codes import pack
from fewbits.errors import ParameterError
from fewbits.index import FlatIndex, Neighbours
from fewbits.search.encoder import Model
from fewbits.search.store.documents import WORD, Positions, Reader
from fewbits.storage import read_array, write_array
from fewbits.validation import check_whole_number

COLUMNS, WEIGHTS, STARTS = "word_columns.npy", "word_weights.npy", "word_starts.npy"

Counts = NDArray[np.int64]
Part = tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float32], Counts]


class TermVectorFile:
    """Words of the documents that were learnt from, one after the other in files that never change.

    Three thousand documents are read from here in the time that a database takes for a few hundred. They say nothing
    that the database does not: a folder without them is slower, not poorer.
    """

    def __init__(self, starts: NDArray[np.int64], columns: NDArray[Any], weights: NDArray[np.float32]) -> None:
        self._starts = starts  # by position, and one more; a document that is not here has none
        self._columns = columns
        self._weights = weights

    @classmethod
    def write(cls, folder: Path, reader: Reader, n_features: int) -> None:
        """Write three files into a folder."""
        last, total = reader.extent_of_learnt_words()
        counts = np.zeros(last + 2, dtype=np.int64)
        small = np.min_scalar_type(n_features)
        columns = open_memmap(folder / COLUMNS, mode="w+", dtype=small, shape=(total,))
        weights = open_memmap(folder / WEIGHTS, mode="w+", dtype=np.float32, shape=(total,))
        end = 0
        for position, content in reader.learnt_words():
            found = np.frombuffer(content, dtype=WORD)
            columns[end : end + len(found)], weights[end : end + len(found)] = found["column"], found["weight"]
            counts[position + 1] = len(found)
            end += len(found)
        columns.flush()
        weights.flush()
        write_array(folder / STARTS, counts.cumsum())

    @classmethod
    def read(cls, folder: Path) -> TermVectorFile | None:
        """Map what :meth:`write` wrote; None where it is not there."""
        if not (folder / COLUMNS).exists():
            return None
        mapped = (np.asarray(read_array(folder / name, memory_map=True)) for name in (COLUMNS, WEIGHTS))
        return cls(read_array(folder / STARTS), *mapped)

    def holds(self, positions: Positions) -> NDArray[np.bool_]:
        """Which documents may be here; those that were changed since may be too."""
        return positions < len(self._starts) - 1

    def of(self, positions: Positions) -> tuple[NDArray[Any], NDArray[np.float32], Counts]:
        """Columns and weights of documents one after the other, and how many each has."""
        places, counts = self._places(positions)
        return self._columns[places], self._weights[places], counts

    def cosines(self, query: NDArray[np.float32], positions: Positions) -> NDArray[np.float64]:
        """Products of a dense row with documents; of words that the query has not, the weights are not read."""
        places, counts = self._places(positions)
        columns = self._columns[places]
        shared = np.flatnonzero((query != 0)[columns])
        products = query[columns[shared]] * self._weights[places[shared]]
        owners = np.searchsorted(counts.cumsum(), shared, side="right")
        sums: NDArray[np.float64] = np.bincount(owners, weights=products, minlength=len(positions)).astype(np.float64)
        return sums

    def _places(self, positions: Positions) -> tuple[NDArray[np.int64], Counts]:
        first = self._starts[positions]
        counts = self._starts[positions + 1] - first
        ends = counts.cumsum()
        return np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - ends + counts, counts), counts


@dataclass(frozen=True)
class TermVectors:
    """The words of all documents of one state."""

    reader: Reader
    learnt: TermVectorFile | None
    new: Positions  # documents that were added or updated since: what is learnt of them is out of date

    def parts(self, positions: Positions) -> Iterator[Part]:
        """Words in one or two parts: places in the list, columns and weights in a row, and how many each has."""
        is_learnt = self._is_learnt(positions)
        if self.learnt is not None and is_learnt.any():
            yield np.flatnonzero(is_learnt), *self.learnt.of(positions[is_learnt])
        if not is_learnt.all():
            words, counts = self.reader.words(positions[~is_learnt])
            yield np.flatnonzero(~is_learnt), words["column"], words["weight"], counts

    def cosines(self, query: NDArray[np.float32], positions: Positions) -> NDArray[np.float32]:
        """Cosines of a query, a dense row of length 1, with documents."""
        result = np.zeros(len(positions), dtype=np.float32)
        is_learnt = self._is_learnt(positions)
        if self.learnt is not None and is_learnt.any():
            result[is_learnt] = self.learnt.cosines(query, positions[is_learnt])
        if not is_learnt.all():
            words, counts = self.reader.words(positions[~is_learnt])
            owners = np.repeat(np.arange(len(counts)), counts)
            products = query[words["column"]] * words["weight"]
            result[~is_learnt] = np.bincount(owners, weights=products, minlength=len(counts))
        return result

    def _is_learnt(self, positions: Positions) -> NDArray[np.bool_]:
        if self.learnt is None:
            return np.zeros(len(positions), dtype=bool)
        return self.learnt.holds(positions) & ~np.isin(positions, self.new)


Rescoring = Literal["none", "bits", "words"]
SHORTLIST = 3_000  # documents whose words are looked at; docs/known-items.md shows why


@dataclass(frozen=True)
class Ranked:
    """Documents in order, with the bits that differ and a score: the higher, the nearer."""

    positions: Positions
    distances: NDArray[np.int32]
    scores: NDArray[np.float32]

    @classmethod
    def by_distance(cls, answer: Neighbours, n_bits: int) -> Ranked:
        """An answer scored by the share of bits that agree."""
        return cls(answer.ids, answer.distances, (1 - answer.distances / n_bits).astype(np.float32))

    def first(self, k: int, *, without: int | None = None) -> Ranked:
        """The first k, one document left out."""
        kept = np.flatnonzero(self.positions != without)[:k] if without is not None else slice(k)
        return Ranked(self.positions[kept], self.distances[kept], self.scores[kept])


def check_rescoring(wanted: str | None, usual: Rescoring, model: Model) -> Rescoring:
    """The way of rescoring: the usual one unless another is asked for."""
    if wanted is None:
        return usual if model.takes_text else "none"
    for known in get_args(Rescoring):
        if wanted == known and (known != "words" or model.takes_text):
            return known
    allowed = get_args(Rescoring) if model.takes_text else get_args(Rescoring)[:2]
    raise ParameterError("there is no such rescoring", allowed=", ".join(allowed), got=repr(wanted))


def rank(
    words: TermVectors,
    index: FlatIndex,
    model: Model,
    row: Any,
    k: int,
    *,
    rescore: Rescoring,
    shortlist: int | None,
    among: Positions | None,
) -> Ranked:
    """The k nearest documents to a row of features."""
    code = pack(model.hasher.transform(row))
    if rescore == "none":
        [answer] = index.search(code, k, among=among)
        return Ranked.by_distance(answer, index.n_bits)
    if rescore == "bits":
        return _by_certainty(index, code, model, row, k, among)
    length = SHORTLIST if shortlist is None else check_whole_number("shortlist", shortlist, 1)
    candidates = _by_certainty(index, code, model, row, min(max(k, length), len(index)), among)
    return _by_words(words, row, candidates).first(k)


def rank_many(
    words: TermVectors,
    index: FlatIndex,
    model: Model,
    rows: Any,
    k: int,
    *,
    rescore: Rescoring,
    shortlist: int | None,
    among: Positions | None,
) -> list[Ranked]:
    """As :func:`rank` for each of many rows; by bits alone, one scan answers all of them."""
    if rescore == "none":
        answers = index.search(pack(model.hasher.transform(rows)), k, among=among) if rows.shape[0] else []
        return [Ranked.by_distance(answer, index.n_bits) for answer in answers]
    return [
        rank(words, index, model, rows[[place]], k, rescore=rescore, shortlist=shortlist, among=among)
        for place in range(rows.shape[0])
    ]


def _by_certainty(index: FlatIndex, code: Any, model: Model, row: Any, k: int, among: Positions | None) -> Ranked:
    """By the expected number of differing bits: a bit of which the query is not sure counts less."""
    certainty = model.hasher.bit_confidence(row)[0]
    answer = index.weighted(code, certainty, k, among=among)
    assert answer.costs is not None
    return Ranked(answer.ids, answer.distances, 1 - answer.costs / max(float(certainty.sum()), 1e-9))


def _by_words(words: TermVectors, row: Any, candidates: Ranked) -> Ranked:
    """By the cosine of tf-idf rows; documents that share no word with the query keep their order, after the others."""
    if not len(candidates.positions):
        return candidates
    query = np.zeros(row.shape[1], dtype=np.float32)
    query[row.indices] = row.data
    cosines = words.cosines(query, candidates.positions)
    order = np.argsort(-cosines, kind="stable")
    return Ranked(candidates.positions[order], candidates.distances[order], cosines[order])

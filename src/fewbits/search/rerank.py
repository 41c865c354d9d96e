"""Ranking: by codes, by codes weighted by confidence, or by the stored tf-idf rows of a shortlist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict, cast, get_args

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from scipy import sparse

from fewbits.data.document import DocumentId
from fewbits.errors import ParameterError
from fewbits.index import Index, Neighbours
from fewbits.search.encoder import EncodedQueries
from fewbits.search.store.filters import Condition
from fewbits.search.store.reader import TERM, Positions, Reader
from fewbits.storage import read_array, write_array
from fewbits.validation import check_whole_number

COLUMNS, WEIGHTS, STARTS = "word_columns.npy", "word_weights.npy", "word_starts.npy"

Counts = NDArray[np.int64]


class TermVectorFile:
    """The tf-idf rows of the documents of the fit, concatenated in memory-mapped files that never change.

    It is a cache of what the database stores, from which three thousand rows are read in the time that the database
    takes for a few hundred. A folder without it is slower, but complete.
    """

    def __init__(self, starts: NDArray[np.int64], columns: NDArray[Any], weights: NDArray[np.float32]) -> None:
        self._starts = starts  # by position, with the end of the last; equal to the next if a document is not stored
        self._columns = columns
        self._weights = weights

    @classmethod
    def write(cls, folder: Path, reader: Reader, n_features: int) -> None:
        """Write three files into a folder."""
        last, total = reader.size_of_fitted_terms()
        counts = np.zeros(last + 2, dtype=np.int64)
        small = np.min_scalar_type(n_features)
        columns = open_memmap(folder / COLUMNS, mode="w+", dtype=small, shape=(total,))
        weights = open_memmap(folder / WEIGHTS, mode="w+", dtype=np.float32, shape=(total,))
        end = 0
        for position, content in reader.fitted_terms():
            terms = np.frombuffer(content, dtype=TERM)
            columns[end : end + len(terms)], weights[end : end + len(terms)] = terms["column"], terms["weight"]
            counts[position + 1] = len(terms)
            end += len(terms)
        columns.flush()
        weights.flush()
        write_array(folder / STARTS, counts.cumsum())

    @classmethod
    def read(cls, folder: Path) -> TermVectorFile | None:
        """Map what :meth:`write` wrote; None if the files are missing."""
        if not (folder / COLUMNS).exists():
            return None
        mapped = (np.asarray(read_array(folder / name, memory_map=True)) for name in (COLUMNS, WEIGHTS))
        return cls(read_array(folder / STARTS), *mapped)

    def covers(self, positions: Positions) -> NDArray[np.bool_]:
        """Return which positions existed at the fit; the rows of documents changed since are out of date."""
        return positions < len(self._starts) - 1

    def rows(self, positions: Positions) -> tuple[NDArray[Any], NDArray[np.float32], Counts]:
        """Return the columns and weights of documents, concatenated, and their number per document."""
        places, counts = self._places(positions)
        return self._columns[places], self._weights[places], counts

    def cosines(self, query: NDArray[np.float32], positions: Positions) -> NDArray[np.float64]:
        """Multiply a dense row with documents; weights of terms outside the query are not read."""
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
    """The stored tf-idf rows of all documents of one state."""

    reader: Reader
    file: TermVectorFile | None
    new: Positions  # documents added or updated since the fit: their rows in the file are out of date
    n_features: int

    def rows(self, positions: Positions) -> Any:
        """Return tf-idf rows, (documents, features)."""
        in_file = self._in_file(positions)
        owners, columns, weights = [], [], []
        for part, (part_columns, part_weights, counts) in (
            (np.flatnonzero(in_file), self._from_file(positions[in_file])),
            (np.flatnonzero(~in_file), self._from_database(positions[~in_file])),
        ):
            owners.append(np.repeat(part, counts))
            columns.append(part_columns.astype(np.int64))
            weights.append(part_weights)
        cells = (np.concatenate(owners), np.concatenate(columns))
        return sparse.csr_array((np.concatenate(weights), cells), shape=(len(positions), self.n_features))

    def cosines(self, query: NDArray[np.float32], positions: Positions) -> NDArray[np.float32]:
        """Compute the cosines of a query, a dense row of length 1, with documents."""
        result = np.zeros(len(positions), dtype=np.float32)
        in_file = self._in_file(positions)
        if self.file is not None and in_file.any():
            result[in_file] = self.file.cosines(query, positions[in_file])
        if not in_file.all():
            columns, weights, counts = self._from_database(positions[~in_file])
            owners = np.repeat(np.arange(len(counts)), counts)
            result[~in_file] = np.bincount(owners, weights=query[columns] * weights, minlength=len(counts))
        return result

    def _from_file(self, positions: Positions) -> tuple[NDArray[Any], NDArray[np.float32], Counts]:
        if self.file is None or not len(positions):
            return np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, np.int64)
        return self.file.rows(positions)

    def _from_database(self, positions: Positions) -> tuple[NDArray[Any], NDArray[np.float32], Counts]:
        terms, counts = self.reader.terms(positions)
        return terms["column"], terms["weight"], counts

    def _in_file(self, positions: Positions) -> NDArray[np.bool_]:
        if self.file is None:
            return np.zeros(len(positions), dtype=bool)
        return self.file.covers(positions) & ~np.isin(positions, self.new)


Rerank = Literal["none", "bits", "words"]
DEFAULT_HITS = 10
SHORTLIST = 3_000  # candidates reordered by their words; docs/known-items.md shows why


class SearchOptions(TypedDict, total=False):
    """Keyword arguments of a search, see :meth:`fewbits.SearchEngine.search`."""

    labels: Sequence[str]
    where: Sequence[str | Condition]
    among: Sequence[DocumentId] | None
    rerank: str | None
    shortlist: int | None
    rescore: str | None  # the old name of rerank


@dataclass(frozen=True)
class RankOptions:
    """How many documents to return, in which order, and from which."""

    k: int
    rerank: Rerank
    shortlist: int = SHORTLIST
    among: Positions | None = None  # candidates; None for all
    without: int | None = None  # a document to leave out


@dataclass(frozen=True)
class Hit:
    """A document found by a search, the number of bits that differ from the query, and a score: higher is nearer."""

    id: DocumentId
    distance: int
    score: float
    text: str
    labels: tuple[str, ...]
    metadata: dict[str, Any]


@dataclass(frozen=True)
class Ranked:
    """Documents in order, with the number of differing bits and a score; a higher score is nearer."""

    positions: Positions
    distances: NDArray[np.int32]
    scores: NDArray[np.float32]

    @classmethod
    def by_distance(cls, answer: Neighbours, n_bits: int) -> Ranked:
        """Score an answer by the share of bits that agree."""
        return cls(answer.ids, answer.distances, (1 - answer.distances / n_bits).astype(np.float32))

    def first(self, options: RankOptions) -> Ranked:
        """Return the first k, without the document to leave out."""
        k, without = options.k, options.without
        kept = slice(k) if without is None else np.flatnonzero(self.positions != without)[:k]
        return Ranked(self.positions[kept], self.distances[kept], self.scores[kept])


def check_rank_options(
    k: int | None,
    rerank: str | None,
    shortlist: int | None,
    *,
    takes_text: bool,
    available: int,
    among: Positions | None = None,
    without: int | None = None,
) -> RankOptions:
    """Check the options of a search; embeddings have no words and are ranked by distance by default."""
    if k is None:
        k = min(DEFAULT_HITS, available)
    else:
        hint = "Ask for fewer hits, or leave k out." if k != 0 else ""
        k = check_whole_number("k, the number of hits,", k, 1, available, why=", the documents to find", hint=hint)
    allowed = get_args(Rerank) if takes_text else get_args(Rerank)[:2]
    mode = rerank or ("words" if takes_text else "none")
    if mode not in allowed:
        raise ParameterError("rerank is unknown", allowed=", ".join(allowed), got=repr(rerank))
    if shortlist is None or mode != "words":
        shortlist = SHORTLIST
    length = check_whole_number("shortlist", shortlist, 1)
    return RankOptions(k, cast(Rerank, mode), length, among, without)


def rank(queries: EncodedQueries, options: RankOptions, index: Index, vectors: TermVectors) -> list[Ranked]:
    """Find the k nearest documents of each query; without reranking, one scan answers all queries."""
    if not len(queries):
        return []
    k = options.k + (options.without is not None)  # documents with an equal code may come before the one to leave out
    if options.rerank == "none":
        answers = index.search(queries.codes, k, among=options.among)
        return [Ranked.by_distance(answer, index.n_bits).first(options) for answer in answers]
    length = min(max(k, options.shortlist), len(index)) if options.rerank == "words" else k
    ranked = []
    for query in range(len(queries)):
        found = _by_confidence(queries, query, length, index, options.among)
        if options.rerank == "words":
            found = _by_words(queries.rows if len(queries) == 1 else queries.rows[[query]], found, vectors)
        ranked.append(found.first(options))
    return ranked


def read_hits(answers: Sequence[Ranked], reader: Reader) -> list[list[Hit]]:
    """Read the documents of each answer; a document of several answers is read once."""
    rows = reader.rows(sorted({position for ranked in answers for position in ranked.positions.tolist()}))
    return [
        [
            Hit(id, distance, round(score, 4), text, labels, dict(metadata))
            for (id, labels, metadata, text), distance, score in zip(
                (rows[position] for position in ranked.positions.tolist()),
                ranked.distances.tolist(),
                ranked.scores.tolist(),
                strict=True,
            )
        ]
        for ranked in answers
    ]


def _by_confidence(queries: EncodedQueries, query: int, k: int, index: Index, among: Positions | None) -> Ranked:
    """Rank by the expected number of differing bits: each bit counts by the confidence of the query in it."""
    confidence = queries.confidence[query]
    answer = index.search_weighted(queries.codes[[query]], confidence, k, among=among)
    assert answer.costs is not None
    return Ranked(answer.ids, answer.distances, 1 - answer.costs / max(float(confidence.sum()), 1e-9))


def _by_words(row: Any, candidates: Ranked, vectors: TermVectors) -> Ranked:
    """Rank by the cosine of tf-idf rows; documents that share no word with the query keep their order, at the end."""
    if not len(candidates.positions):
        return candidates
    query = np.zeros(row.shape[1], dtype=np.float32)
    query[row.indices] = row.data
    cosines = vectors.cosines(query, candidates.positions)
    order = np.argsort(-cosines, kind="stable")
    return Ranked(candidates.positions[order], candidates.distances[order], cosines[order])

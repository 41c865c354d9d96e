"""Ranking: one score from words and codes, or from one of them.

The score of a hybrid search is ``(lexical + weight * semantic) / (1 + weight)``. The lexical part is the BM25 score
relative to the best hit; the semantic part is the share of agreeing bits, weighted by the query's confidence in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fewbits.codes import differing_bits, unpack
from fewbits.data.document import DocumentId
from fewbits.errors import ParameterError
from fewbits.index import Index, Neighbours
from fewbits.search.encoder import EncodedQueries
from fewbits.search.lexical import LexicalSnapshot, contains
from fewbits.search.queries import ParsedQuery
from fewbits.search.store.filters import Condition
from fewbits.search.store.reader import Positions, Reader
from fewbits.validation import check_whole_number

HYBRID, WORDS, CODES = "hybrid", "words", "codes"
OLD_RANKS = {"none": CODES, "bits": CODES, "words": HYBRID}  # by the value of rerank
DEFAULT_HITS = 10
SEMANTIC_WEIGHT = 0.75  # chosen on Cranfield, CACM and titles of arXiv; .5 to 1 are nearly as good
LEXICAL_DEPTH = 1_000  # candidates by words; of fewer, recall@100 is lower
CODES_DEPTH = 100  # candidates by codes, unless more hits are requested
MIN_SHARE = 0.05  # filters that fewer documents pass are applied before the scan of the codes


@dataclass(frozen=True)
class TermVectors:
    """The stored tf-idf rows of all documents of one state."""

    reader: Reader
    n_features: int

    def rows(self, positions: Positions) -> Any:
        """Return tf-idf rows, (documents, features)."""
        terms, counts = self.reader.terms(positions)
        ends = np.concatenate([[0], counts.cumsum()])
        columns = terms["column"].astype(np.int64)
        return sparse.csr_array((terms["weight"], columns, ends), shape=(len(positions), self.n_features))


class SearchOptions(TypedDict, total=False):
    """Keyword arguments of a search, see :meth:`fewbits.SearchEngine.search`."""

    labels: Sequence[str]
    where: Sequence[str | Condition]
    among: Sequence[DocumentId] | None
    rank: str | None
    weight: float | None
    rerank: str | None  # the former options of ranking
    rescore: str | None
    shortlist: int | None


@dataclass(frozen=True)
class RankOptions:
    """How many documents to return, in which order, and from which."""

    k: int
    rank: str
    by_confidence: bool = False  # for codes: weight each differing bit by the query's confidence in it
    weight: float = SEMANTIC_WEIGHT
    among: Positions | None = None  # candidates in ascending order; None for all
    without: int | None = None  # a document to leave out


@dataclass(frozen=True)
class Hit:
    """A document found by a search, the number of bits that differ from the query, and a score: higher is nearer.

    ``lexical`` and ``semantic`` are the parts of the score, None where codes alone decide. If the query or the document
    has no code, all bits differ.
    """

    id: DocumentId
    distance: int
    score: float
    text: str
    labels: tuple[str, ...]
    metadata: dict[str, Any]
    lexical: float | None = None
    semantic: float | None = None


@dataclass(frozen=True)
class Ranked:
    """Documents in order, with the number of differing bits and a score; a higher score is nearer."""

    positions: Positions
    distances: NDArray[np.int32]
    scores: NDArray[np.float32]
    lexical: NDArray[np.float32] | None = None  # the parts of the score
    semantic: NDArray[np.float32] | None = None

    @classmethod
    def by_distance(cls, answer: Neighbours, n_bits: int) -> Ranked:
        """Score an answer by the share of bits that agree."""
        return cls(answer.ids, answer.distances, (1 - answer.distances / n_bits).astype(np.float32))

    def first(self, options: RankOptions) -> Ranked:
        """Return the first k, without the document to leave out."""
        k, without = options.k, options.without
        kept = slice(k) if without is None else np.flatnonzero(self.positions != without)[:k]
        parts = (None if part is None else part[kept] for part in (self.lexical, self.semantic))
        return Ranked(self.positions[kept], self.distances[kept], self.scores[kept], *parts)


def choose_rank(options: SearchOptions, *, takes_text: bool, default: str | None = None) -> tuple[str, bool]:
    """Return the ranking, and whether codes are weighted by confidence; embeddings have codes alone.

    ``rerank`` and its older name ``rescore`` named a second step: none, bits and words.
    """
    rank, old = options.get("rank"), options.get("rerank") or options.get("rescore")
    if rank is not None and old is not None:
        raise ParameterError("give rank, not rerank", got="both", hint="rank replaces rerank and rescore.")
    if options.get("shortlist") is not None:
        check_whole_number("shortlist", options["shortlist"], 1)
    allowed = (HYBRID, WORDS, CODES) if takes_text else (CODES,)
    if old is not None:
        if OLD_RANKS.get(old) not in allowed:
            names = ", ".join(name for name, rank in OLD_RANKS.items() if rank in allowed)
            raise ParameterError("rerank is unknown", allowed=names, got=repr(old))
        return OLD_RANKS[old], old == "bits"
    chosen = rank or default or allowed[0]
    if chosen not in allowed:
        raise ParameterError("rank is unknown", allowed=", ".join(allowed), got=repr(rank))
    return chosen, takes_text and default is None


def check_rank_options(
    k: int | None,
    options: SearchOptions,
    *,
    takes_text: bool,
    available: int,
    with_code: int,
    default: str | None = None,
) -> RankOptions:
    """Check the options of a search; ``available`` documents can be found by words, those ``with_code`` by codes."""
    rank, by_confidence = choose_rank(options, takes_text=takes_text, default=default)
    available = available if rank != CODES else with_code
    if k is None:
        k = min(DEFAULT_HITS, available)
    else:
        hint = "Ask for fewer hits, or leave k out." if k != 0 else ""
        k = check_whole_number("k, the number of hits,", k, 1, available, why=", the documents to find", hint=hint)
    weight = options.get("weight")
    weight = SEMANTIC_WEIGHT if weight is None else weight
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight < float("inf"):
        raise ParameterError("weight is out of range", allowed="0 or more", got=repr(weight))
    return RankOptions(k, rank, by_confidence, float(weight))


def rank_by_codes(queries: EncodedQueries, options: RankOptions, index: Index) -> list[Ranked]:
    """Find the documents with the nearest codes; by plain distance, one scan answers all queries."""
    if not len(queries):
        return []
    k = options.k + (options.without is not None)  # documents with an equal code may come before the one to leave out
    if not options.by_confidence:
        answers = index.search(queries.codes, k, among=options.among)
        return [Ranked.by_distance(answer, index.n_bits).first(options) for answer in answers]
    ranked = []
    for code, confidence in zip(queries.codes, queries.confidence, strict=True):
        answer = index.search_weighted(code[None], confidence, k, among=options.among)
        assert answer.costs is not None
        scores = 1 - answer.costs / max(float(confidence.sum()), 1e-9)
        ranked.append(Ranked(answer.ids, answer.distances, scores).first(options))
    return ranked


def rank_by_words_and_codes(
    query: ParsedQuery, encoded: EncodedQueries | None, options: RankOptions, index: Index, words: LexicalSnapshot
) -> Ranked:
    """Rank the candidates of both sides, or of words alone; a side that knows no word of the query adds nothing.

    Of a document beyond the candidates by words the lexical part counts as 0.
    """
    k = options.k + (options.without is not None)
    depth = k if options.rank == WORDS else max(LEXICAL_DEPTH, k)
    found = words.search(query, depth, options.among)
    candidates = found.positions
    if options.rank == HYBRID and encoded is not None:
        near = _nearest(index, encoded, max(CODES_DEPTH, k), options.among)
        near = near[words.passing(query, near)] if query.has_conditions else near
        candidates = np.union1d(candidates, near)
    else:
        candidates = np.sort(candidates)
    lexical = np.zeros(len(candidates), dtype=np.float32)
    if len(found.scores):
        lexical[np.searchsorted(candidates, found.positions)] = found.scores / found.scores[0]
    distances, semantic = _agreement(index, encoded, candidates)
    weight = 0.0 if options.rank == WORDS else options.weight
    scores = ((lexical + weight * semantic) / (1 + weight)).astype(np.float32)
    order = np.lexsort((candidates, -scores))[:k]
    return Ranked(candidates[order], distances[order], scores[order], lexical[order], semantic[order]).first(options)


def read_hits(answers: Sequence[Ranked], reader: Reader) -> list[list[Hit]]:
    """Read the documents of each answer; a document of several answers is read once."""
    rows = reader.rows(sorted({position for ranked in answers for position in ranked.positions.tolist()}))
    answered = []
    for ranked in answers:
        documents = [rows[position] for position in ranked.positions.tolist()]
        parts = (_rounded(part, len(documents)) for part in (ranked.scores, ranked.lexical, ranked.semantic))
        facts = zip(documents, ranked.distances.tolist(), *parts, strict=True)
        hits = [
            Hit(id, distance, score, text, labels, dict(metadata), lexical, semantic)
            for (id, labels, metadata, text), distance, score, lexical, semantic in facts
        ]
        answered.append(hits)
    return answered


def _rounded(values: NDArray[np.float32] | None, count: int) -> list[Any]:
    return [None] * count if values is None else [round(value, 4) for value in values.tolist()]


def _nearest(index: Index, query: EncodedQueries, k: int, among: Positions | None) -> Positions:
    """Return the documents with the nearest codes; where most pass a filter, all are searched until k of them do."""
    if not len(index) or (among is not None and not len(among)):
        return np.zeros(0, dtype=np.int64)
    k = min(k, len(index))
    if among is not None and len(among) < MIN_SHARE * len(index):
        coded = among[contains(index.arrays()[0], among)]
        return np.asarray(index.search(query.codes, k, among=coded)[0].ids, dtype=np.int64)
    depth = k if among is None else int(1.2 * k * len(index) / len(among)) + 10
    while True:
        nearest = np.asarray(index.search(query.codes, min(depth, len(index)))[0].ids, dtype=np.int64)
        passing = nearest if among is None else nearest[contains(among, nearest)]
        if len(passing) >= k or depth >= len(index):
            return passing[:k]
        depth *= 4


def _agreement(
    index: Index, query: EncodedQueries | None, positions: Positions
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return how many bits differ, and the share of the query's confidence that lies on bits that agree."""
    distances = np.full(len(positions), index.n_bits, dtype=np.int32)
    semantic = np.zeros(len(positions), dtype=np.float32)
    if query is not None and len(positions) and len(index):
        coded, codes = index.arrays()  # positions ascend
        has_code = contains(coded, positions)
        rows = codes[np.searchsorted(coded, positions[has_code])]
        confidence = query.confidence[0]
        distances[has_code] = differing_bits(rows, query.codes)
        costs = unpack(rows ^ query.codes, index.n_bits).astype(np.float32) @ confidence
        semantic[has_code] = 1 - costs / max(float(confidence.sum()), 1e-9)
    return distances, semantic

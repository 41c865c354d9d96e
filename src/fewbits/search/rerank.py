"""Ranking: one score from words and codes, or from one of them.

The score of a hybrid search is ``(lexical + weight * semantic) / (1 + weight)``. The lexical part is the BM25 score
relative to the best hit; the semantic part is the share of agreeing bits, weighted by the query's confidence in each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from fewbits.codes import differing_bits, differing_weight
from fewbits.data.document import DocumentId
from fewbits.errors import ParameterError
from fewbits.index import Index, Neighbours
from fewbits.search.encoder import EncodedQueries
from fewbits.search.lexical import LexicalSnapshot, Scored
from fewbits.search.store.filters import Allowed, Condition, Sort
from fewbits.search.store.reader import Positions, Reader
from fewbits.search.words import ParsedQuery
from fewbits.validation import check_whole_number

HYBRID, WORDS, CODES = "hybrid", "words", "codes"
OLD_RANKS = {"none": CODES, "bits": CODES, "words": HYBRID}  # by the value of rerank
DEFAULT_HITS = 10
SEMANTIC_WEIGHT = 0.5  # chosen on Cranfield, CACM and titles of arXiv; .4 to .75 are nearly as good
LEXICAL_DEPTH = 100  # minimum number of candidates by words
LEXICAL_DEPTH_PER_HIT = 10  # with fewer, recall drops
CODES_DEPTH = 100  # candidates by codes, unless more hits are requested
LARGEST_BIT_WEIGHT = 100.0
SORTED_HITS = 1_000  # best documents that are sorted by a field
MIN_SHARE = 0.05  # filters that fewer documents pass are applied before the scan of the codes


class SearchOptions(TypedDict, total=False):
    """Keyword arguments of a search, see :meth:`fewbits.SearchEngine.search`."""

    labels: Sequence[str]
    where: Sequence[str | Condition]
    among: Sequence[DocumentId] | None
    rank: str | None
    weight: float | None
    bit_weights: Mapping[int, float] | None
    sort: str | None
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
    allowed: Allowed | None = None  # documents that pass the filters; None for all
    without: int | None = None  # a document to leave out
    bit_weights: NDArray[np.float32] | None = None  # the user's weight per bit; None: all 1
    sort: Sort | None = None  # None: by score

    def weigh(self, queries: EncodedQueries) -> EncodedQueries:
        """Multiply the confidence in each bit, or 1 without confidence, by the weight that the user gave it."""
        if self.bit_weights is None:
            return queries
        by_confidence = self.by_confidence or self.rank == HYBRID
        confidence = queries.confidence if by_confidence else np.ones_like(queries.confidence)
        return replace(queries, confidence=confidence * self.bit_weights)


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
    def empty(cls) -> Ranked:
        """Return no documents."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))

    @classmethod
    def by_distance(cls, answer: Neighbours, n_bits: int) -> Ranked:
        """Score an answer by the share of bits that agree."""
        return cls(answer.ids, answer.distances, (1 - answer.distances / n_bits).astype(np.float32))

    def first(self, options: RankOptions) -> Ranked:
        """Return the first k, without the document to leave out."""
        k, without = options.k, options.without
        if without is None and len(self.positions) <= k:
            return self
        kept = slice(k) if without is None else np.flatnonzero(self.positions != without)[:k]
        return self.take(kept)

    def take(self, places: slice | NDArray[np.int64]) -> Ranked:
        """Return the documents at some places."""
        parts = (None if part is None else part[places] for part in (self.lexical, self.semantic))
        return Ranked(self.positions[places], self.distances[places], self.scores[places], *parts)


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
    return chosen, takes_text


def check_bit_weights(weights: Mapping[int, float] | None, n_bits: int) -> NDArray[np.float32] | None:
    """Return a weight per bit, 1 for bits without one; None if there are none."""
    if not weights:
        return None
    checked = np.ones(n_bits, dtype=np.float32)
    for bit, weight in weights.items():
        check_whole_number("a bit in bit_weights", bit, 0, n_bits - 1)
        is_number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if not is_number or not 0 <= weight <= LARGEST_BIT_WEIGHT:
            allowed = f"0 to {LARGEST_BIT_WEIGHT:g}"
            raise ParameterError(f"the weight of bit {bit} is out of range", allowed=allowed, got=repr(weight))
        checked[bit] = weight
    if not checked.any():
        hint = "Use rank words to search without codes."
        raise ParameterError("all bits have the weight 0", allowed="one bit or more above 0", hint=hint)
    return checked


def check_rank_options(
    k: int | None, options: SearchOptions, *, takes_text: bool, n_bits: int, default: str | None = None
) -> RankOptions:
    """Check the options of a search, without its filters."""
    rank, by_confidence = choose_rank(options, takes_text=takes_text, default=default)
    k = DEFAULT_HITS if k is None else check_whole_number("k, the number of hits,", k, 1)
    weight = options.get("weight")
    weight = SEMANTIC_WEIGHT if weight is None else weight
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight < float("inf"):
        raise ParameterError("weight is out of range", allowed="0 or more", got=repr(weight))
    bit_weights = check_bit_weights(options.get("bit_weights"), n_bits)
    by_field = options.get("sort")
    sort = None if by_field is None else Sort.parse(by_field, k)
    k = k if sort is None else max(k, SORTED_HITS)
    return RankOptions(k, rank, by_confidence, float(weight), bit_weights=bit_weights, sort=sort)


def sort_by_field(ranked: Ranked, sort: Sort, reader: Reader) -> Ranked:
    """Order documents by a metadata field, and return the first."""
    facts = reader.facts(ranked.positions)
    metadata = [json.loads(facts[position][1]) for position in ranked.positions.tolist()]
    return ranked.take(np.array(sort.order(metadata), dtype=np.int64))


def rank_by_codes(queries: EncodedQueries, options: RankOptions, index: Index) -> list[Ranked]:
    """Find the documents with the nearest codes; by plain distance, one scan answers all queries."""
    k = min(options.k + (options.without is not None), len(index))  # equal codes may come before the one to leave out
    among = coded(index, options.allowed)
    if not k or not len(queries):
        return [Ranked.empty() for _ in queries.codes]
    if not options.by_confidence and options.bit_weights is None:
        answers = index.search(queries.codes, k, among=among)
        return [Ranked.by_distance(answer, index.n_bits).first(options) for answer in answers]
    queries = options.weigh(queries)
    ranked = []
    for code, confidence in zip(queries.codes, queries.confidence, strict=True):
        answer = index.search_weighted(code[None], confidence, k, among=among)
        assert answer.costs is not None
        scores = _share_of_agreement(answer.costs, confidence)
        ranked.append(Ranked(answer.ids, answer.distances, scores).first(options))
    return ranked


def rank(
    query: ParsedQuery,
    encoded: EncodedQueries | None,
    options: RankOptions,
    index: Index,
    words: LexicalSnapshot | None,
) -> Ranked | None:
    """Rank the documents for one query; None if neither words nor codes can answer.

    A hybrid search ranks the candidates of words and codes by both parts of the score; a part that knows none of the
    query's words contributes nothing. Phrases that occur in no document are searched as words.
    """
    if options.rank == CODES:
        return None if encoded is None else rank_by_codes(encoded, options, index)[0]
    assert words is not None
    query = words.with_found_phrases(query)
    encoded = None if encoded is None else options.weigh(encoded)
    by_codes = encoded if options.rank == HYBRID else None
    k = options.k + (options.without is not None)
    depth = k if options.rank == WORDS else max(LEXICAL_DEPTH, LEXICAL_DEPTH_PER_HIT * k)
    found = words.search(query, depth, options.allowed)
    if not len(found.positions) and by_codes is None and not query.filters and not words.can_answer(query):
        return None
    near = np.zeros(0, dtype=np.int64)
    if by_codes is not None:
        near = _nearest(index, by_codes, max(CODES_DEPTH, k), options)
        near = near[words.passing(query, near)] if query.has_conditions else near
    candidates, lexical = _merge(found, near)
    distances, semantic = _agreement(index, encoded, candidates)
    weight = 0.0 if options.rank == WORDS else options.weight
    if len(near) and len(found.positions) == depth:
        likely = _likely_beyond(found, lexical, weight * semantic, k)
        if len(likely):
            lexical[likely] = words.scores(query, candidates[likely]) / found.scores[0]
    scores = ((lexical + weight * semantic) / (1 + weight)).astype(np.float32)
    order = np.argsort(-scores, kind="stable")[:k]  # equal scores in order of insertion
    return Ranked(candidates, distances, scores, lexical, semantic).take(order).first(options)


def _likely_beyond(
    found: Scored, lexical: NDArray[np.float32], semantic: NDArray[np.float32], k: int
) -> NDArray[np.int64]:
    """Return the candidates found only by codes that the lowest BM25 score found would bring among the k best."""
    scores = lexical + semantic
    lowest = found.scores[-1] / found.scores[0]
    kth = np.partition(scores, -k)[-k] if k < len(scores) else scores.min()
    return np.flatnonzero((lexical == 0) & (semantic + lowest > kth))


def _merge(found: Scored, near: Positions) -> tuple[Positions, NDArray[np.float32]]:
    """Return the candidates of both sides in order of insertion, each with its lexical part."""
    positions = np.concatenate([found.positions, near])
    lexical = np.zeros(len(positions), dtype=np.float32)
    if len(found.scores):
        lexical[: len(found.scores)] = found.scores / found.scores[0]
    order = np.argsort(positions, kind="stable")  # of a document of both sides, the one with a score comes first
    ordered = positions[order]
    is_first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first], lexical[order[is_first]]


def read_hits(answers: Sequence[Ranked], reader: Reader) -> list[list[Hit]]:
    """Read the documents of each answer; a document of several answers is read once."""
    documents = reader.stored({position for ranked in answers for position in ranked.positions.tolist()})
    answered = []
    for ranked in answers:
        parts = (_rounded(part, len(ranked.positions)) for part in (ranked.scores, ranked.lexical, ranked.semantic))
        facts = zip(ranked.positions.tolist(), ranked.distances.tolist(), *parts, strict=True)
        hits = []
        for position, distance, score, lexical, semantic in facts:
            one = documents[position]
            metadata = one.metadata if len(answers) == 1 else dict(one.metadata)
            hits.append(Hit(one.id, distance, score, one.text, one.labels, metadata, lexical, semantic))
        answered.append(hits)
    return answered


def _rounded(values: NDArray[np.float32] | None, count: int) -> list[Any]:
    return [None] * count if values is None else [round(value, 4) for value in values.tolist()]


def _nearest(index: Index, query: EncodedQueries, k: int, options: RankOptions) -> Positions:
    """Return the documents with the nearest codes; where most pass a filter, all are searched until k of them do."""
    allowed, weighted = options.allowed, options.bit_weights is not None
    if not len(index) or (allowed is not None and not len(allowed)):
        return np.zeros(0, dtype=np.int64)
    k = min(k, len(index))
    if allowed is None:
        return _found(index, query, k, weighted=weighted)
    if len(allowed) < MIN_SHARE * len(index):
        return _found(index, query, k, weighted=weighted, among=coded(index, allowed))
    depth = int(1.2 * k * len(index) / len(allowed)) + 10
    while True:
        nearest = _found(index, query, min(depth, len(index)), weighted=weighted)
        passing = nearest[allowed.contains(nearest)]
        if len(passing) >= k or depth >= len(index):
            return passing[:k]
        depth *= 4


def _found(index: Index, query: EncodedQueries, k: int, *, weighted: bool, among: Positions | None = None) -> Positions:
    if weighted:
        return np.asarray(index.search_weighted(query.codes, query.confidence, k, among=among).ids, dtype=np.int64)
    return np.asarray(index.search(query.codes, k, among=among)[0].ids, dtype=np.int64)


def coded(index: Index, allowed: Allowed | None) -> Positions | None:
    """Return the allowed documents that have a code; None if all are allowed."""
    if allowed is None:
        return None
    positions = index.arrays()[0]
    return np.asarray(positions[allowed.contains(positions)], dtype=np.int64)


def _agreement(
    index: Index, query: EncodedQueries | None, positions: Positions
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return how many bits differ, and the share of the query's confidence that lies on bits that agree.

    In a document without a code all bits differ.
    """
    if query is None:
        return np.full(len(positions), index.n_bits, dtype=np.int32), np.zeros(len(positions), dtype=np.float32)
    has_code, codes = index.existing_codes(positions)
    confidence = query.confidence[0]
    semantic = _share_of_agreement(differing_weight(codes, query.codes, confidence), confidence)
    distances = differing_bits(codes, query.codes)
    if not has_code.all():
        distances[~has_code], semantic[~has_code] = index.n_bits, 0
    return distances, semantic


def _share_of_agreement(costs: NDArray[np.float32], confidence: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the share of the confidence on the agreeing bits, clipped at 0 against rounding errors."""
    return np.maximum(1 - costs / max(float(confidence.sum()), 1e-9), 0).astype(np.float32, copy=False)

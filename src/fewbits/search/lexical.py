"""Full-text search: BM25 over the words of documents, by tantivy.

:mod:`fewbits.search.lexical_index` writes the index; this module reads one committed state of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tantivy import FieldType, Occur, Query, SchemaBuilder, TextAnalyzer

from fewbits.errors import BrokenFolderError
from fewbits.search.store.filters import Allowed
from fewbits.search.words import ParsedQuery, is_mixed, make_analyzer, other_forms, split

Positions = NDArray[np.int64]
Term = tuple[str, str]  # field and text

POSITION, WORDS, CODES, VERSION = "position", "words", "codes", "version"
REBUILD = "Run fewbits index rebuild."
EXPANSIONS = 50  # words that a prefix stands for at most
MAX_TERMS = 128  # per query; of a longer one those with the highest idf
MAX_MATCHES = 30_000  # documents that are read to be counted by their values, or if they pass a filter
WINDOWS = 40  # from which a sample of more is taken
MAX_IN_QUERY = 5_000  # documents up to which a filter is part of a query that counts
# A filter that n of N documents pass is part of a search if n * n <= FILTER_COST * N: it takes about 3 us per document
# that passes; to search until enough hits pass takes about 1 us per hit, and about 120 * N / n hits are needed.
FILTER_COST = 30
MAX_IN_UNION = 1_000  # documents up to which a union of terms is faster than a set
_LETTERS_OR_DIGITS = re.compile(r"[^\W\d_]+|\d+")
CHECKED_TERMS = 16  # of a document, when the index is verified


class Scored(NamedTuple):
    """Documents with their BM25 scores, best first; equal scores are in any order."""

    positions: Positions
    scores: NDArray[np.float32]


class Matching(NamedTuple):
    """The number of documents that match, and some of them: a sample if the number is not exact."""

    total: int
    positions: Positions
    is_exact: bool


@dataclass(frozen=True)
class LexicalSnapshot:
    """One committed state of the index; later commits do not change it."""

    searcher: Any
    schema: Any
    analyzer: TextAnalyzer
    query_analyzer: TextAnalyzer  # without function words

    @cached_property
    def version(self) -> int:
        """Return the version of the documents that this state stands for; -1 where nothing was committed."""
        found = self.searcher.search(Query.exists_query(VERSION), 1, count=False).hits
        return int(self.searcher.fast_field_values(VERSION, [found[0][1]])[0]) if found else -1

    def __len__(self) -> int:
        return int(self.searcher.num_docs) - (self.version >= 0)

    def search(self, query: ParsedQuery, k: int, allowed: Allowed | None = None) -> Scored:
        """Return the k documents with the highest scores, of those allowed."""
        scoring = self._scoring(query)
        if scoring is None or (allowed is not None and not len(allowed)):
            return Scored(np.zeros(0, np.int64), np.zeros(0, np.float32))
        if allowed is None:
            return self._top(scoring, k)
        if self._is_selective(allowed):
            return self._top(_among(self._position_filter(allowed.positions), scoring), k)
        return self._top_passing(scoring, k, allowed)

    def scores(self, query: ParsedQuery, positions: Positions) -> NDArray[np.float32]:
        """Return the scores of some documents, in ascending order of their positions; 0 where none matches."""
        scores = np.zeros(len(positions), dtype=np.float32)
        scoring = self._scoring(query) if len(positions) else None
        if scoring is not None:
            found = self._top(_among(self._position_filter(positions), scoring), len(positions))
            scores[np.searchsorted(positions, found.positions)] = found.scores
        return scores

    def matching(self, query: ParsedQuery, k: int, allowed: Allowed | None = None) -> Matching:
        """Count the documents that match among those allowed, and return k of them, or all if they are fewer.

        Of more than :data:`MAX_MATCHES` a sample is read: those in windows spread over the order of insertion.
        """
        scoring = self._scoring(query)
        if scoring is None or (allowed is not None and not len(allowed)):
            return Matching(0, np.zeros(0, np.int64), is_exact=True)
        if allowed is not None and len(allowed) <= MAX_IN_QUERY:
            scoring, allowed = _among(self._position_filter(allowed.positions), scoring), None
        count = int(self.searcher.search(Query.const_score_query(scoring, 0.0), 1, count=True).count)
        if allowed is None and k == 1:
            return Matching(count, np.zeros(0, np.int64), is_exact=True)
        is_sample = count > MAX_MATCHES
        read = _among(self._windows(MAX_MATCHES / count), scoring) if is_sample else scoring
        size = max(1, min(count, 2 * MAX_MATCHES))
        found = self.searcher.search(Query.const_score_query(read, 0.0), size, count=False)
        values = self.searcher.fast_field_values(POSITION, [address for _, address in found.hits])
        positions = np.array(values, dtype=np.int64)
        if allowed is None:
            return Matching(count, positions[:k], is_exact=not is_sample)
        passing = positions[allowed.contains(positions)]
        return Matching(round(count * len(passing) / max(1, len(positions))), passing[:k], is_exact=not is_sample)

    def _windows(self, share: float) -> Query:
        """Return a query for a share of the documents, in windows spread over the order of insertion."""
        hits: Any = self.searcher.search(Query.all_query(), 1, count=False, order_by_field=POSITION).hits
        width = (int(hits[0][0]) + 1) / WINDOWS
        ends = [(round(place * width), round((place + share) * width)) for place in range(WINDOWS)]
        kind = FieldType.Unsigned
        windows = (Query.range_query(self.schema, POSITION, kind, low, high - 1) for low, high in ends if high > low)
        return Query.const_score_query(Query.boolean_query([(Occur.Should, one) for one in windows]), 0.0)

    def shares(self, query: ParsedQuery, position: int) -> dict[str, float]:
        """Return for each word, phrase and prefix of a query its share of the BM25 score of a document."""
        scored = {term for term, _ in self._terms(query)}
        parts = {word: scored.intersection(self._terms_of(word, self.analyzer)) for word in query.words}
        clauses = {
            word: Query.boolean_query([(Occur.Should, self._term(*term)) for term in sorted(terms)])
            for word, terms in parts.items()
            if terms
        }
        clauses |= {f'"{text}"': phrase for text in query.phrases if (phrase := self._phrase(text)) is not None}
        for prefix in query.prefixes:
            clauses[f"{prefix}*"] = Query.boolean_query([(Occur.Should, one) for one in self._prefix(prefix)])
        document = self._position_filter(np.array([position]))
        found = {name: self._top(_among(document, clause), 1).scores for name, clause in clauses.items()}
        scores = {name: float(score[0]) for name, score in found.items() if len(score) and score[0] > 0}
        total = sum(scores.values())
        return {name: score / total for name, score in sorted(scores.items(), key=lambda one: -one[1])}

    def passing(self, query: ParsedQuery, positions: Positions) -> NDArray[np.bool_]:
        """Return which documents have all phrases of a query and none of its excluded words."""
        clauses = [*self._required(query), *self._excluded(query)]
        if not clauses or not len(positions):
            return np.ones(len(positions), dtype=np.bool_)
        clauses.insert(0, (Occur.Must, self._position_filter(positions)))
        return np.isin(positions, self._top(Query.boolean_query(clauses), len(positions)).positions)

    def can_answer(self, query: ParsedQuery) -> bool:
        """Return whether a document has one of the words, phrases or prefixes of a query."""
        is_known = any(self._frequency(*term) for term, _ in self._terms(query))
        return is_known or any(True for prefix in query.prefixes for _ in self._prefix(prefix))

    def with_found_phrases(self, query: ParsedQuery) -> ParsedQuery:
        """Return a query whose phrases are words unless a document has all of them."""
        if not query.phrases or len(self._top(Query.boolean_query(self._required(query)), 1).positions):
            return query
        return replace(query, words=query.words + query.phrases, phrases=())

    def contains(self, position: int, text: str) -> bool:
        """Return whether a document is in the index with the words of a text."""
        words, codes, _ = split(text)
        terms = dict.fromkeys(
            [(WORDS, term) for term in self.analyzer.analyze(words)] + [(CODES, key) for key in codes]
        )
        clauses = [(Occur.Must, self._term(*term)) for term in islice(terms, CHECKED_TERMS)]
        clauses.append((Occur.Must, self._position_filter(np.array([position]))))
        return len(self._top(Query.boolean_query(clauses), 1).positions) == 1

    def has_word(self, word: str) -> bool:
        """Return whether a document has a word or one of its parts; function words count as present."""
        terms = list(self._terms_of(word, self.query_analyzer))
        return not terms or any(self._frequency(*term) for term in terms)

    def with_similar_word(self, word: str, distance: int, k: int, without: Iterable[str] = ()) -> Positions:
        """Return k documents with a term within an edit distance of a word or its stem, and without some terms."""
        forms = {word, *self.analyzer.analyze(word)}
        similar = [Query.fuzzy_term_query(self.schema, WORDS, form, distance) for form in sorted(forms)]
        clauses = [(Occur.Must, Query.boolean_query([(Occur.Should, query) for query in similar]))]
        clauses += [(Occur.MustNot, self._term(WORDS, term)) for term in without]
        return self._top(Query.boolean_query(clauses), k).positions

    def inverse_frequency(self, word: str) -> float:
        """Return the inverse document frequency of a word, whose forms count as one, smoothed as by scikit-learn."""
        terms = self.analyzer.analyze(word)
        return math.log((1 + len(self)) / (1 + (self._frequency(WORDS, terms[0]) if terms else 0))) + 1

    def count(self, *words: str, is_phrase: bool = False) -> int:
        """Count the documents with all of some words, or with the phrase that they form."""
        parts = [" ".join(words)] if is_phrase else words
        required = [(Occur.Must, part) for text in parts if (part := self._phrase(text)) is not None]
        return int(self.searcher.search(Query.boolean_query(required), 1).count) if required else 0

    def _top(self, query: Query, k: int) -> Scored:
        try:
            hits = self.searcher.search(query, max(1, min(k, self.searcher.num_docs)), count=False).hits
        except ValueError as error:  # a file that is only read when it is needed
            raise BrokenFolderError("the lexical index cannot be read", got=error, hint=REBUILD) from error
        if not hits:
            return Scored(np.zeros(0, np.int64), np.zeros(0, np.float32))
        values, addresses = zip(*hits, strict=True)
        positions = np.array(self.searcher.fast_field_values(POSITION, list(addresses)), dtype=np.int64)
        return Scored(positions, np.array(values, dtype=np.float32))

    def _top_passing(self, query: Query, k: int, allowed: Allowed) -> Scored:
        """Search deeper until k documents pass, which is soon where most are allowed."""
        depth = int(1.2 * k * self.searcher.num_docs / len(allowed)) + 10
        while True:
            found = self._top(query, depth)
            passing = np.flatnonzero(allowed.contains(found.positions))[:k]
            if len(passing) == k or len(found.positions) < min(depth, self.searcher.num_docs):
                return Scored(found.positions[passing], found.scores[passing])
            depth *= 4

    def _is_selective(self, allowed: Allowed) -> bool:
        return len(allowed) ** 2 <= FILTER_COST * int(self.searcher.num_docs)

    def _position_filter(self, positions: Positions) -> Query:
        if len(positions) > MAX_IN_UNION:
            return Query.const_score_query(Query.term_set_query(self.schema, POSITION, positions.tolist()), 0.0)
        terms = [(Occur.Should, Query.term_query(self.schema, POSITION, one)) for one in positions.tolist()]
        return Query.const_score_query(Query.boolean_query(terms), 0.0)

    def _scoring(self, query: ParsedQuery) -> Query | None:
        """Return the scoring query: any word may match, phrases must, excluded words must not. None if no document can
        match."""
        # Repeated terms are repeated in the query: that is several times faster than boosting a term.
        words = [(Occur.Should, self._term(*term)) for term, count in self._terms(query) for _ in range(count)]
        words += [(Occur.Should, part) for prefix in query.prefixes for part in self._prefix(prefix)]
        required, excluded = self._required(query), self._excluded(query)
        if not words and not required:
            return None
        if excluded and not required:  # an excluded word alone would make the others optional
            required = [(Occur.Must, Query.boolean_query(words))]
            words = []
        return Query.boolean_query([*required, *words, *excluded])

    def _required(self, query: ParsedQuery) -> list[tuple[Occur, Query]]:
        return [(Occur.Must, phrase) for text in query.phrases if (phrase := self._phrase(text)) is not None]

    def _excluded(self, query: ParsedQuery) -> list[tuple[Occur, Query]]:
        return [(Occur.MustNot, phrase) for text in query.excluded if (phrase := self._phrase(text)) is not None]

    def _phrase(self, text: str) -> Query | None:
        """Return a term query for a product code, else a phrase query; None if nothing remains."""
        words, codes, _ = split(text)
        terms = self.analyzer.analyze(words)
        if codes and len(text.split()) == 1:
            return self._term(CODES, codes[0])
        if len(terms) > 1:
            return Query.phrase_query(self.schema, WORDS, list(terms))
        return self._term(WORDS, terms[0]) if terms else None

    def _prefix(self, prefix: str) -> Iterable[Query]:
        """Return queries for terms that begin with a prefix; terms are stems, so one may be shorter than the prefix."""
        written = make_analyzer(None).analyze(split(prefix).words)
        if not written:
            return
        terms = {term for term, _ in self.searcher.terms_with_prefix(WORDS, written[-1], limit=EXPANSIONS)}
        terms.update(self.analyzer.analyze(written[-1]))
        yield from (self._term(WORDS, term) for term in sorted(terms) if self._frequency(WORDS, term))

    def _terms(self, query: ParsedQuery) -> list[tuple[Term, int]]:
        """Count the terms of a query; function words only if there are no others."""
        text = " ".join((*query.words, *query.phrases))
        text = " ".join(self._with_parts(word) if is_mixed(word) else word for word in text.split())
        for analyzer in (self.query_analyzer, self.analyzer):
            counts: dict[Term, int] = {}
            for term in self._terms_of(text, analyzer):
                counts[term] = counts.get(term, 0) + 1
            if len(counts) > MAX_TERMS:
                known = [(term, count) for term, count in counts.items() if self._frequency(*term)]
                return sorted(known, key=lambda one: -one[1] * self._idf(*one[0]))[:MAX_TERMS]
            if counts:
                return list(counts.items())
        return []

    def _with_parts(self, word: str) -> str:
        """Return a word, followed by its runs of letters and of digits if no document contains the word itself."""
        if word.isalnum() and not self.has_word(word):
            return " ".join([word, *_LETTERS_OR_DIGITS.findall(word)])
        return word

    def _terms_of(self, text: str, analyzer: TextAnalyzer) -> Iterator[Term]:
        """Yield the terms of a query: its words, and other ways to write them that documents have."""
        words = split(text).words
        yield from ((WORDS, term) for term in analyzer.analyze(words))
        written = frozenset(words.split())
        for form in other_forms(text):
            if self._frequency(CODES, form) and (form not in written or analyzer.analyze(form)):
                yield CODES, form
            if form not in written:
                terms = analyzer.analyze(form)
                if len(terms) == 1 and self._frequency(WORDS, terms[0]):
                    yield WORDS, terms[0]

    def _term(self, field: str, term: str) -> Query:
        return Query.term_query(self.schema, field, term, "freq")

    def _frequency(self, field: str, term: str) -> int:
        return int(self.searcher.doc_freq(field, term))

    def _idf(self, field: str, term: str) -> float:
        count = self._frequency(field, term)
        return math.log(1 + (self.searcher.num_docs - count + 0.5) / (count + 0.5))


def make_schema() -> Any:
    """Return the fields of the index: documents, and one entry for the version of the documents."""
    builder = SchemaBuilder()
    builder.add_unsigned_field(POSITION, indexed=True, fast=True)
    builder.add_text_field(WORDS, tokenizer_name=WORDS, index_option="position")
    builder.add_text_field(CODES, tokenizer_name=CODES, index_option="freq")
    builder.add_unsigned_field(VERSION, indexed=True, fast=True)
    return builder.build()


def _among(positions: Query, scoring: Query) -> Query:
    return Query.boolean_query([(Occur.Must, positions), (Occur.Must, scoring)])

"""A snapshot: one state of an engine, from which all answers of a request come."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fewbits.codes import Packed
from fewbits.data.document import Document, DocumentId
from fewbits.errors import DataError, ParameterError
from fewbits.index import Index
from fewbits.search.drift import describe
from fewbits.search.duplicates import DuplicateGroup, duplicate_groups
from fewbits.search.encoder import (
    EncodedDocuments,
    EncodedQueries,
    Model,
    empty_query_error,
    nonzero_rows,
    read_encoded,
)
from fewbits.search.explain import BitExamples, BitMeaning, Explanation, explain, find_examples
from fewbits.search.lexical import LexicalSnapshot, contains
from fewbits.search.queries import ParsedQuery, parse, plain, possible_fields
from fewbits.search.rerank import (
    CODES,
    HYBRID,
    Hit,
    Ranked,
    RankOptions,
    SearchOptions,
    TermVectors,
    check_rank_options,
    rank_by_codes,
    rank_by_words_and_codes,
    read_hits,
)
from fewbits.search.store.filters import Condition, parse_conditions, unknown_in_filters
from fewbits.search.store.reader import Positions, Reader
from fewbits.validation import check_whole_number, evenly_spaced

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fewbits.search.state import EngineState


@dataclass(frozen=True)
class Snapshot:
    """One state of an engine: all its methods answer from the same version of the documents."""

    state: EngineState
    version: int  # of the documents
    index: Index  # of all codes
    words: LexicalSnapshot | None  # None for embeddings, and where no words are needed
    reader: Reader

    @property
    def model(self) -> Model:
        """Return the fitted model."""
        return self.state.model

    @property
    def term_vectors(self) -> TermVectors:
        """Return the stored tf-idf rows of all documents."""
        return TermVectors(self.reader, self.model.features.n_features)

    def count(self) -> int:
        """Count all documents, including those without a known word."""
        return self.reader.count()

    def document(self, id: DocumentId) -> Document:
        """Return the document with an id."""
        return self.reader.get(self.reader.positions([id]))[0]

    def documents(self) -> Iterator[Document]:
        """Iterate over all documents in order of insertion."""
        return self.reader.all()

    def codes(self, ids: Sequence[DocumentId]) -> Packed:
        """Return the packed codes of documents."""
        return self.index.codes([self.position(id) for id in ids])

    def encoded_documents(self) -> EncodedDocuments:
        """Return ids, labels and codes of all documents that have a code."""
        return read_encoded(self.model, self.reader, *self.index.arrays())

    def sample(self, size: int) -> tuple[list[Document], Packed]:
        """Return at most ``size`` documents, evenly spaced among those with a code, and their codes."""
        positions = self.index.arrays()[0]
        chosen = positions[evenly_spaced(len(positions), size)]
        return self.reader.get(chosen.tolist()), self.index.codes(chosen)

    def labels(self) -> dict[str, int]:
        """Return the number of documents per label, the most frequent label first."""
        return self.reader.label_counts()

    def parse_id(self, text: str) -> DocumentId:
        """Return an id in the type of this engine's ids: an integer if they are integers."""
        is_integer = self.reader.kind_of_ids() is int and re.fullmatch(r"-?[0-9]{1,19}", text)
        return int(text) if is_integer else text

    def unknown_in_filters(self, labels: Sequence[str] = (), where: Sequence[str | Condition] = ()) -> list[str]:
        """Return a sentence for each label and metadata field of the filters that no document has."""
        return unknown_in_filters(labels, parse_conditions(where), self.labels(), self.reader.fields())

    def bits(self) -> list[BitMeaning]:
        """Return the words that stand for each bit."""
        return self.state.meaning_cache.at(self.version, self.index, self.term_vectors)

    def bit_examples(self, bit: int, k: int = 5) -> BitExamples:
        """Return the words of one bit, and for each value the documents with the largest margin."""
        check_whole_number("bit", bit, 0, self.index.n_bits - 1)
        return find_examples(self.model, self.bits()[bit], self.index, self.term_vectors, self.reader, k)

    def explain(self, query: EncodedQueries, id: DocumentId) -> Explanation:
        """Explain the distance between a query and a document."""
        return explain(self.model, self.bits(), id, query.rows, self.encode_document(self.position(id)).rows)

    def rank_options(self, k: int | None, default: str | None = None, **options: Unpack[SearchOptions]) -> RankOptions:
        """Check the options of a search, without its filters."""
        left_out = default is not None  # the document that others are similar to
        return check_rank_options(
            k,
            options,
            takes_text=self.model.takes_text,
            available=(0 if self.words is None else len(self.words)) - left_out,
            with_code=len(self.index) - left_out,
            default=default,
        )

    def search_texts(
        self, queries: Sequence[str], k: int | None = None, **options: Unpack[SearchOptions]
    ) -> list[list[Hit] | DataError]:
        """Return the hits of each text, or an error in their place where neither words nor codes can answer."""
        chosen = self.rank_options(k, **options)
        among = self.allowed(options.get("labels", ()), options.get("where", ()), options.get("among"))
        parsed = [self._parse(query, chosen) for query in queries]
        rows = self.model.text_rows([query.text for query in parsed])
        is_known = nonzero_rows(rows)
        encoded = self.model.encode_queries(rows if is_known.all() else rows[np.flatnonzero(is_known)])
        if chosen.rank == CODES:
            ranked = iter(rank_by_codes(encoded, replace(chosen, among=self._coded(among)), self.index))
            answers = [next(ranked) if known else None for known in is_known.tolist()]
        else:
            places = np.cumsum(is_known) - 1
            codes = [encoded.one(places[place]) if known else None for place, known in enumerate(is_known.tolist())]
            answers = [self._rank(*pair, chosen, among) for pair in zip(parsed, codes, strict=True)]
        hits = iter(self._hits([answer for answer in answers if answer is not None]))
        return [
            empty_query_error(query) if answer is None else next(hits)
            for query, answer in zip(queries, answers, strict=True)
        ]

    def search_encoded(self, queries: EncodedQueries, options: RankOptions, among: Positions | None) -> list[list[Hit]]:
        """Return the documents with the nearest codes of each query."""
        return self._hits(rank_by_codes(queries, replace(options, among=self._coded(among)), self.index))

    def similar(self, id: DocumentId, k: int | None, **options: Unpack[SearchOptions]) -> list[Hit]:
        """Return the documents nearest to a stored one; by default by its stored code."""
        position = self.position(id)
        chosen = replace(self.rank_options(k, CODES, **options), without=position)
        among = self.allowed(options.get("labels", ()), options.get("where", ()), options.get("among"))
        if chosen.rank == CODES and not chosen.by_confidence:  # embeddings are not stored
            queries = EncodedQueries(None, self.index.codes([position]), np.ones((1, self.index.n_bits), np.float32))
            return self.search_encoded(queries, chosen, among)[0]
        if not self.model.takes_text:
            raise ParameterError("embeddings are not stored", allowed="rerank none", got="bits")
        [document] = self.reader.get([position])
        encoded = self.model.encode_query(document.text)
        if chosen.rank == CODES:
            return self.search_encoded(encoded, chosen, among)[0]
        answer = self._rank(plain(document.text), encoded, chosen, among)
        return [] if answer is None else self._hits([answer])[0]

    def _parse(self, query: str, options: RankOptions) -> ParsedQuery:
        """Parse a query for words; codes alone see all of it."""
        if options.rank == CODES:
            return plain(query)
        return parse(query, [name for name in possible_fields(query) if self.reader.has_field(name)])

    def _rank(
        self, query: ParsedQuery, encoded: EncodedQueries | None, options: RankOptions, among: Positions | None
    ) -> Ranked | None:
        """Rank by words, and by codes if the query has one; None if neither can answer."""
        assert self.words is not None
        if query.phrases and not self.words.has_phrases(query):
            query = replace(query, words=query.words + query.phrases, phrases=())
        can_answer = (encoded is not None and options.rank == HYBRID) or self.words.can_answer(query)
        if not can_answer and not query.filters:
            return None
        if query.filters:
            conditions = [Condition(name, "=", value) for name, value in query.filters]
            passing = np.unique(self.reader.matching((), conditions))
            among = passing if among is None else np.intersect1d(among, passing)
        return rank_by_words_and_codes(query, encoded, replace(options, among=among), self.index, self.words)

    def duplicates(self, radius: int, min_similarity: float) -> list[DuplicateGroup]:
        """Return groups of near-duplicates."""
        vectors = self.term_vectors if self.model.takes_text else None
        groups = duplicate_groups(self.index, vectors, radius, min_similarity)
        ids = self.reader.ids_of(np.concatenate(groups)) if groups else {}
        named = ([ids[position] for position in group.tolist()] for group in groups)
        return [DuplicateGroup(first, tuple(others)) for first, *others in named]

    def info(self) -> dict[str, Any]:
        """Describe the engine, and how new documents differ from those of the fit."""
        return describe(self.model, self.reader, documents_with_code=len(self.index))

    def warm_up(self) -> None:
        """Build the caches that the first search would otherwise wait for."""
        self.index.prepare_weighted_search()
        if self.model.takes_text and len(self.index):
            self.bits()

    def position(self, id: DocumentId) -> int:
        """Return the position of a document that has a code."""
        [position] = self.reader.positions([id])
        if position not in self.index:
            raise DataError(f"the document {id!r} has no known word", hint="Search by a text instead.")
        return position

    def encode_document(self, position: int) -> EncodedQueries:
        """Encode the text of a document as a query."""
        [document] = self.reader.get([position])
        return self.model.encode_query(document.text)

    def allowed(
        self, labels: Sequence[str], where: Sequence[str | Condition], among: Sequence[DocumentId] | None
    ) -> Positions | None:
        """Return the positions of documents that pass all filters, in order; None without filters."""
        chosen: Positions | None = None
        if labels or where:
            chosen = np.unique(self.reader.matching(labels, parse_conditions(where)))
        if among is not None:
            named = np.unique(np.array(self.reader.positions(list(among)), dtype=np.int64))
            chosen = named if chosen is None else np.intersect1d(chosen, named)
        return chosen

    def within(self, codes: Packed, radius: int, among: Positions | None) -> list[list[Hit]]:
        """Return the documents that differ in at most ``radius`` bits from each code."""
        answers = self.index.within(codes, radius, among=self._coded(among))
        return self._hits([Ranked.by_distance(answer, self.index.n_bits) for answer in answers])

    def _coded(self, positions: Positions | None) -> Positions | None:
        """Return those of the positions whose documents have a code."""
        return None if positions is None else positions[contains(self.index.arrays()[0], positions)]

    def _hits(self, answers: Sequence[Ranked]) -> list[list[Hit]]:
        """Return the documents of each answer."""
        return read_hits(answers, self.reader)

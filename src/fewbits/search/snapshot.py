"""Snapshots: one state of an engine, from which all answers of a request come, and how it is opened."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fewbits.codes import Packed
from fewbits.data.document import Document, DocumentId
from fewbits.errors import BrokenFolderError, DataError, ParameterError
from fewbits.index import DEFAULT_INDEX, Index, make_index
from fewbits.search.drift import describe
from fewbits.search.embedded import TextEncoder, encode_texts, rank_embedded, read_embeddings
from fewbits.search.encoder import (
    EncodedDocuments,
    EncodedQueries,
    Model,
    empty_query_error,
    read_encoded,
)
from fewbits.search.explain import BitExamples, BitMeaning, Explanation, TermVectors, explain, find_examples
from fewbits.search.lexical import LexicalSnapshot
from fewbits.search.rerank import (
    CODES,
    Hit,
    Ranked,
    RankOptions,
    SearchOptions,
    check_rank_options,
    coded,
    rank,
    read_hits,
    sort_by_field,
)
from fewbits.search.spelling import suggest
from fewbits.search.state import LOCK_TIMEOUT_S, EngineChanges, EngineState
from fewbits.search.store.filters import (
    Allowed,
    Condition,
    FilterCache,
    intersection,
    parse_conditions,
    unknown_in_filters,
)
from fewbits.search.store.reader import Reader
from fewbits.search.words import ParsedQuery, parse, plain, possible_fields
from fewbits.storage import MANIFEST
from fewbits.validation import check_whole_number, evenly_spaced

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Snapshot:
    """One state of an engine: all its methods answer from the same version of the documents."""

    state: EngineState
    version: int  # of the documents
    index: Index  # of all codes
    words: LexicalSnapshot | None  # None for embeddings, and where no words are needed
    reader: Reader
    filters: FilterCache  # of this version
    text_encoder: TextEncoder | None = None  # of an engine of embeddings

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
        return explain(self.model, self.bits(), id, query, self.encode_document(self.position(id)).rows)

    def search_texts(
        self, queries: Sequence[str], k: int | None = None, **options: Unpack[SearchOptions]
    ) -> list[list[Hit] | DataError]:
        """Return the hits of each text, or an error in their place where neither words nor codes can answer."""
        chosen = self._options(k, options, words=self.model.has_words)
        if chosen.rank == CODES:
            parsed = [plain(query) for query in queries]  # codes see all of a query
        else:
            parsed = [parse(query, filter(self.reader.has_field, possible_fields(query))) for query in queries]
        texts, encode = [query.text for query in parsed], self.text_encoder
        encoded = self.model.encode_texts(texts) if self.model.takes_text else encode_texts(self.model, encode, texts)
        answers = [self._rank(query, codes, chosen) for query, codes in zip(parsed, encoded, strict=True)]
        hits = iter(self._hits([answer for answer in answers if answer is not None], chosen))
        return [
            empty_query_error(query, corrected=suggest(self, query).corrected) if answer is None else next(hits)
            for query, answer in zip(queries, answers, strict=True)
        ]

    def search_encoded(
        self, queries: EncodedQueries, k: int | None = None, **options: Unpack[SearchOptions]
    ) -> list[list[Hit]]:
        """Return the documents with the nearest codes of each query."""
        chosen = self._options(k, options)
        return self._hits(rank_embedded(self.model, queries, chosen, options, self.index, self.reader), chosen)

    def similar(self, id: DocumentId, k: int | None, **options: Unpack[SearchOptions]) -> list[Hit]:
        """Return the documents nearest to a stored one; by default by codes, with the confidence of its text's bits."""
        position = self.position(id)
        chosen = replace(self._options(k, options, default=CODES), without=position)
        if chosen.rank == CODES and not chosen.by_confidence:  # the only way for embeddings
            row = read_embeddings(self.model, self.reader, position)
            queries = EncodedQueries(row, self.index.codes([position]), np.ones((1, self.index.n_bits), np.float32))
            return self._hits(rank_embedded(self.model, queries, chosen, options, self.index, self.reader), chosen)[0]
        if not self.model.takes_text:
            raise ParameterError("embeddings are not stored", allowed="rerank none", got="bits")
        [document] = self.reader.get([position])
        answer = self._rank(plain(document.text), self.model.encode_query(document.text), chosen)
        return [] if answer is None else self._hits([answer], chosen)[0]

    def _rank(self, query: ParsedQuery, encoded: EncodedQueries | None, options: RankOptions) -> Ranked | None:
        """Rank the documents for one query; None if neither words nor codes can answer."""
        if query.filters:
            allowed = self.allowed((), [Condition(name, "=", value) for name, value in query.filters], None)
            options = replace(options, allowed=intersection(options.allowed, allowed))
        return rank(query, encoded, options, self.index, self.words)

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
    ) -> Allowed | None:
        """Return the documents that pass all filters; None without filters."""
        passing = self.filters.passing(self.reader, labels, parse_conditions(where)) if labels or where else None
        if among is None:
            return passing
        return intersection(passing, Allowed.of(self.reader.positions(list(among))))

    def within(self, codes: Packed, radius: int, allowed: Allowed | None) -> list[list[Hit]]:
        """Return the documents that differ in at most ``radius`` bits from each code."""
        return self._hits(self.rank_within(codes, radius, allowed))

    def rank_within(self, codes: Packed, radius: int, allowed: Allowed | None) -> list[Ranked]:
        """Rank the documents that differ in at most ``radius`` bits from each code, without reading them."""
        answers = self.index.within(codes, radius, among=coded(self.index, allowed))
        return [Ranked.by_distance(answer, self.index.n_bits) for answer in answers]

    def _options(self, k: int | None, options: SearchOptions, default: str = "", words: bool = False) -> RankOptions:
        """Check the options of a search, and find the documents that pass its filters."""
        takes_text, n_bits = words or self.model.takes_text, self.index.n_bits
        chosen = check_rank_options(k, options, takes_text=takes_text, n_bits=n_bits, default=default or None)
        allowed = self.allowed(options.get("labels", ()), options.get("where", ()), options.get("among"))
        return chosen if allowed is None else replace(chosen, allowed=allowed)

    def _hits(self, answers: Sequence[Ranked], options: RankOptions | None = None) -> list[list[Hit]]:
        """Return the documents of each answer."""
        if options is not None and options.sort is not None:
            answers = [sort_by_field(ranked, options.sort, self.reader) for ranked in answers]
        return read_hits(answers, self.reader)


@dataclass
class VersionedIndex:
    """Index, words and filters of one version of the documents, cached for searches."""

    version: int
    index: Index  # of all codes; it is never changed, so concurrent searches see one version throughout
    words: LexicalSnapshot | None = None  # None until they are needed
    filters: FilterCache = field(default_factory=FilterCache)


class OpenedState:
    """A state of the folder, the stamp that the folder had when it was opened, and a cache of its latest version."""

    def __init__(self, state: EngineState, stamp: object) -> None:
        self.state = state
        self.stamp = stamp
        self._n_bits = state.model.hasher.n_bits
        self._lock = threading.Lock()
        self._cached: VersionedIndex | None = None

    def version_of(self, reader: Reader) -> VersionedIndex | None:
        """Return the version that a reader sees; None if the cache is newer: the caller retries."""
        version = reader.version()
        cached = self._cached
        if cached is None or cached.version < version:
            with self._lock:
                cached = self._cached
                if cached is None or cached.version < version:
                    cached = self._cached = VersionedIndex(version, self._read(reader, cached))
        return cached if cached.version == version else None

    def _read(self, reader: Reader, cached: VersionedIndex | None) -> Index:
        changes = None if cached is None else reader.changes_since(cached.version, self._n_bits)
        if cached is not None and changes is not None:
            return cached.index.with_changes(changes.removed, changes.added, changes.codes)
        index = make_index(DEFAULT_INDEX, self._n_bits)
        index.add(*reader.codes(self._n_bits))
        return index


class EngineStore:
    """The present state of an engine, in memory or in a folder that other processes may change."""

    def __init__(
        self,
        state: EngineState,
        folder: Path | None = None,
        stamp: object = None,
        text_encoder: TextEncoder | None = None,
    ) -> None:
        self._folder = folder
        self._text_encoder = text_encoder
        self._opened = OpenedState(state, stamp)
        self.changes = EngineChanges(folder, lambda: self.latest().state)
        self._open_lock = threading.Lock()

    @classmethod
    def open(cls, folder: Path, *, verify: bool, text_encoder: TextEncoder | None = None) -> EngineStore:
        """Open a saved folder."""
        stamp = folder_stamp(folder)  # before reading: what is saved meanwhile is then seen as newer
        return cls(EngineState.open(folder, verify=verify), folder, stamp, text_encoder)

    def latest(self) -> OpenedState:
        """Return the present state; a folder is reopened if it was saved since."""
        if self._folder is not None and folder_stamp(self._folder) != self._opened.stamp:
            with self._open_lock:
                stamp = folder_stamp(self._folder)
                if stamp != self._opened.stamp:
                    self._opened = OpenedState(EngineState.open(self._folder, verify=False), stamp)
        return self._opened

    @contextmanager
    def snapshot(self, *, with_words: bool = True) -> Iterator[Snapshot]:
        """Open the present state for reading; it stays the same until the block ends.

        Without words it need not wait for the lexical index.
        """
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        with ExitStack() as stack:
            while (snapshot := self._try_snapshot(stack, with_words=with_words, deadline=deadline)) is None:
                stack.close()
            yield snapshot

    def _try_snapshot(self, stack: ExitStack, *, with_words: bool, deadline: float) -> Snapshot | None:
        """Open the present state; None if it was replaced meanwhile, or its words are not up to date."""
        opened = self.latest()
        state = opened.state
        try:
            reader = Reader(stack.enter_context(state.database.reading()))
        except BrokenFolderError:
            if self._folder is None or folder_stamp(self._folder) == opened.stamp:
                raise
            return None  # another save has removed the file
        cached = opened.version_of(reader)
        if cached is None:
            return None
        if with_words and state.words is not None and cached.words is None:
            cached.words = state.words.at(cached.version, reader.count())
            if cached.words is None:
                stack.close()
                self.changes.catch_up(state, deadline)
                return None
        words = cached.words if with_words else None
        return Snapshot(state, cached.version, cached.index, words, reader, cached.filters, self._text_encoder)


def folder_stamp(folder: Path) -> tuple[int, int] | None:
    """Return a value that changes with every save; None if nothing is saved."""
    try:
        status = os.stat(f"{folder}/{MANIFEST}")  # noqa: PTH116 - several times faster
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns

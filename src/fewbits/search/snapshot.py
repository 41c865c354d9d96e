"""One state of an engine: its model, its documents, and an index of their codes kept in memory."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fewbits.codes import Packed
from fewbits.data.document import Document, DocumentId
from fewbits.errors import BrokenFolderError, DataError, ParameterError
from fewbits.index import DEFAULT_INDEX, Index, make_index
from fewbits.search.drift import describe
from fewbits.search.duplicates import DuplicateGroup, duplicate_groups
from fewbits.search.encoder import EncodedDocuments, EncodedQueries, Model, read_encoded
from fewbits.search.explain import BitExamples, BitMeaning, Explanation, MeaningCache, explain, find_examples
from fewbits.search.rerank import (
    Hit,
    Ranked,
    RankOptions,
    SearchOptions,
    TermVectorFile,
    TermVectors,
    check_rank_options,
    rank,
    read_hits,
)
from fewbits.search.store.filters import Condition, parse_conditions, unknown_in_filters
from fewbits.search.store.reader import Database, Positions, Reader
from fewbits.search.store.writer import Writer, check_documents, record_change
from fewbits.storage import check_replaceable, folder_state, load_folder, save_folder, writer_lock
from fewbits.validation import check_whole_number, evenly_spaced

if TYPE_CHECKING:
    from typing_extensions import Unpack

FORMAT = "fewbits engine"
FORMAT_VERSION = 2
DOCUMENTS = "documents.sqlite"
LOCK_TIMEOUT_S = 10.0  # how long a change waits for another writer


@dataclass(frozen=True)
class IndexSnapshot:
    """The index of one version of the documents."""

    version: int
    index: Index
    new: Positions  # documents added or updated since the fit


class IndexCache:
    """A cache of the index of the version that was read last.

    A cached index is never changed: threads that search it see one version to the end.
    """

    def __init__(self, n_bits: int) -> None:
        self._n_bits = n_bits
        self._lock = threading.Lock()
        self._cached: IndexSnapshot | None = None

    def at(self, reader: Reader) -> IndexSnapshot | None:
        """Return the index of the version that a reader sees; None if the cache is newer: the caller retries."""
        version = reader.version()
        cached = self._cached
        if cached is None or cached.version < version:
            with self._lock:
                cached = self._cached
                if cached is None or cached.version < version:
                    cached = self._cached = IndexSnapshot(version, self._read(reader, cached), reader.new_positions())
        return cached if cached.version == version else None

    def _read(self, reader: Reader, cached: IndexSnapshot | None) -> Index:
        changes = None if cached is None else reader.changes_since(cached.version, self._n_bits)
        if cached is None or changes is None:
            positions, codes = reader.codes(self._n_bits)
        else:
            positions, codes = cached.index.arrays()
            kept = ~np.isin(positions, changes.removed)
            codes = np.concatenate([codes[kept], changes.codes])
            positions = np.concatenate([positions[kept], changes.added])
            order = np.argsort(positions, kind="stable")  # the order in which a full read returns them
            positions, codes = positions[order], codes[order]
        index = make_index(DEFAULT_INDEX, self._n_bits)
        index.add(positions, codes)
        return index


class EngineState:
    """A model with its documents: the content of a folder between two saves."""

    def __init__(
        self, model: Model, database: Database, term_vectors: TermVectorFile | None = None, stamp: object = None
    ) -> None:
        self.model = model
        self.database = database
        self.term_vectors = term_vectors
        self.stamp = stamp  # of the folder when it was opened
        self.index_cache = IndexCache(model.hasher.n_bits)
        self.meaning_cache = MeaningCache(model)

    @classmethod
    def open(cls, folder: Path, *, verify: bool) -> EngineState:
        """Open a saved folder."""
        stamp = folder_state(folder)  # before reading, so that a save in the meantime is detected

        def read(generation: Path) -> EngineState:
            database = Database.open(generation / DOCUMENTS)
            if verify:
                with database.reading() as connection:
                    check_documents(connection)
            return cls(Model.read(generation), database, TermVectorFile.read(generation), stamp)

        return load_folder(folder, FORMAT, FORMAT_VERSION, read, verify=verify, oldest=FORMAT_VERSION)

    def save(self, folder: Path) -> None:
        """Save to a folder, which is replaced as a whole."""

        def write(generation: Path) -> None:
            self.model.write(generation)
            with self.database.copied_to(generation / DOCUMENTS) as copy:
                if self.model.takes_text:
                    TermVectorFile.write(generation, Reader(copy), self.model.features.n_features)

        save_folder(folder, FORMAT, FORMAT_VERSION, write, mutable_files=[DOCUMENTS])


class EngineStore:
    """The present state of an engine, in memory or in a folder that other processes may change."""

    def __init__(self, state: EngineState, folder: Path | None = None) -> None:
        self._state = state
        self._folder = folder
        self._write_lock = threading.RLock()
        self._open_lock = threading.Lock()

    def latest(self) -> EngineState:
        """Return the present state; a folder is reopened if it was saved since."""
        if self._folder is not None and folder_state(self._folder) != self._state.stamp:
            with self._open_lock:
                if folder_state(self._folder) != self._state.stamp:
                    self._state = EngineState.open(self._folder, verify=False)
        return self._state

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Open the present state for reading; it stays the same until the block ends."""
        with ExitStack() as stack:
            while (snapshot := self._try_snapshot(stack)) is None:
                stack.close()
            yield snapshot

    def _try_snapshot(self, stack: ExitStack) -> Snapshot | None:
        """Open the present state; None if it was replaced meanwhile."""
        state = self.latest()
        try:
            reader = Reader(stack.enter_context(state.database.reading()))
        except BrokenFolderError:
            if self._folder is None or folder_state(self._folder) == state.stamp:
                raise
            return None  # another save has removed the file
        indexed = state.index_cache.at(reader)
        return None if indexed is None else Snapshot(state, indexed, reader)

    @contextmanager
    def writer(self) -> Iterator[tuple[Model, Writer]]:
        """Open the present state for one change, which becomes visible when the block ends."""
        lock: AbstractContextManager[None] = nullcontext()
        if self._folder is not None:
            lock = writer_lock(self._folder, LOCK_TIMEOUT_S)
        with self._write_lock, lock:
            state = self.latest()  # it cannot be replaced while the lock is held
            with record_change(state.database) as writer:
                yield state.model, writer


@dataclass(frozen=True)
class Snapshot:
    """One state of an engine: all its methods answer from the same version of the documents."""

    state: EngineState
    indexed: IndexSnapshot
    reader: Reader

    @property
    def model(self) -> Model:
        """Return the fitted model."""
        return self.state.model

    @property
    def index(self) -> Index:
        """Return the index of all codes."""
        return self.indexed.index

    @property
    def term_vectors(self) -> TermVectors:
        """Return the stored tf-idf rows of all documents."""
        return TermVectors(self.reader, self.state.term_vectors, self.indexed.new, self.model.features.n_features)

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
        return self.state.meaning_cache.at(self.indexed.version, self.index, self.term_vectors)

    def bit_examples(self, bit: int, k: int = 5) -> BitExamples:
        """Return the words of one bit, and for each value the documents with the largest margin."""
        check_whole_number("bit", bit, 0, self.index.n_bits - 1)
        return find_examples(self.model, self.bits()[bit], self.index, self.term_vectors, self.reader, k)

    def explain(self, query: EncodedQueries, id: DocumentId) -> Explanation:
        """Explain the distance between a query and a document."""
        return explain(self.model, self.bits(), id, query.rows, self.encode_document(self.position(id)).rows)

    def rank_options(
        self, k: int | None, *, without: int | None = None, default: str | None = None, **options: Unpack[SearchOptions]
    ) -> RankOptions:
        """Check the options of a search; ``without`` is the position of a document to leave out."""
        among = self.allowed(options.get("labels", ()), options.get("where", ()), options.get("among"))
        return check_rank_options(
            k,
            options.get("rerank") or options.get("rescore") or default,
            options.get("shortlist"),
            takes_text=self.model.takes_text,
            available=len(self.index) - (without is not None),
            among=among,
            without=without,
        )

    def search(self, queries: EncodedQueries, options: RankOptions) -> list[list[Hit]]:
        """Return the nearest documents of each query."""
        return self.hits(rank(queries, options, self.index, self.term_vectors))

    def similar(self, position: int, options: RankOptions) -> list[Hit]:
        """Return the documents nearest to a stored one."""
        if options.rerank == "none":  # the stored code is enough: embeddings are not stored
            queries = EncodedQueries(None, self.index.codes([position]), np.ones((1, self.index.n_bits), np.float32))
        elif self.model.takes_text:
            queries = self.encode_document(position)
        else:
            raise ParameterError("embeddings are not stored", allowed="rerank none", got=repr(options.rerank))
        return self.search(queries, options)[0]

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
        """Return the positions of documents that pass all filters and have a code; None without filters."""
        chosen: Positions | None = None
        if labels or where:
            chosen = self.reader.matching(labels, parse_conditions(where))
        if among is not None:
            named = np.array(self.reader.positions(list(among)), dtype=np.int64)
            chosen = named if chosen is None else np.intersect1d(chosen, named)
        return None if chosen is None else chosen[np.isin(chosen, self.index.arrays()[0])]

    def hits(self, answers: Sequence[Ranked]) -> list[list[Hit]]:
        """Return the documents of each answer."""
        return read_hits(answers, self.reader)


def check_engine_folder(folder: str | Path) -> None:
    """Check that an engine may be saved to a folder; call it before a long fit."""
    check_replaceable(Path(folder), FORMAT)

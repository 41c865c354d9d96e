"""The engine a user holds: a model and its documents, in memory or in a folder that changes in place."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fewbits.codes import Packed, n_bytes
from fewbits.data.document import Document, DocumentId
from fewbits.errors import BrokenFolderError, DataError, ParameterError
from fewbits.features import Embeddings, TextVectorizer
from fewbits.hashers.base import Hasher
from fewbits.hashers.registry import find_method
from fewbits.search.drift import measure_drift
from fewbits.search.duplicates import check_alike, duplicate_groups
from fewbits.search.encoder import Model, empty_query_error, nonzero_rows
from fewbits.search.explain import BitExamples, BitMeaning, Explanation, examples, explain
from fewbits.search.fitting import (
    FitOptions,
    blocks,
    check_same_number,
    documents_of,
    from_fitted,
    learn_from_embeddings,
    learn_from_texts,
    store_codes,
)
from fewbits.search.rerank import Ranked, TermVectorFile, check_rescoring, rank, rank_many
from fewbits.search.snapshot import EncodedDocuments, EngineState, Hit, Snapshot, conditions_of, read_encoded
from fewbits.search.store.database import Database
from fewbits.search.store.documents import Reader, Writer
from fewbits.search.store.filters import Condition
from fewbits.storage import check_replaceable, load_folder, save_folder, state_of, writer_lock
from fewbits.validation import check_whole_number

FORMAT = "fewbits engine"
FORMAT_VERSION = 2
DOCUMENTS = "documents.sqlite"
DEFAULT_HITS = 10
LEARN_FROM = 50_000  # documents are enough to learn from
INTERNAL = ("bit_balance", "unknown_words", "notes", "documents_when_learnt")  # facts that info has no use for
ALIKE = 0.8  # cosine of the words from which documents are near-duplicates
LOCK_TIMEOUT_S = 10.0  # seconds that a change waits for the one before it


@dataclass(frozen=True)
class DuplicateGroup:
    """Documents that a chain of near-duplicates connects; the first that was added stands for all."""

    representative: DocumentId
    others: tuple[DocumentId, ...]


class SearchEngine:
    """Search documents by their codes.

    Made by :meth:`from_texts`, :meth:`from_documents`, :meth:`from_embeddings` or :meth:`load`. A loaded engine *is*
    its folder: a change is on the disk when the call returns, and every search sees the latest complete state, whoever
    made it. Any number of threads and processes may search while one changes.

    >>> texts = ["cats purr softly", "kittens and cats purr", "stocks fell sharply", "stocks and bonds fell"]
    >>> engine = SearchEngine.from_texts(texts, n_bits=16, random_state=0)
    >>> sorted(hit.id for hit in engine.search("purring cats", k=2))
    [0, 1]
    """

    def __init__(self, opened: EngineState, folder: Path | None = None) -> None:
        self._opened = opened
        self._folder = folder
        self._writing = threading.RLock()
        self._opening = threading.Lock()

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        *,
        n_bits: int = 64,
        method: str | None = None,
        vectorizer: TextVectorizer | None = None,
        learn_from: int | None = LEARN_FROM,
        random_state: Any = 0,
        verbose: bool = False,
        notes: Mapping[str, Any] | None = None,
    ) -> SearchEngine:
        """Learn codes for documents, which may be a stream: their texts are never all in memory.

        Without a ``method``, :class:`fewbits.PairwiseHasher` learns where documents have labels, and
        :class:`fewbits.BernoulliVAE` where they have none. Where there are more than ``learn_from`` documents, codes
        are learnt from a random choice of so many, at least half of them labelled if so many are; None takes them all.
        With ``verbose`` progress is shown on standard error. ``notes`` (JSON) are kept among the facts. A document
        without a known word has no place among the codes: it is kept, but never found by search.
        """
        wishes = FitOptions(n_bits, method, random_state, learn_from, verbose, notes or {})
        return cls(EngineState(*learn_from_texts(documents, vectorizer, wishes)))

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        *,
        ids: Iterable[DocumentId] | None = None,
        labels: Iterable[Any] | None = None,
        **options: Any,
    ) -> SearchEngine:
        """Learn codes for texts. Ids are positions unless given; labels are one name, several, or None a text.

        The other options are those of :meth:`from_documents`.
        """
        return cls.from_documents(documents_of(texts, ids, labels), **options)

    @classmethod
    def from_embeddings(
        cls,
        embeddings: ArrayLike,
        *,
        documents: Iterable[Document] | None = None,
        n_bits: int = 64,
        method: str | None = None,
        learn_from: int | None = LEARN_FROM,
        random_state: Any = 0,
        notes: Mapping[str, Any] | None = None,
    ) -> SearchEngine:
        """Learn codes for embeddings of the user's own (documents x dimensions); queries are embeddings too.

        ``documents`` give ids, texts and labels in the same order; without them ids are positions.
        """
        wishes = FitOptions(n_bits, method, random_state, learn_from, notes=notes or {})
        return cls(EngineState(*learn_from_embeddings(embeddings, documents, wishes)))

    @classmethod
    def from_parts(
        cls,
        features: TextVectorizer | Embeddings,
        hasher: Hasher,
        documents: Iterable[Document],
        rows: Any,
        facts: dict[str, Any],
    ) -> SearchEngine:
        """Put an engine together from parts that were fitted elsewhere, and documents with their features."""
        return cls(EngineState(*from_fitted(features, hasher, documents, rows, facts)))

    @classmethod
    def load(cls, folder: str | Path, *, verify: bool = True) -> SearchEngine:
        """Open a saved folder after checking it; changes to the engine are changes to the folder.

        Parameters
        ----------
        verify : bool, default=True
            Read everything and compute its checksums; else large files are checked by their size only, and documents
            when they are read.
        """
        path = Path(folder)
        return cls(_open(path, verify=verify), path)

    def save(self, folder: str | Path) -> None:
        """Save everything as one folder, which is replaced as a whole; later changes to it need :meth:`load`."""
        opened = self._latest()

        def write(generation: Path) -> None:
            opened.model.write(generation)
            with opened.database.copied_to(generation / DOCUMENTS) as copy:
                if opened.model.takes_text:
                    TermVectorFile.write(generation, Reader(copy), opened.model.features.n_features)

        save_folder(Path(folder), FORMAT, FORMAT_VERSION, write, mutable_files=[DOCUMENTS])

    @staticmethod
    def check_folder(folder: str | Path) -> None:
        """Tell before any long work whether an engine may be saved in a folder."""
        check_replaceable(Path(folder), FORMAT)

    @property
    def features(self) -> TextVectorizer | Embeddings:
        """What turns texts or embeddings into rows."""
        return self._latest().model.features

    @property
    def hasher(self) -> Hasher:
        """What turns rows into codes."""
        return self._latest().model.hasher

    @property
    def facts(self) -> dict[str, Any]:
        """How the codes were learnt."""
        return dict(self._latest().model.facts)

    @property
    def n_bits(self) -> int:
        """Length of the codes."""
        return self.hasher.n_bits

    def __len__(self) -> int:
        with self._view() as view:
            return len(view.index)

    def __contains__(self, id: DocumentId) -> bool:
        with self._view() as view:
            return id in view.reader

    def add(self, documents: Iterable[Document], embeddings: ArrayLike | None = None) -> int:
        """Add documents, encoded by the model as it is, and return their number; if one cannot be added, none is.

        ``embeddings`` go with the documents where the engine was made from embeddings.
        """
        return self._change(documents, embeddings, lambda writer, block: writer.insert(block, are_new=True))

    def update(self, documents: Iterable[Document], embeddings: ArrayLike | None = None) -> int:
        """Put documents in the place of those with the same ids, which must be there; if one cannot be, none is."""
        return self._change(documents, embeddings, lambda writer, block: writer.replace(block))

    def remove(self, ids: Iterable[DocumentId]) -> int:
        """Remove documents and return their number; an unknown id is an error, and nothing is removed."""
        if isinstance(ids, (str, bytes)):
            raise DataError("one id is no list of ids", got=repr(ids), hint="Put it into a list: [id]")
        gone = list(ids)
        with self._writer() as (_, writer):
            writer.remove(gone)
        return len(gone)

    def encode(self, inputs: Any) -> Packed:
        """Packed codes of texts (or of embeddings, where the engine was made from them)."""
        model = self._latest().model
        return model.encode(model.rows(inputs))

    def codes(self, ids: Sequence[DocumentId]) -> Packed:
        """Packed codes of documents of the engine."""
        with self._view() as view:
            return view.index.codes([view.position(id) for id in ids])

    def coded(self) -> EncodedDocuments:
        """Ids, labels and codes of all documents that have a code, of one state."""
        with self._view() as view:
            return read_encoded(view.reader, view.model)

    def count(self) -> int:
        """All documents, those without a known word too."""
        with self._view() as view:
            return view.reader.count()

    def kind_of_ids(self) -> type | None:
        """What ids are, ``str`` or ``int``; None where there are no documents."""
        with self._view() as view:
            return view.reader.kind_of_ids()

    def document(self, id: DocumentId) -> Document:
        """The document with an id."""
        with self._view() as view:
            return view.reader.get(view.reader.positions([id]))[0]

    def documents(self) -> Iterator[Document]:
        """All documents of one state, in order of insertion."""
        with self._view() as view:
            yield from view.reader.all()

    def search(
        self,
        query: str | ArrayLike,
        k: int | None = None,
        *,
        labels: Sequence[str] = (),
        where: Sequence[str | Condition] = (),
        among: Sequence[DocumentId] | None = None,
        rescore: str | None = None,
        shortlist: int | None = None,
    ) -> list[Hit]:
        """The k documents nearest to a text (or an embedding); ten, or as many as there are, without ``k``.

        Parameters
        ----------
        labels, where, among : sequences
            Only documents with one of the labels, that pass all conditions on their metadata (``"year>=2020"``), and
            whose id is in a list.
        rescore : {"none", "bits", "words"}, optional
            What decides the order: the number of differing bits; that number with each bit weighed by how sure the
            query is of it; or the cosine of the words of a shortlist found by the second. Words by default, or none
            for embeddings, because a query of few words says little to a code.
        shortlist : int, default=3000
            Documents whose words are looked at.
        """
        with self._view() as view:
            row = view.model.query_row(query)
            wanted = _check_hits(k, len(view.index))
            found = rank(
                view.words,
                view.index,
                view.model,
                row,
                wanted,
                rescore=check_rescoring(rescore, "words", view.model),
                shortlist=shortlist,
                among=view.allowed(labels, where, among),
            )
            return view.hits(found)

    def search_many(
        self,
        queries: Sequence[str],
        k: int | None = None,
        *,
        labels: Sequence[str] = (),
        where: Sequence[str | Condition] = (),
        rescore: str | None = None,
        shortlist: int | None = None,
    ) -> list[list[Hit] | DataError]:
        """As :meth:`search` for many texts at once; a text that says nothing gets its error in the place of hits."""
        with self._view() as view:
            model = view.model
            if not model.takes_text:
                raise DataError("the query is of another kind", allowed="an embedding", got="str")
            rows = model.rows(queries)
            known = np.flatnonzero(nonzero_rows(rows))
            found = rank_many(
                view.words,
                view.index,
                model,
                rows[known],
                _check_hits(k, len(view.index)),
                rescore=check_rescoring(rescore, "words", model),
                shortlist=shortlist,
                among=view.allowed(labels, where, None),
            )
            answers: list[list[Hit] | DataError] = [empty_query_error(query) for query in queries]
            for place, hits in zip(known.tolist(), view.hits_of_many(found), strict=True):
                answers[place] = hits
            return answers

    def within(
        self,
        query: str | ArrayLike,
        radius: int,
        *,
        labels: Sequence[str] = (),
        where: Sequence[str | Condition] = (),
        among: Sequence[DocumentId] | None = None,
    ) -> list[Hit]:
        """All documents that differ from a query in at most ``radius`` bits, nearest first."""
        with self._view() as view:
            code = view.model.encode(view.model.query_row(query))
            [answer] = view.index.within(code, radius, among=view.allowed(labels, where, among))
            return view.hits(Ranked.by_distance(answer, view.index.n_bits))

    def similar(
        self,
        id: DocumentId,
        k: int | None = None,
        *,
        labels: Sequence[str] = (),
        where: Sequence[str | Condition] = (),
        rescore: str | None = None,
        shortlist: int | None = None,
    ) -> list[Hit]:
        """The k documents nearest to a document of the engine, itself left out: by default by their codes alone."""
        with self._view() as view:
            position = view.position(id)
            wanted = _check_hits(k, len(view.index) - 1)
            rescoring = check_rescoring(rescore, "none", view.model)
            allowed = view.allowed(labels, where, None)
            if rescoring == "none":
                # One more than wanted; documents with the same code may stand before it and push it out.
                [answer] = view.index.search(view.index.codes([position]), wanted + 1, among=allowed)
                found = Ranked.by_distance(answer, view.index.n_bits)
            else:
                if not view.model.takes_text:
                    raise ParameterError("embeddings are not kept", allowed="rescore none", got=repr(rescore))
                [document] = view.reader.get([position])
                found = rank(
                    view.words,
                    view.index,
                    view.model,
                    view.model.query_row(document.text),
                    wanted + 1,
                    rescore=rescoring,
                    shortlist=shortlist,
                    among=allowed,
                )
            return view.hits(found.first(wanted, without=position))

    def bits(self) -> list[BitMeaning]:
        """What each bit is about: the words that it raises and lowers most."""
        with self._view() as view:
            return view.meanings()

    def bit_examples(self, bit: int, k: int = 5) -> BitExamples:
        """What one bit is about, and documents that are sure of it, on both sides."""
        with self._view() as view:
            check_whole_number("bit", bit, 0, view.index.n_bits - 1)
            return examples(view.model, view.meanings()[bit], view.index, view.reader, k)

    def warm_up(self) -> None:
        """Do now what the first of many searches would wait for."""
        with self._view() as view:
            view.index.expect_weighted()
            if view.model.takes_text and len(view.index):
                view.meanings()

    def unknown_in_filters(self, labels: Sequence[str] = (), where: Sequence[str | Condition] = ()) -> list[str]:
        """Sentences on labels and fields of filters that no document has, and which there are."""
        with self._view() as view:
            return view.reader.unknown_in_filters(labels, conditions_of(where))

    def labels(self) -> dict[str, int]:
        """How many documents have each label, most first."""
        with self._view() as view:
            return view.reader.label_counts()

    def sample(self, size: int) -> tuple[list[Document], Packed]:
        """Documents at even steps through all that have a code, at most so many, with their codes."""
        with self._view() as view:
            positions = np.asarray(view.index.ids(), dtype=np.int64)
            chosen = positions[np.linspace(0, len(positions) - 1, min(size, len(positions))).astype(np.int64)]
            return view.reader.get(chosen.tolist()), view.index.codes(chosen)

    def read_id(self, written: str) -> DocumentId:
        """An id as this engine has it: a number where its ids are numbers."""
        return int(written) if self.kind_of_ids() is int and re.fullmatch(r"-?[0-9]{1,19}", written) else written

    def explain(self, query: str, id: DocumentId) -> Explanation:
        """Why a document is as near to a text as it is: bit by bit, and word by word."""
        return self._explain(lambda view: view.model.query_row(query), id)

    def explain_similar(self, id: DocumentId, other: DocumentId) -> Explanation:
        """Why two documents of the engine are as near to each other as they are."""

        def row(view: Snapshot) -> Any:
            [document] = view.reader.get([view.position(id)])
            return view.model.query_row(document.text)

        return self._explain(row, other)

    def duplicates(self, radius: int = 3, alike: float = ALIKE) -> list[DuplicateGroup]:
        """Groups of two documents or more that a chain of near-duplicates connects.

        Near-duplicates differ in at most ``radius`` bits, and the cosine of their words is at least ``alike``: codes
        say what documents are about, and many are about the same. With 0, or embeddings, codes alone decide.
        """
        check_alike(alike)
        with self._view() as view:
            positions, codes = view.index.arrays()
            words = view.words if view.model.takes_text else None
            several = duplicate_groups(positions, codes, view.index.n_bits, words, radius, alike)
            named = view.reader.ids_of(np.concatenate(several)) if several else {}
            groups_of_ids = ([named[position] for position in rows.tolist()] for rows in several)
            return [DuplicateGroup(first, tuple(others)) for first, *others in groups_of_ids]

    def without_duplicates(self, radius: int = 3, alike: float = ALIKE) -> Iterator[Document]:
        """All documents but those for which another one stands, in order of insertion."""
        left_out = {id for group in self.duplicates(radius, alike) for id in group.others}
        return (document for document in self.documents() if document.id not in left_out)

    def info(self) -> dict[str, Any]:
        """What the engine is made of, and how new documents differ from those it learnt from."""
        with self._view() as view:
            model, count = view.model, view.reader.count()
            facts = {name: value for name, value in model.facts.items() if name not in INTERNAL}
            return {
                "documents": count,
                "documents_without_known_words": count - len(view.index),
                "bits": view.index.n_bits,
                "bytes_per_document": n_bytes(view.index.n_bits),
                "metadata": view.reader.fields(),
                "features": model.kind,
                "n_features": model.features.n_features,
                "setting": find_method(model.facts["method"]).setting,
                **facts,
                "drift": asdict(measure_drift(view.reader, model)),
            }

    def _latest(self) -> EngineState:
        """What the folder holds now, at the cost of a look where nothing was saved since."""
        if self._folder is not None and state_of(self._folder) != self._opened.state:
            with self._opening:
                if state_of(self._folder) != self._opened.state:
                    self._opened = _open(self._folder, verify=False)
        return self._opened

    @contextmanager
    def _view(self) -> Iterator[Snapshot]:
        with ExitStack() as stack:
            view = self._look(stack)
            while view is None:
                stack.close()
                view = self._look(stack)
            yield view

    def _look(self, stack: ExitStack) -> Snapshot | None:
        """One state of the engine; None where it has moved on meanwhile."""
        opened = self._latest()
        try:
            reader = Reader(stack.enter_context(opened.database.reading()))
        except BrokenFolderError:
            if self._folder is None or state_of(self._folder) == opened.state:
                raise
            return None  # replaced by another, and removed, since we looked
        held = opened.codes.at(reader)
        return None if held is None else Snapshot(opened, held, reader)

    @contextmanager
    def _writer(self) -> Iterator[tuple[Model, Writer]]:
        turn: AbstractContextManager[None] = nullcontext()
        if self._folder is not None:
            turn = writer_lock(self._folder, LOCK_TIMEOUT_S)
        with self._writing, turn:
            opened = self._latest()  # and nobody replaces it before we are done
            with opened.database.writing() as connection:
                writer = Writer(connection)
                yield opened.model, writer
                writer.finish()

    def _change(
        self,
        documents: Iterable[Document],
        embeddings: ArrayLike | None,
        put: Callable[[Writer, list[Document]], list[int]],
    ) -> int:
        with self._writer() as (model, writer):
            if (embeddings is None) != model.takes_text:
                expected = "documents alone" if model.takes_text else "documents with embeddings"
                raise DataError("this engine takes another kind of input", allowed=expected)
            rows = None if embeddings is None else model.rows(embeddings)
            count = 0
            for block in blocks(documents):
                part = model.rows(document.text for document in block) if rows is None else rows[count:][: len(block)]
                count += len(block)
                check_same_number(part.shape[0], len(block))
                store_codes(writer, model, np.array(put(writer, block), dtype=np.int64), part)
            if rows is not None:
                check_same_number(len(rows), count)
        return count

    def _explain(self, query_row: Callable[[Snapshot], Any], id: DocumentId) -> Explanation:
        with self._view() as view:
            meanings = view.meanings()
            row = query_row(view)
            [document] = view.reader.get([view.position(id)])
            return explain(view.model, meanings, id, row, view.model.query_row(document.text))


def _open(folder: Path, *, verify: bool) -> EngineState:
    state = state_of(folder)  # before reading: what is saved meanwhile is then seen as newer

    def read(generation: Path) -> EngineState:
        database = Database.open(generation / DOCUMENTS)
        if verify:
            with database.reading() as connection:
                Reader(connection).check()
        return EngineState(Model.read(generation), database, TermVectorFile.read(generation), state)

    return load_folder(folder, FORMAT, FORMAT_VERSION, read, verify=verify, oldest=FORMAT_VERSION)


def _check_hits(k: int | None, available: int) -> int:
    """Ten hits, or as many as there are, unless a number is asked for; that many there must be."""
    if k is None:
        return min(DEFAULT_HITS, available)
    hint = "Ask for fewer hits, or leave k out." if k != 0 else ""
    return check_whole_number("k, the number of hits,", k, 1, available, why=", the documents to find", hint=hint)

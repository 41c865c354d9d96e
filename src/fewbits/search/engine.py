"""The engine a user holds: features, hasher, index and documents, saved and loaded as one folder."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import clone

from fewbits.checks import check_whole_number
from fewbits.codes import Packed, check_n_bits, n_bytes, pack
from fewbits.corpus.document import Document, DocumentId
from fewbits.corpus.labels import label_table
from fewbits.errors import DataError
from fewbits.features import Embeddings, TextVectorizer
from fewbits.files import check_replaceable, load_folder, read_json, save_folder, write_json
from fewbits.hashers.base import Hasher
from fewbits.hashers.registry import (
    OF_EMBEDDINGS,
    WITH_LABELS,
    WITHOUT_LABELS,
    find_method,
    make_hasher,
    read_hasher,
    write_hasher,
)
from fewbits.index import FlatIndex, Index, Neighbours
from fewbits.search.documents import DocumentStore

FORMAT = "fewbits engine"
FORMAT_VERSION = 1
DEFAULT_HITS = 10
BLOCK = 65_536  # rows whose bits are held unpacked at one time

Features = TextVectorizer | Embeddings
FEATURES: dict[str, type[TextVectorizer] | type[Embeddings]] = {
    "text": TextVectorizer,
    "embeddings": Embeddings,
}


_MISSING = object()


@dataclass(frozen=True)
class Hit:
    """A document that was found, and how many bits of its code differ from the query's."""

    id: DocumentId
    distance: int
    text: str
    labels: tuple[str, ...]


class SearchEngine:
    """Search documents by their codes.

    Made by :meth:`from_texts`, :meth:`from_documents`, :meth:`from_embeddings` or :meth:`load`.

    >>> texts = ["cats purr softly", "kittens and cats purr", "stocks fell sharply", "stocks and bonds fell"]
    >>> engine = SearchEngine.from_texts(texts, n_bits=16, random_state=0)
    >>> sorted(hit.id for hit in engine.search("purring cats", k=2))
    [0, 1]
    """

    def __init__(
        self,
        features: Features,
        hasher: Hasher,
        index: Index,
        documents: DocumentStore,
        facts: dict[str, Any],
    ) -> None:
        self.features = features
        self.hasher = hasher
        self.index = index
        self.documents = documents
        self.facts = facts

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        *,
        n_bits: int = 64,
        method: str | None = None,
        vectorizer: TextVectorizer | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> SearchEngine:
        """Learn codes for documents, which may be a stream: their texts are never all in memory.

        Without a ``method``, :class:`fewbits.PairwiseHasher` learns where documents have labels, and
        :class:`fewbits.BernoulliVAE` where they have none. With ``verbose`` progress is shown on standard error. A
        document without a known word has no place among the codes: it is kept, but never found by search.
        """
        _check_wishes(n_bits, method)
        features = TextVectorizer() if vectorizer is None else clone(vectorizer)
        store = DocumentStore.create()
        rows = features.fit_transform(document.text for document in store.collect(documents))
        return cls._learn(features, rows, store, method, n_bits, random_state, verbose=verbose)

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        *,
        ids: Iterable[DocumentId] | None = None,
        labels: Iterable[Any] | None = None,
        n_bits: int = 64,
        method: str | None = None,
        vectorizer: TextVectorizer | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> SearchEngine:
        """Learn codes for texts. Ids are positions unless given; labels are one name, several, or None a text."""
        documents = _documents(texts, ids, labels)
        return cls.from_documents(
            documents,
            n_bits=n_bits,
            method=method,
            vectorizer=vectorizer,
            random_state=random_state,
            verbose=verbose,
        )

    @classmethod
    def from_embeddings(
        cls,
        embeddings: ArrayLike,
        *,
        documents: Iterable[Document] | None = None,
        n_bits: int = 64,
        method: str | None = None,
        random_state: Any = 0,
    ) -> SearchEngine:
        """Learn codes for embeddings of the user's own (documents x dimensions); queries are embeddings too.

        ``documents`` give ids, texts and labels in the same order; without them ids are positions.
        """
        _check_wishes(n_bits, method)
        features = Embeddings()
        rows = features.fit_transform(embeddings)
        if documents is None:
            documents = (Document(position, "") for position in range(len(rows)))
        store = DocumentStore.create()
        _check_same_number(len(rows), sum(1 for _ in store.collect(documents)))
        return cls._learn(features, rows, store, method or OF_EMBEDDINGS, n_bits, random_state)

    @classmethod
    def _learn(
        cls,
        features: Features,
        rows: Any,
        store: DocumentStore,
        method: str | None,
        n_bits: int,
        random_state: Any,
        *,
        verbose: bool = False,
    ) -> SearchEngine:
        labels, label_names = label_table(store.label_sets())
        if method is None:
            method = WITH_LABELS if len(label_names) > 1 else WITHOUT_LABELS
        hasher = make_hasher(method, n_bits, random_state)
        if verbose and "verbose" in hasher.get_params():
            hasher.set_params(verbose=True)
        known = _has_content(rows)
        hasher.fit(rows[known], labels[known] if label_names else None)
        facts = {
            "method": method,
            "documents_learnt_from": rows.shape[0],
            "label_names": len(label_names),
            "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "fewbits": version("fewbits"),
        }
        engine = cls(features, hasher, FlatIndex(hasher.n_bits), store, facts)
        engine._index_rows(store.ids(), rows)
        return engine

    @property
    def n_bits(self) -> int:
        """Length of the codes."""
        return self.index.n_bits

    def __len__(self) -> int:
        return len(self.index)

    def add(self, documents: Iterable[Document], embeddings: ArrayLike | None = None) -> None:
        """Add documents, encoded by the model as it is; if one cannot be added, none is.

        ``embeddings`` go with the documents where the engine was made from embeddings. Any number of threads may
        search at one time, but not while one adds.
        """
        if (embeddings is None) == isinstance(self.features, Embeddings):
            expected = "documents with embeddings" if embeddings is None else "documents alone"
            raise DataError("this engine takes another kind of input", allowed=expected)
        store = self.documents.writable()
        with store.all_or_none():
            before = len(store)
            passing = store.collect(documents)
            inputs: Any = (document.text for document in passing) if embeddings is None else embeddings
            rows = self.features.transform(inputs)
            if embeddings is not None:
                _check_same_number(len(rows), sum(1 for _ in passing))
            self._index_rows(store.ids(start=before), rows)
        self.documents = store

    def encode(self, inputs: Any) -> Packed:
        """Packed codes of texts (or of embeddings, where the engine was made from them)."""
        return _packed_codes(self.hasher, self.features.transform(inputs))

    def search(
        self, query: str | ArrayLike, k: int | None = None, *, among: Sequence[DocumentId] | None = None
    ) -> list[Hit]:
        """The k documents nearest to a text (or an embedding), all of them or ``among`` some ids.

        Without ``k`` there are ten hits, or as many as there are documents.
        """
        [answer] = self.index.search(self._query_code(query), _check_hits(k, len(self)), among=among)
        return self._read(answer)

    def within(self, query: str | ArrayLike, radius: int, *, among: Sequence[DocumentId] | None = None) -> list[Hit]:
        """All documents that differ from a query in at most ``radius`` bits."""
        [answer] = self.index.within(self._query_code(query), radius, among=among)
        return self._read(answer)

    def similar(self, id: DocumentId, k: int | None = None) -> list[Hit]:
        """The k documents nearest to a document of the engine, itself left out."""
        [document] = self.documents.get([id])
        if document.id not in self.index:
            raise DataError(f"the document {id!r} has no word that this engine knows", hint="Search by a text instead.")
        code = self.index.codes([id])
        wanted = _check_hits(k, len(self) - 1)
        # One more than wanted; documents with the same code may stand before it and push it out.
        [answer] = self.index.search(code, wanted + 1)
        others = answer.ids != id
        return self._read(Neighbours(answer.ids[others][:wanted], answer.distances[others][:wanted]))

    def info(self) -> dict[str, Any]:
        """What the engine is made of."""
        return {
            "documents": len(self.documents),
            "documents_without_known_words": len(self.documents) - len(self.index),
            "bits": self.n_bits,
            "bytes_per_document": n_bytes(self.n_bits),
            "features": _kind(self.features),
            "n_features": self.features.n_features,
            "setting": find_method(self.facts["method"]).setting,
            **self.facts,
        }

    def save(self, folder: str | Path) -> None:
        """Save everything as one folder, which is replaced as a whole."""
        save_folder(Path(folder), FORMAT, FORMAT_VERSION, self._write)

    @classmethod
    def load(cls, folder: str | Path, *, memory_map: bool = False, verify: bool = True) -> SearchEngine:
        """Load a saved folder after checking it.

        Parameters
        ----------
        memory_map : bool, default=False
            Leave the codes on disk until they are needed.
        verify : bool, default=True
            Compute the checksum of every file; else large ones are checked by their size only.
        """

        def read(generation: Path) -> SearchEngine:
            facts = read_json(generation / "engine.json")
            return cls(
                FEATURES[facts.pop("features")].read(generation / "features"),
                read_hasher(generation / "hasher"),
                FlatIndex.read(generation / "index", memory_map=memory_map),
                DocumentStore.open(generation / "documents.sqlite"),
                facts,
            )

        return load_folder(Path(folder), FORMAT, FORMAT_VERSION, read, verify=verify)

    @staticmethod
    def check_folder(folder: str | Path) -> None:
        """Tell before any long work whether an engine may be saved in a folder."""
        check_replaceable(Path(folder), FORMAT)

    def _write(self, folder: Path) -> None:
        for name in ("features", "hasher", "index"):
            (folder / name).mkdir()
        self.features.write(folder / "features")
        write_hasher(self.hasher, folder / "hasher")
        self.index.write(folder / "index")
        self.documents.write(folder / "documents.sqlite")
        write_json(folder / "engine.json", {"features": _kind(self.features), **self.facts})

    def _query_code(self, query: Any) -> Packed:
        if isinstance(query, str) == isinstance(self.features, Embeddings):
            expected = "an embedding" if isinstance(self.features, Embeddings) else "a text"
            raise DataError("the query is of another kind", allowed=expected, got=type(query).__name__)
        row = self.features.transform([query] if isinstance(query, str) else query)
        if row.shape[0] != 1:
            raise DataError("one query at a time", got=row.shape[0])
        if not _has_content(row).all():
            raise DataError(
                "the query says nothing to this engine",
                allowed="one word or more of its vocabulary",
                got=repr(query)[:60],
                hint="Use other or more words.",
            )
        return pack(self.hasher.transform(row))

    def _index_rows(self, ids: list[DocumentId], rows: Any) -> None:
        known = np.flatnonzero(_has_content(rows))
        self.index.add([ids[row] for row in known], _packed_codes(self.hasher, rows[known]))

    def _read(self, answer: Neighbours) -> list[Hit]:
        ids = answer.ids.tolist()
        found = zip(self.documents.get(ids), answer.distances.tolist(), strict=True)
        return [Hit(document.id, distance, document.text, document.labels) for document, distance in found]


def _check_wishes(n_bits: int, method: str | None) -> None:
    """Before documents are read."""
    check_n_bits(n_bits)
    if method is not None:
        find_method(method)


def _check_hits(k: int | None, available: int) -> int:
    """Ten hits, or as many as there are, unless a number is asked for; that many there must be."""
    if k is None:
        return min(DEFAULT_HITS, available)
    hint = "Ask for fewer hits, or leave k out."
    return check_whole_number("k, the number of hits,", k, 1, available, why=", the documents to find", hint=hint)


def _check_same_number(embeddings: int, documents: int) -> None:
    if embeddings != documents:
        raise DataError("embeddings and documents differ in number", got=f"{embeddings} and {documents}")


def _has_content(rows: Any) -> NDArray[np.bool_]:
    """Which rows are not zero throughout; a zero row's code says nothing."""
    return np.diff(rows.indptr) > 0 if sparse.issparse(rows) else rows.any(axis=1)


def _packed_codes(hasher: Hasher, rows: Any) -> Packed:
    blocks = [pack(hasher.transform(rows[start : start + BLOCK])) for start in range(0, rows.shape[0], BLOCK)]
    return np.concatenate(blocks) if blocks else np.zeros((0, n_bytes(hasher.n_bits)), dtype=np.uint8)


def _kind(features: Features) -> str:
    return next(name for name, kind in FEATURES.items() if type(features) is kind)


def _documents(
    texts: Iterable[str], ids: Iterable[DocumentId] | None, labels: Iterable[Any] | None
) -> Iterator[Document]:
    """Put texts, ids and labels together; a different number of them is an error."""
    columns = [texts, *(column for column in (ids, labels) if column is not None)]
    for position, row in enumerate(zip_longest(*columns, fillvalue=_MISSING)):
        if any(value is _MISSING for value in row):
            raise DataError("texts, ids and labels differ in number", got=f"one of them ends after {position}")
        fields = iter(row)
        text = next(fields)
        document_id = position if ids is None else next(fields)
        yield Document(document_id, text, () if labels is None else _label_names(next(fields)))


def _label_names(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    several = not isinstance(value, str) and isinstance(value, Iterable)
    return tuple(str(name) for name in (value if several else [value]))

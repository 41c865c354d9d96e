"""The search engine: a fitted model with its documents, in memory or in a folder that is updated in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from fewbits.codes import Packed
from fewbits.data.document import Document, DocumentId
from fewbits.errors import DataError, ParameterError
from fewbits.features import Embeddings, TextVectorizer
from fewbits.hashers.base import Hasher
from fewbits.search.duplicates import DuplicateGroup, NearDuplicate, duplicate_of, duplicates_of_engine
from fewbits.search.embedded import TextEncoder, embedded_documents
from fewbits.search.explain import BitMeaning, Explanation
from fewbits.search.fitting import (
    LEARN_FROM,
    FitOptions,
    encode_and_store,
    fit_embeddings,
    fit_texts,
    make_documents,
    store_fitted,
    truncate_codes,
)
from fewbits.search.rerank import Hit, SearchOptions
from fewbits.search.snapshot import EngineStore, Snapshot
from fewbits.search.state import EngineState
from fewbits.search.store.filters import Condition

if TYPE_CHECKING:
    from typing_extensions import Unpack


class SearchEngine:
    """Search documents by their codes.

    A loaded engine is a view of its folder: a change is on disk when the call returns, and a search sees the latest
    complete state. Any number of threads and processes may search while one writes.

    >>> texts = ["cats purr softly", "kittens and cats purr", "stocks fell sharply", "stocks and bonds fell"]
    >>> engine = SearchEngine.from_texts(texts, n_bits=16, random_state=0)
    >>> sorted(hit.id for hit in engine.search("purring cats", k=2))
    [0, 1]
    """

    def __init__(self, store: EngineStore) -> None:
        self._store = store

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
        language: str | None = None,
        nested: bool = False,
        max_features: int = 20_000,
    ) -> SearchEngine:
        """Fit a model to documents, which may be a stream. Those without a known word are found by words alone.

        Parameters
        ----------
        method : str, optional
            Name of the hashing method. By default "pairwise" if the documents have labels, else "bernoulli-vae".
        learn_from : int or None, default=50000
            Number of documents to learn from, sampled at random; labelled documents are oversampled if fewer than half
            are labelled. None uses all. All documents are encoded.
        verbose, notes : bool and dict, optional
            Show progress on standard error; JSON to save with the engine.
        language : str, optional
            Language whose inflections searches ignore, such as "english"; "none" for none. By default it is guessed.
        nested : bool, default=False
            Whether every prefix of 8, 16, 32, ... bits is trained as a code of its own, so that :meth:`save` can
            choose the length later; ``n_bits`` must be a power of two.
        vectorizer, max_features : optional
            What finds the words that codes see, or the size of its vocabulary. By default these are words of the
            letters a to z, or of any letters and digits if the first documents have many others.
        """
        options = FitOptions(n_bits, method, random_state, learn_from, verbose, notes, language, nested, max_features)
        return cls(EngineStore(EngineState(*fit_texts(documents, vectorizer, options))))

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        *,
        ids: Iterable[DocumentId] | None = None,
        labels: Iterable[Any] | None = None,
        metadata: Iterable[Mapping[str, Any] | None] | None = None,
        **options: Any,
    ) -> SearchEngine:
        """Fit a model to texts; ``options`` are those of :meth:`from_documents`, and ids are positions by default.

        Labels are one name per text, several, or None; metadata are dictionaries of values to filter by, or None.
        """
        return cls.from_documents(make_documents(texts, ids, labels, metadata), **options)

    @classmethod
    def from_embeddings(
        cls, embeddings: ArrayLike, *, encoder: TextEncoder | None = None, **options: Any
    ) -> SearchEngine:
        """Fit a model to embeddings (documents x dimensions); queries are embeddings too.

        ``documents``, or ``texts``, ``ids``, ``labels`` and ``metadata`` as in :meth:`from_texts`, are in the same
        order. A query may be a text if there are texts, whose words are searched, or an ``encoder`` of lists of texts.
        ``keep_embeddings=True`` stores embeddings as float16, and the best hits are ordered by cosine. Other options
        are those of :meth:`from_documents`, without ``vectorizer``.
        """
        documents, settings = embedded_documents(embeddings, **options)
        return cls(EngineStore(EngineState(*fit_embeddings(embeddings, documents, settings)), text_encoder=encoder))

    @classmethod
    def from_fitted(
        cls,
        features: TextVectorizer | Embeddings,
        hasher: Hasher,
        documents: Iterable[Document],
        rows: Any,
        *,
        method: str,
        notes: Mapping[str, Any] | None = None,
    ) -> SearchEngine:
        """Create an engine from fitted features and a fitted hasher, and from documents with their features."""
        state = EngineState(*store_fitted(features, hasher, documents, rows, method=method, notes=notes or {}))
        return cls(EngineStore(state))

    @classmethod
    def load(cls, folder: str | Path, *, verify: bool = True, encoder: TextEncoder | None = None) -> SearchEngine:
        """Open a saved folder; changes to the engine are changes to the folder.

        ``verify`` reads everything and compares checksums; without it large files are only checked by size. The
        ``encoder`` of :meth:`from_embeddings` is not saved.
        """
        return cls(EngineStore.open(Path(folder), verify=verify, text_encoder=encoder))

    def save(self, folder: str | Path, *, n_bits: int | None = None) -> None:
        """Save to a folder, which is replaced as a whole; to make later changes in it, :meth:`load` it.

        With ``n_bits``, the engine in the folder has the first bits of nested codes; this one is not changed.
        """
        state = self._store.latest().state
        if n_bits is not None:
            state = EngineState(*truncate_codes(state.model, state.database, n_bits))
        state.save(Path(folder))

    @property
    def features(self) -> TextVectorizer | Embeddings:
        """Return the transformer from texts or embeddings to features."""
        return self._store.latest().state.model.features

    @property
    def hasher(self) -> Hasher:
        """Return the hasher from features to codes."""
        return self._store.latest().state.model.hasher

    @property
    def n_bits(self) -> int:
        """Return the code length."""
        return self.hasher.n_bits

    def __len__(self) -> int:
        with self._store.snapshot(with_words=False) as snapshot:
            return len(snapshot.index)

    def __contains__(self, id: DocumentId) -> bool:
        with self._store.snapshot(with_words=False) as snapshot:
            return id in snapshot.reader

    def add(self, documents: Iterable[Document], embeddings: ArrayLike | None = None) -> int:
        """Encode and add documents, and return their number; if one cannot be added, none is.

        An engine created from embeddings requires their ``embeddings``.
        """
        with self._store.changes.writer() as (model, writer):
            return encode_and_store(writer, model, documents, embeddings, partial(writer.insert, are_new=True))

    def update(self, documents: Iterable[Document], embeddings: ArrayLike | None = None) -> int:
        """Replace the documents with the same ids, and return their number; if one cannot be replaced, none is."""
        with self._store.changes.writer() as (model, writer):
            return encode_and_store(writer, model, documents, embeddings, writer.replace)

    def remove(self, ids: Iterable[DocumentId]) -> int:
        """Remove documents and return their number; an unknown id is an error, and nothing is removed."""
        with self._store.changes.writer() as (_, writer):
            return writer.remove(ids)

    def encode(self, inputs: Any) -> Packed:
        """Compute the packed codes of texts, or of embeddings if the engine was created from them.

        The code of a text without a known word carries no information; a warning counts such texts.
        """
        return self._store.latest().state.model.encode_inputs(inputs)

    def codes(self, ids: Sequence[DocumentId]) -> Packed:
        """Return the packed codes of stored documents."""
        with self._store.snapshot(with_words=False) as snapshot:
            return snapshot.codes(ids)

    def documents(self) -> Iterator[Document]:
        """Iterate over all documents of one state, in order of insertion."""
        with self._store.snapshot(with_words=False) as snapshot:
            yield from snapshot.documents()

    def search(
        self,
        query: str | ArrayLike,
        k: int | None = None,
        *,
        labels: Sequence[str] = (),
        where: Sequence[str | Condition] = (),
        among: Sequence[DocumentId] | None = None,
        rank: str | None = None,
        weight: float | None = None,
        bit_weights: Mapping[int, float] | None = None,
        sort: str | None = None,
        rerank: str | None = None,
        shortlist: int | None = None,
        rescore: str | None = None,
    ) -> list[Hit]:
        """Return the k documents nearest to a text (or an embedding).

        In a text ``"a phrase"`` must occur, unless no document has it; ``-word`` must not occur; ``prefix*`` stands for
        all words that begin so; and ``field:value`` is a condition if documents have that metadata field. A query of
        more than 12 words, and any query with rank "codes", is text without these operators.

        Parameters
        ----------
        k : int, optional
            Number of hits; 10 by default, or all documents if there are fewer.
        labels, where, among : sequences
            Only documents with one of the labels, that pass all conditions on their metadata (``"year>=2020"``), and
            whose id is in a list.
        rank : {"hybrid", "words", "codes"}, optional
            What decides: words and codes (the default), BM25 over the words, or the codes, each bit weighted by the
            query's confidence in it. Engines of embeddings use the codes, compared by the number of differing bits, or
            the cosine of kept embeddings, unless the query is a text.
        weight : float, default=0.5
            Weight of the codes in a hybrid search, relative to the words.
        bit_weights : mapping, optional
            Factors by which single bits count, from 0 to 100: ``{7: 0, 12: 3}`` ignores bit 7. Others count once.
        sort : str, optional
            Metadata field by which the 1,000 best documents are ordered, largest value first after a "-": "-year".
        rerank, rescore, shortlist : optional
            Earlier options. The values of ``rerank`` and ``rescore`` are "words" for "hybrid", "bits" for "codes", and
            "none" for the number of differing bits; ``shortlist`` has no effect.
        """
        options: SearchOptions = {"labels": labels, "where": where, "among": among, "rank": rank, "weight": weight}
        options.update({"bit_weights": bit_weights, "sort": sort})
        options.update({"rerank": rerank, "rescore": rescore, "shortlist": shortlist})
        with self.snapshot() as snapshot:
            if isinstance(query, str):
                [answer] = snapshot.search_texts([query], k, **options)
                if isinstance(answer, DataError):
                    raise answer
                return answer
            return snapshot.search_encoded(snapshot.model.encode_query(query), k, **options)[0]

    def search_many(
        self, queries: Sequence[str], k: int | None = None, **options: Unpack[SearchOptions]
    ) -> list[list[Hit] | DataError]:
        """Search for many texts at once; ``options`` are those of :meth:`search`.

        A text without a known word gets an error in the place of its hits.
        """
        with self.snapshot() as snapshot:
            return snapshot.search_texts(queries, k, **options)

    def within(
        self,
        query: str | ArrayLike,
        radius: int,
        *,
        labels: Sequence[str] = (),
        where: Sequence[str | Condition] = (),
        among: Sequence[DocumentId] | None = None,
    ) -> list[Hit]:
        """Return all documents that differ from a query in at most ``radius`` bits, nearest first."""
        with self._store.snapshot(with_words=False) as snapshot:
            code = snapshot.model.encode_query(query).codes
            return snapshot.within(code, radius, snapshot.allowed(labels, where, among))[0]

    def similar(self, id: DocumentId, k: int | None = None, **options: Unpack[SearchOptions]) -> list[Hit]:
        """Return the k documents nearest to a stored one, without itself.

        ``options`` are those of :meth:`search`, but ``rank`` is "codes" by default: a differing bit costs the
        confidence in it, which is computed from the document's text. ``rerank="none"``, and an engine of embeddings,
        count the differing bits alone.
        """
        needs_words = any(options.get(name) for name in ("rank", "rerank", "rescore"))
        with self._store.snapshot(with_words=needs_words) as snapshot:
            return snapshot.similar(id, k, **options)

    def bits(self) -> list[BitMeaning]:
        """Return for each bit the words that raise and lower it most."""
        with self._store.snapshot(with_words=False) as snapshot:
            return snapshot.bits()

    def explain(self, query: str | None, id: DocumentId, *, similar_to: DocumentId | None = None) -> Explanation:
        """Explain the distance of a document from a text, or from the document ``similar_to``, by bits and by words."""
        with self._store.snapshot(with_words=False) as snapshot:
            if query is not None and similar_to is None:
                return snapshot.explain(snapshot.model.encode_query(query), id)
            if query is None and similar_to is not None:
                return snapshot.explain(snapshot.encode_document(snapshot.position(similar_to)), id)
            raise ParameterError("a hit is explained for one query", allowed="a text, or the id similar_to")

    def duplicates(
        self, radius: int | None = None, min_similarity: float = 0.8, *, alike: float | None = None, **options: Any
    ) -> list[DuplicateGroup]:
        """Group documents that are connected by a chain of near-duplicates, and say what differs.

        The tf-idf rows of all their words have a cosine of at least ``min_similarity`` (``alike`` is an old name).
        ``options`` are ``numbers``, ``keep`` and ``prefer``, see :class:`DuplicateOptions`. With a ``radius``, codes
        that differ in at most so many bits and the words known to them decide; for a similarity of 0, and for
        embeddings, codes alone.
        """
        with self._store.snapshot(with_words=False) as snapshot:
            return duplicates_of_engine(snapshot, radius, min_similarity if alike is None else alike, options)

    def is_duplicate(self, text: str, min_similarity: float = 0.8, *, numbers: str = "same") -> NearDuplicate | None:
        """Return the document that a text nearly repeats and what differs, as in :meth:`duplicates`; None without."""
        with self.snapshot() as snapshot:
            return duplicate_of(snapshot, text, min_similarity, numbers)

    def info(self) -> dict[str, Any]:
        """Describe the engine, and how new documents differ from those of the fit."""
        with self._store.snapshot(with_words=False) as snapshot:
            return snapshot.info()

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """Open the present state for reading; it stays the same until the block ends."""
        return self._store.snapshot()


def rebuild_lexical_index(folder: str | Path) -> int:
    """Build the lexical index of a saved engine again from its documents, and return their number."""
    return EngineStore.open(Path(folder), verify=False).changes.rebuild_words()

"""Fitting: documents are stored, turned into features, and a hasher is fitted; then all documents are encoded."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import chain, groupby, islice, zip_longest
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from fewbits.codes import check_n_bits, unpack
from fewbits.data.document import Document, DocumentId, is_missing
from fewbits.data.labels import label_table
from fewbits.errors import DataError, EmptyDocumentsWarning, ParameterError
from fewbits.features import Embeddings, TextVectorizer
from fewbits.hashers._nested import nested_lengths
from fewbits.hashers.base import Hasher
from fewbits.hashers.registry import (
    NESTED_METHODS,
    OF_EMBEDDINGS,
    WITH_LABELS,
    WITHOUT_LABELS,
    find_method,
    make_hasher,
)
from fewbits.search.calibration import calibrate, split_held_out
from fewbits.search.drift import SAMPLED_TEXTS, unknown_share, unseen_share
from fewbits.search.encoder import Encoder, Model, ModelInfo, nonzero_rows
from fewbits.search.languages import choose_token_pattern, guess_language
from fewbits.search.lexical_index import GUESSED_FROM, NO_LANGUAGE, check_language
from fewbits.search.store.reader import Database, Positions, Reader
from fewbits.search.store.writer import Writer, create_database, record_change
from fewbits.validation import batched, check_whole_number, evenly_spaced

BLOCK = 4096  # documents encoded and stored at a time
LEARN_FROM = 50_000  # more documents hardly improve the codes
CHOSEN_FROM = 1_000  # first documents, from which the pattern of words is chosen

_MISSING = object()


@dataclass(frozen=True)
class FitOptions:
    """Options of a fit."""

    n_bits: int = 64
    method: str | None = None  # None: by the kind of documents
    random_state: Any = 0
    learn_from: int | None = LEARN_FROM  # maximum number of documents; None for all
    verbose: bool = False
    notes: Mapping[str, Any] | None = None  # JSON from the caller, saved with the engine
    language: str | None = None  # of the stemmer; None to guess it
    nested: bool = False  # whether every prefix of 8, 16, 32, ... bits is trained as a code of its own
    max_features: int = 20_000  # size of the vocabulary, if no vectorizer is given
    keep_embeddings: bool = False  # in the engine, to order hits by them

    def __post_init__(self) -> None:
        check_n_bits(self.n_bits)
        check_language(self.language)
        if self.method is not None:
            find_method(self.method)
        if self.nested:
            nested_lengths(self.n_bits)
            if self.method is not None and self.method not in NESTED_METHODS:
                allowed = ", ".join(NESTED_METHODS)
                raise ParameterError("the method has no nested codes", allowed=allowed, got=self.method)
        if self.learn_from is not None:
            check_whole_number("learn_from", self.learn_from, 2)


def fit_texts(
    documents: Iterable[Document], vectorizer: TextVectorizer | None, options: FitOptions
) -> tuple[Model, Database]:
    """Fit a model to documents, which may be a stream, and store them with their codes."""
    database = create_database()
    stored = _stored(database, documents)
    first = list(islice(stored, CHOSEN_FROM if vectorizer is None else 0))
    if vectorizer is None:
        pattern = choose_token_pattern(document.text for document in first)
        features = TextVectorizer(max_features=options.max_features, token_pattern=pattern)
    else:
        features = clone(vectorizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyDocumentsWarning)  # such documents are found by their words
        rows = features.fit_transform(document.text for document in chain(first, stored))
    return _fit(features, rows, database, options), database


def fit_embeddings(
    embeddings: ArrayLike, documents: Iterable[Document] | None, options: FitOptions
) -> tuple[Model, Database]:
    """Fit a model to embeddings, and store their documents, which are empty by default, with their codes."""
    features = Embeddings()
    rows = features.fit_transform(embeddings)
    if documents is None:
        documents = (Document(position, "") for position in range(len(rows)))
    database = create_database()
    check_same_length(len(rows), sum(1 for _ in _stored(database, documents)))
    options = replace(options, method=options.method or OF_EMBEDDINGS)
    return _fit(features, rows, database, options), database


def store_fitted(
    features: TextVectorizer | Embeddings,
    hasher: Hasher,
    documents: Iterable[Document],
    rows: Any,
    *,
    method: str,
    notes: Mapping[str, Any],
) -> tuple[Model, Database]:
    """Store documents with their codes by features and a hasher that were fitted elsewhere."""
    database = create_database()
    check_same_length(rows.shape[0], sum(1 for _ in _stored(database, documents)))
    encoder = Encoder(features, hasher)
    return _encode_all(encoder, rows, database, method=method, learnt_from=rows.shape[0], notes=notes), database


def _fit(features: TextVectorizer | Embeddings, rows: Any, database: Database, options: FitOptions) -> Model:
    """Fit a hasher to a sample of the rows, and encode all; a few labelled documents are kept for calibration."""
    with database.reading() as connection:
        labels, label_names = label_table(one.labels for _, one in Reader(connection).stored_documents())
    method = options.method or (WITH_LABELS if len(label_names) > 1 else WITHOUT_LABELS)
    nested = {"nested": True} if options.nested else {}
    hasher = make_hasher(method, options.n_bits, options.random_state, **nested)
    if options.verbose and "verbose" in hasher.get_params():
        hasher.set_params(verbose=True)
    nonzero = np.flatnonzero(nonzero_rows(rows))
    is_labelled = np.diff(labels.indptr) > 0
    chosen = nonzero[_sample(is_labelled[nonzero], options)]
    is_labelled[np.setdiff1d(np.arange(len(is_labelled)), nonzero)] = False
    held_out = split_held_out(is_labelled, chosen)
    chosen = np.setdiff1d(chosen, held_out)
    hasher.fit(rows[chosen], labels[chosen] if label_names else None)
    learnt_from = len(chosen) if len(chosen) < len(nonzero) else rows.shape[0]
    encoder = Encoder(features, hasher)
    return _encode_all(
        encoder,
        rows,
        database,
        method=method,
        learnt_from=learnt_from,
        notes=options.notes or {},
        label_names=len(label_names),
        language=options.language,
        same_label=calibrate(encoder, rows, labels, held_out, chosen),
        keep_embeddings=options.keep_embeddings and not encoder.takes_text,
    )


def _sample(is_labelled: NDArray[np.bool_], options: FitOptions) -> NDArray[np.int64]:
    """Sample documents to learn from, in order; oversample labelled ones if fewer than half are labelled."""
    size = options.learn_from
    if size is None or size >= len(is_labelled):
        return np.arange(len(is_labelled))
    generator = check_random_state(options.random_state)
    order = generator.permutation(len(is_labelled))
    first = order[is_labelled[order]][: size // 2]
    others = order[~np.isin(order, first)][: size - len(first)]
    return np.sort(np.concatenate([first, others]))


def _encode_all(
    encoder: Encoder,
    rows: Any,
    database: Database,
    *,
    method: str,
    learnt_from: int,
    notes: Mapping[str, Any],
    label_names: int | None = None,
    language: str | None = None,
    same_label: Mapping[str, Any] | None = None,
    keep_embeddings: bool = False,
) -> Model:
    """Store the codes of all documents, and return the model with the facts about the fit."""
    with record_change(database) as writer:
        positions = writer.all_positions()
        ones = np.zeros(encoder.hasher.n_bits)
        for start in range(0, len(positions), BLOCK):
            chosen, part = positions[start : start + BLOCK], rows[start : start + BLOCK]
            ones += _store_codes(writer, encoder, chosen, part, keep_rows=encoder.takes_text or keep_embeddings)
        texts = writer.texts(are_new=False, limit=SAMPLED_TEXTS)
        has_texts = encoder.takes_text or any(text.strip() for _, text in writer.numbered_texts())
    some = [texts[place] for place in evenly_spaced(len(texts), GUESSED_FROM).tolist()]
    info = ModelInfo(
        documents_learnt_from=learnt_from,
        method=method,
        documents_when_learnt=rows.shape[0],
        bit_balance=tuple(round(float(share), 4) for share in ones / max(1, int(nonzero_rows(rows).sum()))),
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        fewbits=version("fewbits"),
        label_names=label_names,
        language=(language or guess_language(some) or NO_LANGUAGE) if has_texts else None,
        unknown_words=round(unknown_share(encoder, texts), 4) if encoder.takes_text else None,
        unseen_words=round(unseen_share(encoder, texts[:CHOSEN_FROM]), 4) if encoder.takes_text else None,
        same_label=same_label,
        has_texts=None if encoder.takes_text else has_texts or None,
        keeps_embeddings=keep_embeddings or None,
        notes=dict(notes),
    )
    return Model(encoder.features, encoder.hasher, info)


def truncate_codes(model: Model, database: Database, n_bits: int) -> tuple[Model, Database]:
    """Encode the documents with the first bits of a nested code, without training.

    The likelihood of the same label was measured for distances of the whole code, and does not hold for a prefix.
    """
    info = replace(model.info, bit_balance=model.info.bit_balance[:n_bits], same_label=None)
    shorter = Model(model.features, model.hasher.truncate(n_bits), info)
    copy = create_database()
    with database.reading() as connection, record_change(copy) as writer:
        stored = (one for _, one in Reader(connection).stored_documents())
        for are_new, documents in groupby(stored, key=lambda one: one.is_new):
            put = partial(writer.insert, are_new=are_new)
            encode_and_store(writer, shorter, (one.document() for one in documents), None, put)
    return shorter, copy


def checked(documents: Iterable[Document]) -> Iterator[Document]:
    """Yield documents, each after checking that it is one."""
    if isinstance(documents, (str, bytes, Document, Mapping)):
        got = type(documents).__name__
        raise DataError("documents must be a list or stream of documents", got=got, hint="Pass [Document(id, text)].")
    for number, document in enumerate(documents):
        if not isinstance(document, Document):
            raise DataError(
                f"item {number} is not a document",
                allowed="fewbits.Document(id, text), with labels and metadata if it has any",
                got=repr(document)[:60],
                hint="Only SearchEngine.from_texts takes texts, since later documents need an id of their own.",
            )
        yield document


def _stored(database: Database, documents: Iterable[Document]) -> Iterator[Document]:
    """Store documents and yield them."""
    with record_change(database) as writer:
        for block in batched(checked(documents), BLOCK):
            writer.insert(block, are_new=False)
            yield from block


def encode_and_store(
    writer: Writer,
    encoder: Model,
    documents: Iterable[Document],
    embeddings: ArrayLike | None,
    put: Callable[[Sequence[Document]], list[int]],
) -> int:
    """Encode documents block by block, store each by ``put``, which returns its positions, and return their number."""
    if (embeddings is None) != encoder.takes_text:
        expected = "documents alone" if encoder.takes_text else "documents with embeddings"
        raise DataError("the engine was created from another kind of input", allowed=expected)
    rows = None if embeddings is None else encoder.rows(embeddings)
    keep_rows = encoder.takes_text or bool(encoder.info.keeps_embeddings)
    count = 0
    for block in batched(checked(documents), BLOCK):
        part = encoder.rows(document.text for document in block) if rows is None else rows[count:][: len(block)]
        count += len(block)
        check_same_length(part.shape[0], len(block))
        _store_codes(writer, encoder, np.array(put(block), dtype=np.int64), part, keep_rows=keep_rows)
    if rows is not None:
        check_same_length(len(rows), count)
    return count


def _store_codes(
    writer: Writer, encoder: Encoder, positions: Positions, rows: Any, *, keep_rows: bool
) -> NDArray[np.int64]:
    """Encode and store the nonzero rows, and return how often each bit is 1."""
    nonzero = np.flatnonzero(nonzero_rows(rows))
    codes = encoder.encode(rows[nonzero])
    writer.put_codes(positions[nonzero].tolist(), codes, rows[nonzero] if keep_rows else None)
    return unpack(codes, encoder.hasher.n_bits).sum(axis=0, dtype=np.int64)


def check_same_length(embeddings: int, documents: int) -> None:
    """Check that there are as many embeddings as documents."""
    if embeddings != documents:
        raise DataError("embeddings and documents differ in number", got=f"{embeddings} and {documents}")


def make_documents(
    texts: Iterable[str],
    ids: Iterable[DocumentId] | None = None,
    labels: Iterable[Any] | None = None,
    metadata: Iterable[Mapping[str, Any] | None] | None = None,
) -> Iterator[Document]:
    """Combine texts, ids, labels and metadata into documents; they must have the same length."""
    columns = {"texts": texts, "ids": ids, "labels": labels, "metadata": metadata}
    given = {name: column for name, column in columns.items() if column is not None}
    for name, column in given.items():
        is_mapping = isinstance(column, Mapping) and name != "ids"  # the keys of a mapping are what users mean by ids
        if isinstance(column, (str, bytes)) or is_mapping or not isinstance(column, Iterable):
            hint = "Pass a list with one item per document."
            raise DataError(f"{name} must be a list", got=repr(column)[:60], hint=hint)
    positions: dict[Any, int] = {}  # of the ids
    for position, row in enumerate(zip_longest(*given.values(), fillvalue=_MISSING)):
        if any(value is _MISSING for value in row):
            raise DataError(f"{', '.join(given)} differ in number", got=f"one of them ends after {position}")
        one = dict(zip(given, row, strict=True))
        text, document_id = one["texts"], one.get("ids", position)
        if not isinstance(text, str):
            raise DataError(
                f"text {position} is not a text",
                allowed="a string, which may be empty",
                got=repr(text)[:60],
                hint="Leave it out, with its id and label, or replace it by an empty string.",
            )
        if ids is not None and isinstance(document_id, Hashable):
            earlier = positions.setdefault(document_id, position)
            if earlier != position:
                problem = f"the id {document_id!r} is given twice, to the texts {earlier} and {position}"
                raise DataError(problem, hint="Ids must be unique.")
        yield Document(document_id, text, _label_names(one.get("labels")), one.get("metadata") or {})


def _label_names(value: Any) -> tuple[str, ...]:
    if is_missing(value):
        return ()
    several = not isinstance(value, str) and isinstance(value, Iterable)
    return tuple(str(name) for name in (value if several else [value]))

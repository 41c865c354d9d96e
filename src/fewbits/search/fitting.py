"""From documents to a model and its database: reading them in, learning codes, storing all of it."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import islice, zip_longest
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from fewbits.codes import check_n_bits, unpack
from fewbits.data.document import Document, DocumentId
from fewbits.data.labels import label_table
from fewbits.errors import DataError
from fewbits.features import Embeddings, TextVectorizer
from fewbits.hashers.base import Hasher
from fewbits.hashers.registry import OF_EMBEDDINGS, WITH_LABELS, WITHOUT_LABELS, find_method, make_hasher
from fewbits.search.drift import LOOKED_AT, unknown_share
from fewbits.search.encoder import Model, nonzero_rows
from fewbits.search.store.database import Database
from fewbits.search.store.documents import Positions, Reader, Writer
from fewbits.validation import check_whole_number

BLOCK = 4096  # documents

_MISSING = object()


@dataclass(frozen=True)
class FitOptions:
    """How codes are to be learnt."""

    n_bits: int
    method: str | None  # None for what suits the documents
    random_state: Any
    learn_from: int | None  # documents at most; None for all
    verbose: bool = False
    notes: Mapping[str, Any] = field(default_factory=dict)  # of whoever wishes, kept with the engine

    def __post_init__(self) -> None:
        check_n_bits(self.n_bits)
        if self.method is not None:
            find_method(self.method)
        if self.learn_from is not None:
            check_whole_number("learn_from", self.learn_from, 2)


def learn_from_texts(
    documents: Iterable[Document], vectorizer: TextVectorizer | None, wishes: FitOptions
) -> tuple[Model, Database]:
    """Learn codes for documents, which may be a stream."""
    features = TextVectorizer() if vectorizer is None else clone(vectorizer)
    database = Database.temporary()
    rows = features.fit_transform(document.text for document in _stored(database, documents))
    return _learn(features, rows, database, wishes), database


def learn_from_embeddings(
    embeddings: ArrayLike, documents: Iterable[Document] | None, wishes: FitOptions
) -> tuple[Model, Database]:
    """Learn codes for embeddings, with or without the documents that they stand for."""
    features = Embeddings()
    rows = features.fit_transform(embeddings)
    if documents is None:
        documents = (Document(position, "") for position in range(len(rows)))
    database = Database.temporary()
    check_same_number(len(rows), sum(1 for _ in _stored(database, documents)))
    return _learn(features, rows, database, replace(wishes, method=wishes.method or OF_EMBEDDINGS)), database


def from_fitted(
    features: TextVectorizer | Embeddings,
    hasher: Hasher,
    documents: Iterable[Document],
    rows: Any,
    facts: dict[str, Any],
) -> tuple[Model, Database]:
    """Parts that were fitted elsewhere, and documents with their features."""
    database = Database.temporary()
    check_same_number(rows.shape[0], sum(1 for _ in _stored(database, documents)))
    return _encode_all(Model(features, hasher, facts), rows, database), database


def _learn(features: TextVectorizer | Embeddings, rows: Any, database: Database, wishes: FitOptions) -> Model:
    with database.reading() as connection:
        labels, label_names = label_table(Reader(connection).label_sets())
    method = wishes.method or (WITH_LABELS if len(label_names) > 1 else WITHOUT_LABELS)
    hasher = make_hasher(method, wishes.n_bits, wishes.random_state)
    if wishes.verbose and "verbose" in hasher.get_params():
        hasher.set_params(verbose=True)
    known = np.flatnonzero(nonzero_rows(rows))
    chosen = known[_sample(np.diff(labels.indptr)[known] > 0, wishes)]
    hasher.fit(rows[chosen], labels[chosen] if label_names else None)
    facts = {
        "method": method,
        "documents_learnt_from": len(chosen) if len(chosen) < len(known) else rows.shape[0],
        "label_names": len(label_names),
        "notes": dict(wishes.notes),
    }
    return _encode_all(Model(features, hasher, facts), rows, database)


def _sample(is_labelled: NDArray[np.bool_], wishes: FitOptions) -> NDArray[np.int64]:
    """Which documents to learn from, in their order: a random choice, half of it labelled where so many are."""
    size = wishes.learn_from
    if size is None or size >= len(is_labelled):
        return np.arange(len(is_labelled))
    generator = check_random_state(wishes.random_state)
    order = generator.permutation(len(is_labelled))
    first = order[is_labelled[order]][: size // 2]
    others = order[~np.isin(order, first)][: size - len(first)]
    return np.sort(np.concatenate([first, others]))


def _encode_all(model: Model, rows: Any, database: Database) -> Model:
    """Store the codes of all documents, and note what they are like."""
    with database.writing() as connection:
        writer = Writer(connection)
        positions = writer.all_positions()
        ones = np.zeros(model.hasher.n_bits)
        for start in range(0, len(positions), BLOCK):
            ones += store_codes(writer, model, positions[start : start + BLOCK], rows[start : start + BLOCK])
        writer.finish()
        facts = {
            "documents_learnt_from": rows.shape[0],
            **model.facts,
            "documents_when_learnt": rows.shape[0],
            "bit_balance": [round(float(share), 4) for share in ones / max(1, int(nonzero_rows(rows).sum()))],
            "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "fewbits": version("fewbits"),
        }
        if model.takes_text:
            texts = writer.texts(are_new=False, limit=LOOKED_AT)
            facts["unknown_words"] = round(unknown_share(model, texts), 4)
    return replace(model, facts=facts)


def _stored(database: Database, documents: Iterable[Document]) -> Iterator[Document]:
    """Store documents while they pass by."""
    with database.writing() as connection:
        writer = Writer(connection)
        for block in blocks(documents):
            writer.insert(block, are_new=False)
            yield from block


def store_codes(writer: Writer, model: Model, positions: Positions, rows: Any) -> NDArray[np.int64]:
    """Encode and store rows that say something, and return how often each bit is 1."""
    known = np.flatnonzero(nonzero_rows(rows))
    codes = model.encode(rows[known])
    writer.put_codes(positions[known].tolist(), codes, rows[known] if model.takes_text else None)
    return unpack(codes, model.hasher.n_bits).sum(axis=0, dtype=np.int64)


def blocks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents that are encoded and stored at one time."""
    stream = iter(documents)
    while block := list(islice(stream, BLOCK)):
        yield block


def check_same_number(embeddings: int, documents: int) -> None:
    """Refuse embeddings that do not go with the documents."""
    if embeddings != documents:
        raise DataError("embeddings and documents differ in number", got=f"{embeddings} and {documents}")


def documents_of(
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

"""Reads of many documents: listings, codes, term vectors, filters, and the record of changes."""

from __future__ import annotations

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewbits.codes import Packed, n_bytes
from fewbits.data.document import Document, DocumentId
from fewbits.errors import BrokenFolderError, ParameterError
from fewbits.search.store.checksums import codes_sum, rows_sum, total
from fewbits.search.store.connection import MAX_POSITION
from fewbits.search.store.filters import Condition, check_comparable, filter_sql
from fewbits.storage import RESTORE

Positions = NDArray[np.int64]

TERM = np.dtype([("column", "<u4"), ("weight", "<f4")])  # a term of a document, as it is stored
VECTOR = np.dtype("<f2")  # of an embedding that is kept
LABEL, FIELD, VERSION = "label", "field", "version"  # kinds of rows that have a sum
ROWS = {  # the rows that a sum stands for
    LABEL: "SELECT label, position FROM labels WHERE label = ?",
    FIELD: "SELECT value, position FROM facets WHERE field = ?",
    VERSION: "SELECT version, position FROM changes WHERE version = ?",
}


class StoredDocument(NamedTuple):
    """A document, and whether it is newer than the fit."""

    id: DocumentId
    labels: tuple[str, ...]
    metadata: dict[str, Any]
    text: str
    is_new: bool

    def document(self) -> Document:
        """Return the document."""
        return Document(self.id, self.text, self.labels, self.metadata)


@dataclass(frozen=True)
class Changes:
    """Changes of the codes between two versions."""

    removed: Positions  # removed or replaced
    added: Positions  # added or replacing
    codes: Packed  # of the added ones


class Listings(ABC):
    """Reads many documents of one state, and compares them with the sums over them."""

    _connection: sqlite3.Connection

    @property
    @abstractmethod
    def state(self) -> dict[str, int]:
        """Return the version, and the sums over the tables."""

    @abstractmethod
    def _documents(self, condition: str, *values: Any) -> Iterator[tuple[int, StoredDocument]]: ...

    @property
    @abstractmethod
    def has_sums(self) -> bool:
        """Return whether the file has sums; earlier releases wrote none."""

    def count(self) -> int:
        """Count all documents."""
        if self.has_sums:
            return self.state["documents"]
        return int(self._connection.execute("SELECT count(*) FROM documents").fetchone()[0])

    def count_new(self) -> int:
        """Count the documents added or updated since the fit."""
        if self.has_sums:
            return self.state["new"]
        return int(self._connection.execute("SELECT count(*) FROM documents WHERE is_new").fetchone()[0])

    def all_positions(self) -> Positions:
        """Return all positions in order."""
        positions = _integers(self._connection.execute("SELECT position FROM documents ORDER BY position"))
        if len(positions) != self.count():
            raise damaged("the documents")
        return positions

    def ids_of(self, positions: Positions) -> dict[int, DocumentId]:
        """Return ids by position."""
        condition = "WHERE position IN (SELECT value FROM json_each(?))"
        ids = {position: one.id for position, one in self._documents(condition, json.dumps(positions.tolist()))}
        if len(ids) < len(positions):
            raise damaged("the documents")
        return ids

    def all(self) -> Iterator[Document]:
        """Iterate over all documents in order of insertion."""
        return (one.document() for _, one in self.stored_documents())

    def texts(self, *, are_new: bool, limit: int) -> list[str]:
        """Return the latest texts, of the fit or added or updated since."""
        condition = f"WHERE {'is_new' if are_new else 'NOT is_new'} ORDER BY position DESC LIMIT ?"
        if are_new:
            self._new_positions()
        return [one.text for _, one in self._documents(condition, limit)]

    def numbered_texts(self, positions: Positions | None = None) -> Iterator[tuple[int, str]]:
        """Iterate over positions and texts in order, of all documents or of those of some positions that exist."""
        if positions is None:
            return ((position, one.text) for position, one in self.stored_documents())
        condition = "WHERE position IN (SELECT value FROM json_each(?))"
        return ((position, one.text) for position, one in self._documents(condition, json.dumps(positions.tolist())))

    def label_counts(self) -> dict[str, int]:
        """Return the number of documents per label, the most frequent label first."""
        query = "SELECT label, count(*) AS number FROM labels GROUP BY label ORDER BY number DESC, label"
        if self.has_sums:
            self._check_sums(LABEL, "labels")
            query = f"SELECT name, count FROM sums WHERE kind = '{LABEL}' ORDER BY count DESC, name"
        return dict(self._connection.execute(query).fetchall())

    def fields(self) -> list[str]:
        """Return the metadata fields that conditions can use."""
        query = "SELECT DISTINCT field FROM facets ORDER BY field"
        if self.has_sums:
            self._check_sums(FIELD, "fields")
            query = f"SELECT name FROM sums WHERE kind = '{FIELD}' ORDER BY name"
        return [name for (name,) in self._connection.execute(query)]

    def has_field(self, name: str) -> bool:
        """Return whether conditions can use a metadata field."""
        query = "SELECT 1 FROM facets WHERE field = ? LIMIT 1"
        return self._connection.execute(query, (name,)).fetchone() is not None

    def values(self, field: str | None) -> list[tuple[Any, int]]:
        """Return value and position of all documents with a metadata field, or label and position if it is None."""
        self.check_filter(field)
        if field is None:
            return self._connection.execute("SELECT label, position FROM labels").fetchall()
        return self._connection.execute("SELECT value, position FROM facets WHERE field = ?", (field,)).fetchall()

    def matching(self, labels: Sequence[str], conditions: Sequence[Condition]) -> Positions:
        """Return the positions of documents with one of the labels, if any are given, that pass all conditions."""
        query, values = filter_sql(labels, conditions)
        try:
            for field in [None] * bool(labels) + [condition.field for condition in conditions]:
                self.check_filter(field)
            check_comparable(conditions, self._texts_of_field)
            if any(condition.operator == "!=" for condition in conditions):
                self.check_ids()
            return _integers(self._connection.execute(query, values))
        except UnicodeEncodeError as error:
            raise ParameterError("a filter is not valid text", allowed="no lone surrogates", got=error) from error

    def _texts_of_field(self, field: str) -> tuple[bool, Iterator[str]]:
        """Return whether documents have a field, and its distinct values that are texts."""
        has_field = "SELECT 1 FROM facets WHERE field = ? LIMIT 1"
        texts = "SELECT DISTINCT value FROM facets WHERE field = ? AND typeof(value) = 'text'"
        found = self._connection.execute(has_field, (field,)).fetchone() is not None
        return found, (value for (value,) in self._connection.execute(texts, (field,)))

    def codes(self, n_bits: int, *, only_new: bool = False) -> tuple[Positions, Packed]:
        """Return positions and codes of all documents that have one, in order of insertion."""
        query = "SELECT position, code FROM codes ORDER BY position"
        positions, codes = _as_codes(self._connection.execute(query).fetchall(), n_bits)
        if self.has_sums and total(codes_sum(positions, codes)) != self.state["codes"]:
            raise damaged("the codes")
        if only_new:
            is_chosen = np.isin(positions, self._new_positions())
            return positions[is_chosen], codes[is_chosen]
        return positions, codes

    def changes_since(self, version: int, n_bits: int) -> Changes | None:
        """Return the changes of the codes since a version; None if they are no longer recorded."""
        removed = self.changed_since(version)
        if removed is None:
            return None
        query = (
            "SELECT position, code, checksum, words FROM codes LEFT JOIN words USING (position)"
            " WHERE position IN (SELECT position FROM changes WHERE version > ?)"
        )
        rows = self._connection.execute(query, (version,)).fetchall()
        if any(self.encoded_checksum(position, code, words) != expected for position, code, expected, words in rows):
            raise damaged("the codes")
        return Changes(removed, *_as_codes([(position, code) for position, code, *_ in rows], n_bits))

    def changed_since(self, version: int) -> Positions | None:
        """Return the positions of documents changed since a version; None if they are no longer recorded."""
        if version < self.state["oldest"]:
            return None
        try:
            for later in range(version + 1, self.state["version"] + 1):
                self.check_rows(VERSION, str(later))
        except BrokenFolderError:  # all documents are read instead, without the record
            return None
        query = "SELECT DISTINCT position FROM changes WHERE version > ? ORDER BY position"
        return _integers(self._connection.execute(query, (version,)))

    def terms(self, positions: Positions) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the terms of documents, concatenated (as :data:`TERM`), and their number per document."""
        rows = self._kept_rows(positions, TERM.itemsize)
        counts = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)) // TERM.itemsize
        return np.frombuffer(b"".join(rows), dtype=TERM), counts

    def vectors(self, positions: Positions, n_features: int) -> NDArray[np.float16]:
        """Return the embeddings of documents, where they are kept."""
        size = VECTOR.itemsize * n_features
        rows = self._kept_rows(positions, size)
        if any(len(row) != size for row in rows):
            raise damaged("the embeddings of documents")
        return np.frombuffer(b"".join(rows), dtype=VECTOR).reshape(len(rows), n_features)

    def _kept_rows(self, positions: Positions, item_size: int) -> list[bytes]:
        """Return the stored tf-idf rows or embeddings of documents."""
        query = (
            "SELECT position, code, checksum, words FROM codes JOIN words USING (position)"
            " WHERE position IN (SELECT value FROM json_each(?))"
        )
        found = {}
        for position, code, expected, words in self._connection.execute(query, (json.dumps(positions.tolist()),)):
            if self.encoded_checksum(position, code, words) != expected or len(words) % item_size:
                raise damaged("the words of documents")
            found[position] = words
        if len(found) < len(set(positions.tolist())):
            raise damaged("the words of documents")
        return [found[position] for position in positions.tolist()]

    @abstractmethod
    def encoded_checksum(self, position: int, code: bytes, words: bytes | None) -> int:
        """Compute the checksum of a code and its term vector."""

    def check_ids(self) -> None:
        """Compare the index of the ids with the sum over all documents, once per process."""
        verified = self._verified()
        if not self.has_sums or "ids" in verified:
            return
        rows = self._connection.execute("SELECT id, position FROM documents ORDER BY id").fetchall()
        positions = [position for _, position in rows]
        if total(rows_sum((id for id, _ in rows), positions)) != self.state["ids"]:
            raise damaged("the index of the ids")
        verified.add("ids")

    def check_filter(self, field: str | None) -> None:
        """Compare what filters read of a field, or of all labels, with the sums over it."""
        if field is not None:
            self.check_rows(FIELD, field)
            return
        for label in self.label_counts() if self.has_sums else ():
            self.check_rows(LABEL, label)

    def check_rows(self, kind: str, name: str) -> None:
        """Compare the rows of a label, field or version with the sum over them, once per process and sum."""
        if not self.has_sums:
            return
        expected = self.stored_sum(kind, name)
        verified = self._verified()
        if (kind, name, *expected) not in verified:
            key = int(name) if kind == VERSION else name
            rows = self._connection.execute(ROWS[kind], (key,)).fetchall()
            if (len(rows), total(rows_sum((key for key, _ in rows), [row[1] for row in rows]))) != expected:
                raise damaged(f"the table of the {kind} {name!r}")
            verified.add((kind, name, *expected))

    def stored_sum(self, kind: str, name: str) -> tuple[int, int]:
        """Return the number of rows of a label, field or version, and the sum over them."""
        query = "SELECT count, sum FROM sums WHERE kind = ? AND name = ?"
        count, sum = self._connection.execute(query, (kind, name)).fetchone() or (0, 0)
        return count, sum

    def _check_sums(self, kind: str, name_in_state: str) -> None:
        """Check that no label or field is missing."""
        rows = self._connection.execute("SELECT name, count, sum FROM sums WHERE kind = ?", (kind,)).fetchall()
        if total(sums_sum(rows)) != self.state[name_in_state]:
            raise damaged(f"the table of the {name_in_state}")

    def _new_positions(self) -> Positions:
        query = "SELECT position FROM documents WHERE is_new"
        positions = _integers(self._connection.execute(query))
        if self.has_sums and total(rows_sum([0] * len(positions), positions)) != self.state["new_positions"]:
            raise damaged("the index of new documents")
        return positions

    def stored_documents(self) -> Iterator[tuple[int, StoredDocument]]:
        """Iterate over positions and documents in order of insertion; if one is missing, the end is an error."""
        count = 0
        for position, document in self._documents("ORDER BY position"):
            count += 1
            yield position, document
        if count != self.count():
            raise damaged("the documents")

    def _verified(self) -> set[object]:
        return getattr(self._connection, "verified", set())


def sums_sum(rows: Iterable[tuple[str, int, int]]) -> int:
    """Sum up the sums over the rows of all labels or fields."""
    keys = list(rows)
    return rows_sum(keys, [0] * len(keys))


def damaged(what: str) -> BrokenFolderError:
    """Return the error of rows that differ from a checksum or from the sum over them."""
    return BrokenFolderError(f"{what} were altered (documents.sqlite): a checksum differs", hint=RESTORE)


def _integers(rows: Iterable[tuple[int]]) -> Positions:
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64)


def _as_codes(rows: list[tuple[int, bytes]], n_bits: int) -> tuple[Positions, Packed]:
    positions = np.fromiter((position for position, _ in rows), dtype=np.int64, count=len(rows))
    codes = np.frombuffer(b"".join(code for _, code in rows), dtype=np.uint8)
    if len(codes) != len(rows) * n_bytes(n_bits):
        raise BrokenFolderError("the codes differ in length (documents.sqlite)", allowed=f"{n_bytes(n_bits)} bytes")
    if len(rows) and not 0 < positions.min() <= positions.max() < MAX_POSITION:
        raise BrokenFolderError("a document has an invalid number (documents.sqlite)", allowed=f"1 to {MAX_POSITION:,}")
    return positions, codes.reshape(len(rows), n_bytes(n_bits))

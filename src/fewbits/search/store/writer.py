"""Writing the SQLite file of an engine: its schema, and changes to documents, codes and term vectors."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fewbits.codes import Packed
from fewbits.data.document import Document, DocumentId
from fewbits.errors import BrokenFolderError, DataError
from fewbits.search.store.filters import facet_values
from fewbits.search.store.reader import COLUMNS, TERM, Database, Reader

MAX_CHANGES = 100_000  # a reader that missed more reads all codes again

# The id column has no type, so that SQLite distinguishes 7 from '7' as Python does. Texts are the last column, so that
# other columns are read without them. Codes and terms have their own tables: loading codes reads no text.
SCHEMA = """
CREATE TABLE documents (
    position INTEGER PRIMARY KEY AUTOINCREMENT, id UNIQUE NOT NULL, labels TEXT NOT NULL, metadata TEXT NOT NULL,
    is_new INTEGER NOT NULL, checksum INTEGER NOT NULL, text TEXT NOT NULL
);
CREATE INDEX new_documents ON documents (position) WHERE is_new;
CREATE TABLE codes (position INTEGER PRIMARY KEY, code BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE words (position INTEGER PRIMARY KEY, words BLOB NOT NULL);
CREATE TABLE labels (label TEXT, position INTEGER, PRIMARY KEY (label, position)) WITHOUT ROWID;
CREATE TABLE facets (field TEXT, value, position INTEGER, PRIMARY KEY (field, value, position)) WITHOUT ROWID;
CREATE TABLE changes (version INTEGER, position INTEGER, PRIMARY KEY (version, position)) WITHOUT ROWID;
CREATE TABLE state (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO state VALUES ('version', 0), ('oldest', 0);
"""


def create_database() -> Database:
    """Create an empty temporary file, which is removed with its last user."""
    folder = tempfile.TemporaryDirectory(prefix="fewbits-", ignore_cleanup_errors=True)
    database = Database(Path(folder.name) / "documents.sqlite", is_durable=False)
    database.create(SCHEMA)
    database.folder = folder  # is removed with the database
    return database


@contextmanager
def record_change(database: Database) -> Iterator[Writer]:
    """Open a file for one change, which gets a new version and becomes visible when the block ends."""
    with database.writing() as connection:
        writer = Writer(connection)
        writer.begin_change()
        yield writer
        writer.end_change()


class Writer(Reader):
    """Changes the documents inside a transaction."""

    def begin_change(self) -> None:
        """Assign a new version to what follows."""
        self._connection.execute("UPDATE state SET value = value + 1 WHERE name = 'version'")

    def end_change(self) -> None:
        """Delete the record of changes if it is too long to be read one by one."""
        count = self._connection.execute("SELECT count(*) FROM changes").fetchone()[0]
        if count > MAX_CHANGES:
            self._connection.execute("DELETE FROM changes")
            self._connection.execute("UPDATE state SET value = ? WHERE name = 'oldest'", (self.version(),))

    def insert(self, documents: Sequence[Document], *, are_new: bool) -> list[int]:
        """Add documents and return their positions; an existing id is an error."""
        self._check_kinds(documents)
        existing = self._find([document.id for document in documents])
        if existing:
            hint = "Choose another id, or update the document."
            raise DataError(f"the id {next(iter(existing))!r} exists already", hint=hint)
        _check_distinct([document.id for document in documents])
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'documents'").fetchone()
        start = 1 if row is None else row[0] + 1
        positions = list(range(start, start + len(documents)))
        self._put(positions, documents, are_new=are_new)
        return positions

    def replace(self, documents: Sequence[Document]) -> list[int]:
        """Replace the documents with the same ids, and return their positions."""
        ids = [document.id for document in documents]
        _check_distinct(ids)
        positions = self.positions(ids)
        query = "SELECT position FROM changes WHERE version = ? AND position IN (SELECT value FROM json_each(?))"
        replaced = self._connection.execute(query, (self.version(), json.dumps(positions))).fetchone()
        if replaced is not None:  # by an earlier block of the same change
            raise _duplicate_id(ids[positions.index(replaced[0])])
        self._clear(positions)
        self._put(positions, documents, are_new=True)
        return positions

    def remove(self, ids: Iterable[DocumentId]) -> int:
        """Remove documents and return their number; an unknown id is an error."""
        if isinstance(ids, (str, bytes)):
            raise DataError("ids must be a list", got=repr(ids), hint="Pass [id].")
        removed = list(ids)
        _check_distinct(removed)
        self._clear(self.positions(removed))
        return len(removed)

    def put_codes(self, positions: Sequence[int], codes: Packed, rows: Any = None) -> None:
        """Store the codes of documents, and their tf-idf rows if they have any."""
        terms: list[bytes | None] = [None] * len(positions)
        if rows is not None:
            terms = list(_as_bytes(rows))
            self._connection.executemany("INSERT INTO words VALUES (?, ?)", zip(positions, terms, strict=True))
        packed = [code.tobytes() for code in codes]
        sums = (_checksum(*content) for content in zip(packed, terms, strict=True))
        self._connection.executemany("INSERT INTO codes VALUES (?, ?, ?)", zip(positions, packed, sums, strict=True))

    def _put(self, positions: list[int], documents: Sequence[Document], *, are_new: bool) -> None:
        try:
            self._connection.executemany(
                "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?)",
                ((position, *_row(document, are_new)) for position, document in zip(positions, documents, strict=True)),
            )
            self._connection.executemany(
                "INSERT INTO labels VALUES (?, ?)",
                (
                    (label, p)
                    for p, document in zip(positions, documents, strict=True)
                    for label in set(document.labels)
                ),
            )
            self._connection.executemany("INSERT OR IGNORE INTO facets VALUES (?, ?, ?)", _facets(positions, documents))
        except (UnicodeEncodeError, OverflowError, sqlite3.InterfaceError, sqlite3.DataError) as error:
            raise DataError("a document cannot be stored", got=error) from error
        self._record(positions)

    def _clear(self, positions: list[int]) -> None:
        for document, position in zip(self.get(positions), positions, strict=True):
            self._connection.executemany(
                "DELETE FROM labels WHERE label = ? AND position = ?", ((label, position) for label in document.labels)
            )
            self._connection.executemany(
                "DELETE FROM facets WHERE field = ? AND value = ? AND position = ?", _facets([position], [document])
            )
        for table in ("documents", "codes", "words"):
            self._connection.executemany(f"DELETE FROM {table} WHERE position = ?", ((p,) for p in positions))
        self._record(positions)

    def _record(self, positions: list[int]) -> None:
        version = self.version()
        self._connection.executemany("INSERT OR IGNORE INTO changes VALUES (?, ?)", ((version, p) for p in positions))

    def _check_kinds(self, documents: Sequence[Document]) -> None:
        kind = self.kind_of_ids()
        for document in documents:
            kind = kind or type(document.id)
            if type(document.id) is not kind:
                raise DataError("ids must be all strings or all integers", got=f"{document.id!r} among others")


def check_documents(connection: sqlite3.Connection) -> None:
    """Read everything and compare checksums."""
    try:
        problems = connection.execute("PRAGMA quick_check").fetchall()
        if problems != [("ok",)]:
            raise BrokenFolderError("the documents are damaged (documents.sqlite)", got=problems[0][0])
        documents = connection.execute(f"SELECT checksum, {COLUMNS} FROM documents")
        encoded = connection.execute("SELECT checksum, code, words FROM codes LEFT JOIN words USING (position)")
        for checksum, *content in chain(documents, encoded):
            if checksum != _checksum(*content):
                raise BrokenFolderError("a document was altered (documents.sqlite): its checksum differs")
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise BrokenFolderError("the documents cannot be read (documents.sqlite)", got=error) from error


def _check_distinct(ids: Sequence[DocumentId]) -> None:
    if len(set(ids)) < len(ids):
        seen: set[DocumentId] = set()
        twice = next(id for id in ids if id in seen or seen.add(id))  # type: ignore[func-returns-value]
        raise _duplicate_id(twice)


def _duplicate_id(id: DocumentId) -> DataError:
    return DataError(f"the id {id!r} is given twice", hint="Ids must be unique.")


def _row(document: Document, is_new: bool) -> tuple[Any, ...]:
    labels = json.dumps(document.labels)
    metadata = json.dumps(dict(document.metadata), ensure_ascii=False)
    checksum = _checksum(document.id, labels, metadata, document.text)
    return document.id, labels, metadata, is_new, checksum, document.text


def _facets(positions: Sequence[int], documents: Sequence[Document]) -> Iterator[tuple[str, Any, int]]:
    for position, document in zip(positions, documents, strict=True):
        for field, value in document.metadata.items():
            for item in facet_values(value):
                # an integer beyond SQLite's 64 bits is stored as a float, which can still be compared
                yield field, float(item) if isinstance(item, int) and abs(item) >= 2**63 else item, position


def _as_bytes(rows: Any) -> Iterator[bytes]:
    """Return the terms of each row as bytes."""
    table = sparse.csr_array(rows)
    terms = np.empty(len(table.data), dtype=TERM)
    terms["column"], terms["weight"] = table.indices, table.data
    content = terms.tobytes()
    ends = (table.indptr * TERM.itemsize).tolist()
    return (content[start:end] for start, end in pairwise(ends))


def _checksum(*values: Any) -> int:
    checksum = 0
    for value in values:
        content = value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass")
        checksum = zlib.crc32(content, checksum)
    return checksum

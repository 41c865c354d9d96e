"""The documents of an engine, kept in SQLite: one file, read by id without loading the rest."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fewbits.corpus.document import Document, DocumentId
from fewbits.errors import BrokenFolderError, DataError, UnknownIdError

# The id column has no type, so that SQLite keeps 7 and '7' apart as Python does.
SCHEMA = "CREATE TABLE documents (position INTEGER PRIMARY KEY, id UNIQUE NOT NULL, text TEXT, labels TEXT)"


class DocumentStore:
    """Documents by id, in order of insertion."""

    def __init__(self, connection: sqlite3.Connection, *, is_writable: bool) -> None:
        self._connection = connection
        self._is_writable = is_writable

    @classmethod
    def create(cls) -> DocumentStore:
        """Make an empty store in a temporary file, which SQLite removes when it is closed."""
        connection = sqlite3.connect("", check_same_thread=False)
        connection.execute(SCHEMA)
        return cls(connection, is_writable=True)

    @classmethod
    def open(cls, path: Path) -> DocumentStore:
        """Open a file that :meth:`write` wrote, for reading."""
        try:
            connection = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
            )
            connection.execute("SELECT id FROM documents LIMIT 1")
        except sqlite3.DatabaseError as error:
            raise BrokenFolderError(f"{path} holds no documents", got=error) from error
        return cls(connection, is_writable=False)

    def __len__(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM documents").fetchone()[0])

    def collect(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Add documents while they pass by; an id that is there already is an error."""
        kind = next((type(id) for id in self.ids(limit=1)), None)
        for document in documents:
            kind = kind or type(document.id)
            if type(document.id) is not kind:
                raise DataError("ids are all texts or all whole numbers", got=f"{document.id!r} beside others")
            self._insert(document)
            yield document

    def _insert(self, document: Document) -> None:
        try:
            self._connection.execute(
                "INSERT INTO documents (id, text, labels) VALUES (?, ?, ?)",
                (document.id, document.text, json.dumps(document.labels)),
            )
        except sqlite3.IntegrityError:
            raise DataError(f"the id {document.id!r} is given twice", hint="Every document has its own id.") from None
        except (UnicodeEncodeError, sqlite3.Error) as error:
            raise DataError(f"the document {document.id!r} cannot be stored", got=error) from error

    def get(self, ids: Sequence[DocumentId]) -> list[Document]:
        """Documents by id, in the order that was asked for."""
        return [self._get_one(id) for id in ids]

    def ids(self, *, start: int = 0, limit: int = -1) -> list[DocumentId]:
        """Ids in order of insertion, from a position on; a negative limit is none."""
        query = "SELECT id FROM documents ORDER BY position LIMIT ? OFFSET ?"
        return [id for (id,) in self._connection.execute(query, (limit, start))]

    def label_sets(self) -> Iterator[tuple[str, ...]]:
        """Labels of all documents, in order of insertion."""
        rows = self._connection.execute("SELECT labels FROM documents ORDER BY position")
        return (tuple(json.loads(labels)) for (labels,) in rows)

    def writable(self) -> DocumentStore:
        """This store, or a copy if it is a saved file, which never changes."""
        if self._is_writable:
            return self
        copy = sqlite3.connect("", check_same_thread=False)
        self._connection.backup(copy)
        return DocumentStore(copy, is_writable=True)

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """Take back all that was added in the block if it ends with an error."""
        self._connection.commit()
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.commit()

    def write(self, path: Path) -> None:
        """Write all documents into a new file."""
        self._connection.commit()
        target = sqlite3.connect(path)
        self._connection.backup(target)
        target.close()

    def _get_one(self, id: DocumentId) -> Document:
        row = self._connection.execute("SELECT id, text, labels FROM documents WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise UnknownIdError(f"no document has the id {id!r}")
        return _document(*row)


def _document(id: DocumentId, text: str, labels: str) -> Document:
    return Document(id, text, tuple(json.loads(labels)))

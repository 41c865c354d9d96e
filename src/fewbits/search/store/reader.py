"""Reading the SQLite file of an engine.

In SQLite's write-ahead mode any number of readers work beside one writer, each on one state of the file. A change
becomes visible in one atomic step and is on disk when it is committed. If a process is killed, the last committed state
remains, and the next process to open the file finds it.
"""

from __future__ import annotations

import json
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from fewbits.codes import Packed, n_bytes
from fewbits.data.document import Document, DocumentId
from fewbits.errors import BrokenFolderError, NotWritableError, UnknownIdError
from fewbits.search.store.filters import Condition, filter_sql

Positions = NDArray[np.int64]
Stamp = tuple[int, int, int, bool] | None

SQLITE_TIMEOUT_S = 60.0  # for SQLite's own lock, which is held only briefly
MMAP_BYTES = 1 << 31  # of the file that are read without a system call; unread pages cost nothing
WAL_LIMIT = 64 << 20  # bytes of the write-ahead log that stay on disk
TERM = np.dtype([("column", "<u4"), ("weight", "<f4")])  # a term of a document, as it is stored
COLUMNS = "id, labels, metadata, text"


class Database:
    """A pool of connections to one SQLite file."""

    def __init__(self, path: Path, *, is_durable: bool = True) -> None:
        self.path = path
        self._is_durable = is_durable
        self.folder: object = None  # a temporary folder that lives as long as the file
        # Connections, each with the stamp of the file if it was opened as immutable. A deque's methods are atomic.
        self._idle: deque[tuple[sqlite3.Connection, Stamp]] = deque()
        finalize(self, _close_all, self._idle)

    @classmethod
    def open(cls, path: Path) -> Database:
        """Open a file that :meth:`copied_to` wrote."""
        database = cls(path)
        with database.reading() as connection:
            try:
                connection.execute("SELECT value FROM state").fetchall()
            except sqlite3.DatabaseError as error:
                raise BrokenFolderError(f"{path} does not contain documents", got=error) from error
        return database

    def create(self, schema: str) -> None:
        """Create the file."""
        connection = self._connect("rwc")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(schema)
        self._idle.append((connection, None))

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a connection that sees one state of the file until the block ends."""
        connection, stamp = self._take()
        try:
            connection.execute("BEGIN")
            yield connection
        except sqlite3.DatabaseError as error:
            raise BrokenFolderError(f"{self.path} cannot be read", got=error) from error
        finally:
            _roll_back(connection)
            self._idle.append((connection, stamp))

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for one transaction: committed to disk when the block ends, rolled back if it fails."""
        connection, stamp = self._take()
        try:
            connection.execute("PRAGMA query_only = OFF")
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:  # for example a full disk or a read-only file
            raise NotWritableError(f"{self.path} cannot be changed", got=error, hint="It is unchanged.") from error
        finally:
            _roll_back(connection)
            connection.execute("PRAGMA query_only = ON")
            self._idle.append((connection, stamp))

    @contextmanager
    def copied_to(self, path: Path) -> Iterator[sqlite3.Connection]:
        """Copy the present state to a new file, and open the copy until the block ends."""
        with closing(sqlite3.connect(path)) as target:
            with self.reading() as connection:
                connection.backup(target)
            target.execute("DELETE FROM changes")  # the new file has no readers yet
            target.execute(
                "UPDATE state SET value = (SELECT value FROM state WHERE name = 'version') WHERE name = 'oldest'"
            )
            target.commit()
            yield target
            target.execute("PRAGMA journal_mode = WAL")

    def _take(self) -> tuple[sqlite3.Connection, Stamp]:
        while True:
            try:
                connection, stamp = self._idle.pop()
            except IndexError:
                return self._open()
            if stamp is None or stamp == self._stamp():
                return connection, stamp
            connection.close()  # an immutable connection sees only the state at its opening

    def _open(self) -> tuple[sqlite3.Connection, Stamp]:
        try:
            try:
                return self._connect("rw"), None
            except sqlite3.OperationalError:
                # In a read-only folder SQLite cannot create the files that readers share with a writer. Without
                # pending changes the file can be opened as immutable.
                if not self.path.is_file() or self._has_pending_changes():
                    raise
                stamp = self._stamp()
                return self._connect("ro&immutable=1"), stamp
        except sqlite3.Error as error:
            raise BrokenFolderError(f"{self.path} cannot be opened", got=error) from error

    def _connect(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}",
            uri=True,
            check_same_thread=False,
            isolation_level=None,
            timeout=SQLITE_TIMEOUT_S,
        )
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the file
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._is_durable else 'OFF'}")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT}")
            connection.execute(f"PRAGMA mmap_size = {MMAP_BYTES}")
            connection.execute("PRAGMA query_only = ON" if mode != "rwc" else "PRAGMA query_only = OFF")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _has_pending_changes(self) -> bool:
        log = self.path.with_name(self.path.name + "-wal")
        return log.exists() and log.stat().st_size > 0

    def _stamp(self) -> Stamp:
        status = self.path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns, self._has_pending_changes()


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _close_all(connections: deque[tuple[sqlite3.Connection, Stamp]]) -> None:
    while connections:
        connections.pop()[0].close()


@dataclass(frozen=True)
class Changes:
    """Changes of the codes between two versions."""

    removed: Positions  # removed or replaced
    added: Positions  # added or replacing
    codes: Packed  # of the added ones


class Reader:
    """Reads one state of the documents.

    A document is addressed by its position; positions are in order of insertion and are never reused.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def version(self) -> int:
        """Return the version, a number that grows with every change."""
        return self._state("version")

    def count(self) -> int:
        """Count all documents."""
        return int(self._connection.execute("SELECT count(*) FROM documents").fetchone()[0])

    def count_new(self) -> int:
        """Count the documents added or updated since the fit."""
        return int(self._connection.execute("SELECT count(*) FROM documents WHERE is_new").fetchone()[0])

    def all_positions(self) -> Positions:
        """Return all positions in order."""
        return _integers(self._connection.execute("SELECT position FROM documents ORDER BY position"))

    def ids_of(self, positions: Positions) -> dict[int, DocumentId]:
        """Return ids by position."""
        query = "SELECT position, id FROM documents WHERE position IN (SELECT value FROM json_each(?))"
        return dict(self._connection.execute(query, (json.dumps(positions.tolist()),)).fetchall())

    def __contains__(self, id: DocumentId) -> bool:
        return bool(self._find([id]))

    def kind_of_ids(self) -> type | None:
        """Return the type of the ids, str or int; None without documents."""
        row = self._connection.execute("SELECT id FROM documents LIMIT 1").fetchone()
        return None if row is None else type(row[0])

    def positions(self, ids: Sequence[DocumentId]) -> list[int]:
        """Return the positions of documents; an unknown id is an error."""
        found = self._find(ids)
        if len(found) < len(ids):
            unknown = [repr(id) for id in ids if id not in found]
            missing = [*unknown[:3], *([f"and {len(unknown) - 3:,} more"] if len(unknown) > 3 else [])]
            same_type = {*map(type, ids)} == {self.kind_of_ids()}
            hint = "" if same_type else "An integer and a string are different ids: 7 is not '7'."
            raise UnknownIdError(f"no document has the id {', '.join(missing)}", hint=hint)
        return [found[id] for id in ids]

    def rows(self, positions: Iterable[int]) -> dict[int, tuple[DocumentId, tuple[str, ...], dict[str, Any], str]]:
        """Return id, labels, metadata and text by position."""
        query = f"SELECT position, {COLUMNS} FROM documents WHERE position IN (SELECT value FROM json_each(?))"
        values = json.dumps([int(position) for position in positions])
        return {
            position: (id, tuple(json.loads(labels)), json.loads(metadata), text)
            for position, id, labels, metadata, text in self._connection.execute(query, (values,))
        }

    def get(self, positions: Iterable[int]) -> list[Document]:
        """Return documents in the order of the positions."""
        requested = list(positions)
        rows = self.rows(requested)
        return [
            Document(id, text, labels, metadata)
            for id, labels, metadata, text in (rows[position] for position in requested)
        ]

    def all(self) -> Iterator[Document]:
        """Iterate over all documents in order of insertion."""
        query = f"SELECT {COLUMNS} FROM documents ORDER BY position"
        return (
            Document(id, text, tuple(json.loads(labels)), json.loads(metadata))
            for id, labels, metadata, text in self._connection.execute(query)
        )

    def facts(self, positions: Positions) -> dict[int, tuple[str, str]]:
        """Return labels and metadata as JSON by position, without reading texts."""
        query = "SELECT position, labels, metadata FROM documents WHERE position IN (SELECT value FROM json_each(?))"
        rows = self._connection.execute(query, (json.dumps(positions.tolist()),))
        return {position: (labels, metadata) for position, labels, metadata in rows}

    def label_counts(self) -> dict[str, int]:
        """Return the number of documents per label, the most frequent label first."""
        query = "SELECT label, count(*) AS number FROM labels GROUP BY label ORDER BY number DESC, label"
        return dict(self._connection.execute(query).fetchall())

    def listed(self) -> Iterator[tuple[int, DocumentId, tuple[str, ...], bool]]:
        """Iterate over position, id, labels, and whether it is newer than the fit, of all documents in order."""
        rows = self._connection.execute("SELECT position, id, labels, is_new FROM documents ORDER BY position")
        return ((position, id, tuple(json.loads(labels)), bool(is_new)) for position, id, labels, is_new in rows)

    def texts(self, *, are_new: bool, limit: int) -> list[str]:
        """Return the latest texts, of the fit or added or updated since."""
        condition = "is_new" if are_new else "NOT is_new"
        query = f"SELECT text FROM documents WHERE {condition} ORDER BY position DESC LIMIT ?"
        return [text for (text,) in self._connection.execute(query, (limit,))]

    def matching(self, labels: Sequence[str], conditions: Sequence[Condition]) -> Positions:
        """Return the positions of documents with one of the labels, if any are given, that pass all conditions."""
        return _integers(self._connection.execute(*filter_sql(labels, conditions)))

    def fields(self) -> list[str]:
        """Return the metadata fields that conditions can use."""
        return [name for (name,) in self._connection.execute("SELECT DISTINCT field FROM facets ORDER BY field")]

    def codes(self, n_bits: int, *, only_new: bool = False) -> tuple[Positions, Packed]:
        """Return positions and codes of all documents that have one, in order of insertion."""
        query = "SELECT position, code FROM codes ORDER BY position"
        if only_new:
            query = "SELECT position, code FROM codes JOIN documents USING (position) WHERE is_new"
        return _as_codes(self._connection.execute(query).fetchall(), n_bits)

    def changes_since(self, version: int, n_bits: int) -> Changes | None:
        """Return the changes of the codes since a version; None if they are no longer recorded."""
        removed = self.changed_since(version)
        if removed is None:
            return None
        query = "SELECT position, code FROM codes WHERE position IN (SELECT position FROM changes WHERE version > ?)"
        return Changes(removed, *_as_codes(self._connection.execute(query, (version,)).fetchall(), n_bits))

    def changed_since(self, version: int) -> Positions | None:
        """Return the positions of documents changed since a version; None if they are no longer recorded."""
        if version < self._state("oldest"):
            return None
        query = "SELECT DISTINCT position FROM changes WHERE version > ? ORDER BY position"
        return _integers(self._connection.execute(query, (version,)))

    def numbered_texts(self, positions: Positions | None = None) -> Iterator[tuple[int, str]]:
        """Iterate over positions and texts in order, of all documents or of those of some positions that exist."""
        if positions is None:
            return iter(self._connection.execute("SELECT position, text FROM documents ORDER BY position"))
        query = "SELECT position, text FROM documents WHERE position IN (SELECT value FROM json_each(?))"
        return iter(self._connection.execute(query, (json.dumps(positions.tolist()),)))

    def has_field(self, name: str) -> bool:
        """Return whether conditions can use a metadata field."""
        return self._connection.execute("SELECT 1 FROM facets WHERE field = ? LIMIT 1", (name,)).fetchone() is not None

    def terms(self, positions: Positions) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the terms of documents, concatenated (as :data:`TERM`), and their number per document."""
        query = "SELECT position, words FROM words WHERE position IN (SELECT value FROM json_each(?))"
        found = dict(self._connection.execute(query, (json.dumps(positions.tolist()),)).fetchall())
        rows = [found[position] for position in positions.tolist()]
        counts = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)) // TERM.itemsize
        return np.frombuffer(b"".join(rows), dtype=TERM), counts

    def _find(self, ids: Sequence[DocumentId]) -> dict[DocumentId, int]:
        # One by one: the key of json_each would not distinguish 7 from '7'.
        rows = (
            (id, self._connection.execute("SELECT position FROM documents WHERE id = ?", (id,)).fetchone())
            for id in ids
        )
        return {id: row[0] for id, row in rows if row is not None}

    def _state(self, name: str) -> int:
        return int(self._connection.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()[0])


def _integers(rows: Iterable[tuple[int]]) -> Positions:
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64)


def _as_codes(rows: list[tuple[int, bytes]], n_bits: int) -> tuple[Positions, Packed]:
    positions = np.fromiter((position for position, _ in rows), dtype=np.int64, count=len(rows))
    codes = np.frombuffer(b"".join(code for _, code in rows), dtype=np.uint8)
    if len(codes) != len(rows) * n_bytes(n_bits):
        raise BrokenFolderError("the codes differ in length (documents.sqlite)", allowed=f"{n_bytes(n_bits)} bytes")
    return positions, codes.reshape(len(rows), n_bytes(n_bits))

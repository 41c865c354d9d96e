"""The SQLite file of an engine: any number of readers beside one writer, each with one state before its eyes.

In SQLite's write-ahead mode a change becomes visible by one atomic step, is on the disk when it is committed, and never
waits for readers. A process that is killed leaves the last committed state, which the next one to open the file finds.
"""

from __future__ import annotations

import sqlite3
import tempfile
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fewbits.errors import BrokenFolderError, NotWritableError

Stamp = tuple[int, int, int, bool] | None

SQLITE_TIMEOUT_S = 60.0  # seconds to wait for SQLite's own lock, which is held for moments only
MAPPED = 1 << 31  # bytes of the file that are read without a call to the system; pages nobody reads cost nothing
WAL_LIMIT = 64 << 20  # bytes of the write-ahead file that stay on the disk

# The id column has no type, so that SQLite keeps 7 and '7' apart as Python does. Texts are the last column: whoever
# wants the others need not read past long ones. Codes and words have tables of their own: loading codes reads no text.
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


class Database:
    """Connections to one SQLite file."""

    def __init__(self, path: Path, *, is_durable: bool = True) -> None:
        self._path = path
        self._is_durable = is_durable
        # Connections with the stamp of the file, where it could only be read as it lay. A deque's methods are atomic.
        self._idle: deque[tuple[sqlite3.Connection, Stamp]] = deque()
        weakref.finalize(self, _close_all, self._idle)

    @classmethod
    def temporary(cls) -> Database:
        """Make an empty one that is removed with its last user."""
        folder = tempfile.TemporaryDirectory(prefix="fewbits-", ignore_cleanup_errors=True)
        database = cls(Path(folder.name) / "documents.sqlite", is_durable=False)
        connection = database._connect("rwc")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(SCHEMA)
        database._idle.append((connection, None))
        database._folder = folder  # type: ignore[attr-defined]  # lives as long as the database
        return database

    @classmethod
    def open(cls, path: Path) -> Database:
        """Open a file that :meth:`copied_to` wrote."""
        database = cls(path)
        with database.reading() as connection:
            try:
                connection.execute("SELECT value FROM state").fetchall()
            except sqlite3.DatabaseError as error:
                raise BrokenFolderError(f"{path} holds no documents", got=error) from error
        return database

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the file until the block ends."""
        connection, stamp = self._take()
        try:
            connection.execute("BEGIN")
            yield connection
        except sqlite3.DatabaseError as error:
            raise BrokenFolderError(f"{self._path} cannot be read", got=error) from error
        finally:
            _end(connection)
            self._idle.append((connection, stamp))

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection whose changes all come true, on the disk, when the block ends well, and else none."""
        connection, stamp = self._take()
        try:
            connection.execute("PRAGMA query_only = OFF")
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:  # a full disk, a file that may only be read
            raise NotWritableError(f"{self._path} cannot be changed", got=error, hint="It is as it was.") from error
        finally:
            _end(connection)
            connection.execute("PRAGMA query_only = ON")
            self._idle.append((connection, stamp))

    @contextmanager
    def copied_to(self, path: Path) -> Iterator[sqlite3.Connection]:
        """Write the present state into a new file, and look at it there until the block ends."""
        target = sqlite3.connect(path)
        with self.reading() as connection:
            connection.backup(target)
        target.execute("DELETE FROM changes")  # nobody has read the new file yet
        target.execute(
            "UPDATE state SET value = (SELECT value FROM state WHERE name = 'version') WHERE name = 'oldest'"
        )
        target.commit()
        yield target
        target.execute("PRAGMA journal_mode = WAL")
        target.close()

    def _take(self) -> tuple[sqlite3.Connection, Stamp]:
        while True:
            try:
                connection, stamp = self._idle.pop()
            except IndexError:
                return self._open()
            if stamp is None or stamp == self._stamp():
                return connection, stamp
            connection.close()  # it knows only the state that was there when it was opened

    def _open(self) -> tuple[sqlite3.Connection, Stamp]:
        try:
            try:
                return self._connect("rw"), None
            except sqlite3.OperationalError:
                # A folder that may only be read has no room for the files that readers share with a writer. Where
                # nobody is writing, the file can be read as it lies.
                if not self._path.is_file() or self._has_pending_changes():
                    raise
                stamp = self._stamp()
                return self._connect("ro&immutable=1"), stamp
        except sqlite3.Error as error:
            raise BrokenFolderError(f"{self._path} cannot be opened", got=error) from error

    def _connect(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode={mode}",
            uri=True,
            check_same_thread=False,
            isolation_level=None,
            timeout=SQLITE_TIMEOUT_S,
        )
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens it, or fails
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._is_durable else 'OFF'}")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT}")
            connection.execute(f"PRAGMA mmap_size = {MAPPED}")
            connection.execute("PRAGMA query_only = ON" if mode != "rwc" else "PRAGMA query_only = OFF")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _has_pending_changes(self) -> bool:
        beside = self._path.with_name(self._path.name + "-wal")
        return beside.exists() and beside.stat().st_size > 0

    def _stamp(self) -> Stamp:
        found = self._path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns, self._has_pending_changes()


def _end(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _close_all(connections: deque[tuple[sqlite3.Connection, Stamp]]) -> None:
    while connections:
        connections.pop()[0].close()

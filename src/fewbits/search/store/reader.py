"""Reading the SQLite file of an engine.

In SQLite's write-ahead mode any number of readers work beside one writer, each on one state of the file. A change
becomes visible in one atomic step and is on disk when it is committed. If a process is killed, the last committed state
remains, and the next process to open the file finds it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from fewbits.data.document import Document, DocumentId
from fewbits.errors import BrokenFolderError, NotSavedError, NotWritableError, UnknownIdError
from fewbits.search.store.connection import Connection, check_schema, committed_version, connect, record_commit
from fewbits.search.store.listings import Listings, StoredDocument
from fewbits.storage import FORM_ERRORS, RESTORE

LOGGER = logging.getLogger("fewbits")
Positions = NDArray[np.int64]
Stamp = tuple[int, int, int, bool] | None
FACTS = "position, is_new, checksum, id, labels, metadata"  # of a document, without its text
LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # UTF-8 cannot encode it
OLD_STATE = {"version", "oldest"}  # of files that earlier releases wrote, which have fewer checksums
DECODER = json.JSONDecoder()  # json.loads takes twice as long for a short text
IDS = (str, int)
SUMS = ("documents", "ids", "new", "new_positions", "codes", "labels", "fields")  # counts, and sums over tables
STATE = {*OLD_STATE, *SUMS, "checksum"}


class Database:
    """A pool of connections to one SQLite file."""

    def __init__(self, path: Path, *, is_durable: bool = True, is_recorded: bool = False) -> None:
        self.path = path
        self._is_durable = is_durable
        self._is_recorded = is_recorded  # whether commits are recorded outside of the file too
        self.folder: object = None  # a temporary folder that lives as long as the file
        self._process = os.getpid()
        self._verified: set[object] = set()
        # Connections, each with the stamp of the file if it was opened as immutable. A deque's methods are atomic.
        self._idle: deque[tuple[Connection, Stamp]] = deque()
        finalize(self, _close_all, self._idle, self._process)

    @classmethod
    def open(cls, path: Path, *, has_sums: bool) -> Database:
        """Open a file that :meth:`copied_to` wrote, after checking that no committed change is missing."""
        committed = committed_version(path) if has_sums else 0
        database = cls(path, is_recorded=has_sums)
        with database.reading() as connection:
            check_schema(connection, path, has_sums=has_sums)
            reader = Reader(connection)
            version = reader.version()
            if has_sums != reader.has_sums:
                raise BrokenFolderError(f"{path} was altered: its checksums are missing", hint=RESTORE)
            if version < committed:
                raise BrokenFolderError(
                    f"{path} lacks {committed - version} changes that were committed", got=f"version {version}"
                )
        return database

    def create(self, schema: str) -> None:
        """Create the file."""
        connection = self._connect("rwc")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(schema)
        self._idle.append((connection, None))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a connection that sees one state of the file until the block ends."""
        connection, stamp = self._take()
        try:
            connection.execute("BEGIN")
            yield connection
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise BrokenFolderError(f"{self.path} cannot be read", got=error) from error
        finally:
            _roll_back(connection)
            self._idle.append((connection, stamp))

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a connection for one transaction: committed to disk when the block ends, rolled back if it fails."""
        connection, stamp = self._take()
        try:
            connection.execute("PRAGMA query_only = OFF")
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            version = read_state(connection)["version"]
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:  # for example a full disk or a read-only file
            raise NotWritableError(f"{self.path} cannot be changed", got=error, hint="It is unchanged.") from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise BrokenFolderError(f"{self.path} cannot be changed", got=error, hint=RESTORE) from error
        finally:
            _roll_back(connection)
            connection.execute("PRAGMA query_only = ON")
            self._idle.append((connection, stamp))
        if self._is_recorded:
            try:
                record_commit(self.path, version)
            except OSError as error:  # what was committed stays committed
                LOGGER.warning("%s was changed, but its version could not be recorded: %s", self.path, error)

    @contextmanager
    def copied_to(self, path: Path) -> Iterator[Connection]:
        """Copy the present state to a new file, and open the copy until the block ends."""
        with closing(connect(path, "rwc", is_durable=True, verified=set())) as target:
            with self.reading() as connection, _naming(path):
                connection.backup(target)
            with _naming(path):
                yield target
                target.execute("PRAGMA journal_mode = WAL")

    def _take(self) -> tuple[Connection, Stamp]:
        if os.getpid() != self._process:  # a forked process must not use the connections of its parent, nor close them
            _INHERITED.append(self._idle)
            self._idle, self._process = deque(), os.getpid()
        while True:
            try:
                connection, stamp = self._idle.pop()
            except IndexError:
                return self._open()
            if stamp is None or stamp == self._stamp():
                return connection, stamp
            connection.close()  # an immutable connection sees only the state at its opening

    def _open(self) -> tuple[Connection, Stamp]:
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

    def _connect(self, mode: str) -> Connection:
        return connect(self.path, mode, is_durable=self._is_durable, verified=self._verified)

    def _has_pending_changes(self) -> bool:
        log = self.path.with_name(self.path.name + "-wal")
        return log.exists() and log.stat().st_size > 0

    def _stamp(self) -> Stamp:
        status = self.path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns, self._has_pending_changes()


_INHERITED: list[object] = []  # connections of parent processes, kept from being closed


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name a file that cannot be written, for example on a full disk."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise NotSavedError(f"{path} could not be written", got=error, hint="Free space on its disk.") from error


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _close_all(connections: deque[tuple[Connection, Stamp]], process: int) -> None:
    while connections and os.getpid() == process:
        connections.pop()[0].close()


def checksum(*values: Any) -> int:
    """Compute the CRC-32 of some values."""
    result = 0
    for value in values:
        content = value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass")
        result = zlib.crc32(content, result)
    return result


def document_checksum(position: int, is_new: int, id: Any, labels: str, metadata: str, text: Any) -> int:
    """Compute the checksum of a document: in the lower half without its text, in the upper half of the text."""
    others = f"{position!r}{is_new!r}{id!r}{labels!r}{metadata!r}"  # one by one they would take three times as long
    return (zlib.crc32(repr(text).encode()) >> 1) << 32 | zlib.crc32(others.encode("utf-8", "surrogatepass"))


@lru_cache(maxsize=1 << 12)
def _labels(stored: str) -> tuple[str, ...]:
    return tuple(json.loads(stored))


def read_state(connection: sqlite3.Connection) -> dict[str, int]:
    """Read the version, and the sums over the tables."""
    state: dict[str, int] = dict(connection.execute("SELECT name, value FROM state"))
    if state.keys() != OLD_STATE and (state.keys() != STATE or state["checksum"] != state_checksum(state)):
        raise BrokenFolderError("the state of the documents was altered (documents.sqlite)", hint=RESTORE)
    return state


def state_checksum(state: dict[str, int]) -> int:
    """Compute the checksum of the state."""
    return zlib.crc32(repr([state[name] for name in ("version", "oldest", *SUMS)]).encode())


class Reader(Listings):
    """Reads one state of the documents, comparing what it reads with its checksums.

    A document is addressed by its position; positions are in order of insertion and are never reused.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @cached_property
    def state(self) -> dict[str, int]:
        """Return the version, and the sums over the tables."""
        return read_state(self._connection)

    @property
    def has_sums(self) -> bool:
        """Return whether the file has sums; earlier releases wrote none."""
        return "checksum" in self.state

    def version(self) -> int:
        """Return the version, a number that grows with every change."""
        return self.state["version"]

    def __contains__(self, id: DocumentId) -> bool:
        return bool(self._find([id]))

    def kind_of_ids(self) -> type | None:
        """Return the type of the ids, str or int; None without documents."""
        first = next(self._documents("ORDER BY position LIMIT 1"), None)
        return None if first is None else type(first[1].id)

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
        return {position: one[:4] for position, one in self.stored(positions).items()}

    def stored(self, positions: Iterable[int]) -> dict[int, StoredDocument]:
        """Return documents by position."""
        requested = {int(position) for position in positions}
        condition = "WHERE position IN (SELECT value FROM json_each(?))"
        found = dict(self._documents(condition, json.dumps(list(requested))))
        _check_all_found(requested, found)
        return found

    def get(self, positions: Iterable[int]) -> list[Document]:
        """Return documents in the order of the positions."""
        requested = list(positions)
        stored = self.stored(requested)
        return [stored[position].document() for position in requested]

    def facts(self, positions: Positions) -> dict[int, tuple[str, str]]:
        """Return labels and metadata as JSON by position, of those that exist, without reading texts."""
        query = f"SELECT {FACTS} FROM documents WHERE position IN (SELECT value FROM json_each(?))"
        rows = self._connection.execute(query, (json.dumps(positions.tolist()),))
        facts = {}
        for position, is_new, expected, *values in rows:
            if self.has_sums and expected & 0xFFFFFFFF != checksum(position, is_new, *values):
                raise _altered(position)
            facts[position] = (values[1], values[2])
        return facts

    def encoded_checksum(self, position: int, code: bytes, words: bytes | None) -> int:
        """Compute the checksum of a code and its term vector."""
        return checksum(position, code, words) if self.has_sums else checksum(code, words)

    def _documents(self, condition: str, *values: Any) -> Iterator[tuple[int, StoredDocument]]:
        """Iterate over documents that meet a condition."""
        has_sums = self.has_sums
        query = f"SELECT {FACTS}, text FROM documents {condition}"
        for position, is_new, expected, id, labels, metadata, text in self._connection.execute(query, values):
            found = document_checksum(position, is_new, id, labels, metadata, text)
            if (found if has_sums else checksum(id, labels, metadata, text)) != expected:
                raise _altered(position)
            try:
                fields, end = DECODER.raw_decode(metadata)
                document = StoredDocument(id, _labels(labels), fields, text, bool(is_new))
            except FORM_ERRORS as error:
                raise _altered(position) from error
            if end != len(metadata) or type(fields) is not dict or type(text) is not str or type(id) not in IDS:
                raise _altered(position)
            yield position, document

    def _find(self, ids: Sequence[DocumentId]) -> dict[DocumentId, int]:
        # One by one: the key of json_each would not distinguish 7 from '7'.
        found = {}
        for id in ids:
            value = storable(id)
            query = "SELECT position FROM documents WHERE id = ?"
            row = None if value is None else self._connection.execute(query, (value,)).fetchone()
            if row is not None:
                query = "SELECT id FROM documents WHERE position = ?"
                if self._connection.execute(query, row).fetchone() != (value,):
                    raise BrokenFolderError("the index of the ids was altered (documents.sqlite)", hint=RESTORE)
                found[id] = row[0]
        if len(found) < len(ids):
            self.check_ids()  # an id may be missing in the index only
        return found


def _check_all_found(requested: set[int], found: Mapping[int, object]) -> None:
    if len(found) < len(requested):
        missing = min(requested - found.keys())
        raise BrokenFolderError(f"document number {missing} is missing (documents.sqlite)", hint=RESTORE)


def _altered(position: int) -> BrokenFolderError:
    return BrokenFolderError(
        f"document number {position} was altered (documents.sqlite): its checksum differs", hint=RESTORE
    )


def storable(id: Any) -> DocumentId | None:
    """Return an id in the form in which it is stored; None if no document can have it."""
    if isinstance(id, str):
        return id if id.isascii() or not LONE_SURROGATE.search(id) else None
    is_integer = isinstance(id, (int, np.integer)) and not isinstance(id, bool)
    return int(id) if is_integer and -(2**63) <= int(id) < 2**63 else None

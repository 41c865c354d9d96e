"""Opening the SQLite file of an engine: its schema, safe settings, and the number of changes that were committed."""

from __future__ import annotations

import os
import sqlite3
import struct
import zlib
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from fewbits.errors import BrokenFolderError
from fewbits.storage import RESTORE

SQLITE_TIMEOUT_S = 60.0  # for SQLite's own lock, which is held only briefly
MMAP_BYTES = 1 << 31  # of the file that are read without a system call; unread pages cost nothing
WAL_LIMIT = 64 << 20  # bytes of the write-ahead log that stay on disk
MAX_VALUE = 1 << 29  # bytes of a value, so that a damaged length cannot exhaust the memory
MAX_POSITION = 2**32  # arrays by position are allocated

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
"""
# Sums over the rows of each label, metadata field and version; those of whole tables are in the state.
SUMS_SCHEMA = """
CREATE TABLE sums (
    kind TEXT, name TEXT, count INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (kind, name)
) WITHOUT ROWID;
"""
_RECORD = struct.Struct("<QI")  # a version and its checksum


class Connection(sqlite3.Connection):
    """A connection that shares the set of verified rows with other connections to the same file."""

    verified: set[object]


def connect(path: Path, mode: str, *, is_durable: bool, verified: set[object]) -> Connection:
    """Open a file that may have been altered: none of its SQL is executed, and the size of its values is limited."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        check_same_thread=False,
        isolation_level=None,
        timeout=SQLITE_TIMEOUT_S,
        factory=Connection,
    )
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        if hasattr(connection, "setlimit"):  # Python 3.11
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        if hasattr(connection, "setconfig"):  # Python 3.12
            connection.setconfig(getattr(sqlite3, "SQLITE_DBCONFIG_DEFENSIVE"), True)  # noqa: B009
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the file
        connection.execute(f"PRAGMA synchronous = {'FULL' if is_durable else 'OFF'}")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT}")
        connection.execute(f"PRAGMA mmap_size = {MMAP_BYTES}")
        connection.execute(f"PRAGMA query_only = {'OFF' if mode == 'rwc' else 'ON'}")
    except BaseException:
        connection.close()
        raise
    connection.verified = verified
    return connection


def check_schema(connection: sqlite3.Connection, path: Path, *, has_sums: bool) -> None:
    """Raise an error if the schema of the file is not the expected one; a view of the same name may run for ever."""
    found = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()
    if found != _expected_schema(has_sums):
        raise BrokenFolderError(f"{path} was altered: its schema differs", hint=RESTORE)


@lru_cache
def _expected_schema(has_sums: bool) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA + SUMS_SCHEMA if has_sums else SCHEMA)
        return connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()


def _committed_file(path: Path) -> Path:
    return path.with_suffix(".version")


def record_commit(path: Path, version: int, *, is_new: bool = False) -> None:
    """Record outside of the database that a version was committed.

    If the write-ahead log is damaged, SQLite ignores it from the damage on. A crash before the record is on disk
    leaves an older record, which is not an error.
    """
    content = struct.pack("<Q", version)
    descriptor = os.open(_committed_file(path), os.O_WRONLY | (os.O_CREAT if is_new else 0), 0o666)
    try:
        os.write(descriptor, _RECORD.pack(version, zlib.crc32(content)))  # in one sector, so it is whole or not there
    finally:
        os.close(descriptor)


def committed_version(path: Path) -> int:
    """Return the last version that was recorded as committed."""
    record = _committed_file(path)
    try:
        content = record.read_bytes()[: _RECORD.size + 1]
    except OSError as error:
        raise BrokenFolderError(f"{record} cannot be read", got=error.strerror, hint=RESTORE) from error
    if len(content) == _RECORD.size:
        version, found = _RECORD.unpack(content)
        if zlib.crc32(content[:8]) == found:
            return int(version)
    raise BrokenFolderError(f"{record} was altered: its checksum differs", hint=RESTORE)

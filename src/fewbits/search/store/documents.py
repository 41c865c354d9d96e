"""The documents of an engine with their codes and words, read and changed inside one transaction."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fewbits.codes import Packed, n_bytes
from fewbits.data.document import Document, DocumentId
from fewbits.errors import BrokenFolderError, DataError, UnknownIdError
from fewbits.search.store.filters import Condition, facet_values, filter_sql

Positions = NDArray[np.int64]

WORD = np.dtype([("column", "<u4"), ("weight", "<f4")])  # a word of a document, as it lies on the disk
REMEMBERED_CHANGES = 100_000  # a reader that missed more reads all codes again
SHOWN_NAMES = 8  # of what might have been meant
COLUMNS = "id, labels, metadata, text"
LEARNT_WORDS = "FROM words JOIN documents USING (position) WHERE NOT is_new"


@dataclass(frozen=True)
class Changes:
    """What happened to the codes between two versions."""

    gone: Positions  # removed, or replaced by what is fresh
    fresh: Positions
    codes: Packed


class Reader:
    """Reads from one state of the documents. Positions are in order of insertion and never used again."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def version(self) -> int:
        """A number that grows with every change."""
        return self._state("version")

    def count(self) -> int:
        """How many documents there are."""
        return int(self._connection.execute("SELECT count(*) FROM documents").fetchone()[0])

    def count_new(self) -> int:
        """How many were added or updated since the codes were learnt."""
        return int(self._connection.execute("SELECT count(*) FROM documents WHERE is_new").fetchone()[0])

    def ids(self) -> Iterator[DocumentId]:
        """All ids in order of insertion."""
        return (id for (id,) in self._connection.execute("SELECT id FROM documents ORDER BY position"))

    def all_positions(self) -> Positions:
        """All positions in order."""
        return _integers(self._connection.execute("SELECT position FROM documents ORDER BY position"))

    def ids_of(self, positions: Positions) -> dict[int, DocumentId]:
        """Ids by position."""
        query = "SELECT position, id FROM documents WHERE position IN (SELECT value FROM json_each(?))"
        return dict(self._connection.execute(query, (json.dumps(positions.tolist()),)).fetchall())

    def __contains__(self, id: DocumentId) -> bool:
        return bool(self._positions([id]))

    def kind_of_ids(self) -> type | None:
        """What the ids are, texts or whole numbers; None where there are no documents."""
        row = self._connection.execute("SELECT id FROM documents LIMIT 1").fetchone()
        return None if row is None else type(row[0])

    def positions(self, ids: Sequence[DocumentId]) -> list[int]:
        """Positions of documents; an unknown id is an error."""
        found = self._positions(ids)
        if len(found) < len(ids):
            unknown = [repr(id) for id in ids if id not in found]
            missing = [*unknown[:3], *([f"and {len(unknown) - 3:,} more"] if len(unknown) > 3 else [])]
            is_of_kind = {*map(type, ids)} == {self.kind_of_ids()}
            hint = "" if is_of_kind else "Ids are as they were added: 7 and '7' are two."
            raise UnknownIdError(f"no document has the id {', '.join(missing)}", hint=hint)
        return [found[id] for id in ids]

    def get(self, positions: Iterable[int]) -> list[Document]:
        """Documents in the order that was asked for."""
        wanted = [int(position) for position in positions]
        query = f"SELECT position, {COLUMNS} FROM documents WHERE position IN (SELECT value FROM json_each(?))"
        found = {row[0]: _document(*row[1:]) for row in self._connection.execute(query, (json.dumps(wanted),))}
        return [found[position] for position in wanted]

    def all(self) -> Iterator[Document]:
        """All documents in order of insertion."""
        query = f"SELECT {COLUMNS} FROM documents ORDER BY position"
        return (_document(*row) for row in self._connection.execute(query))

    def label_sets(self) -> Iterator[tuple[str, ...]]:
        """Labels of all documents, in order of insertion."""
        rows = self._connection.execute("SELECT labels FROM documents ORDER BY position")
        return (tuple(json.loads(labels)) for (labels,) in rows)

    def label_counts(self) -> dict[str, int]:
        """How many documents have each label, most first."""
        query = "SELECT label, count(*) AS number FROM labels GROUP BY label ORDER BY number DESC, label"
        return dict(self._connection.execute(query).fetchall())

    def listed(self) -> Iterator[tuple[int, DocumentId, tuple[str, ...], bool]]:
        """Position, id, labels, and whether it came since the codes were learnt, of all documents in order."""
        rows = self._connection.execute("SELECT position, id, labels, is_new FROM documents ORDER BY position")
        return ((position, id, tuple(json.loads(labels)), bool(is_new)) for position, id, labels, is_new in rows)

    def texts(self, *, are_new: bool, limit: int) -> list[str]:
        """The latest texts that were there when the codes were learnt, or that came since."""
        query = "SELECT text FROM documents WHERE is_new ORDER BY position DESC LIMIT ?"
        if not are_new:
            query = query.replace("WHERE is_new", "WHERE NOT is_new")
        return [text for (text,) in self._connection.execute(query, (limit,))]

    def matching(self, labels: Sequence[str], conditions: Sequence[Condition]) -> Positions:
        """Positions of documents with one of the labels, if any are given, that pass all conditions."""
        return _integers(self._connection.execute(*filter_sql(labels, conditions)))

    def fields(self) -> list[str]:
        """Names of the metadata that can be filtered by."""
        return [name for (name,) in self._connection.execute("SELECT DISTINCT field FROM facets ORDER BY field")]

    def unknown_in_filters(self, labels: Sequence[str], conditions: Sequence[Condition]) -> list[str]:
        """Sentences on labels and fields that no document has: they may be mistyped."""
        told = []
        for label in labels:
            if not self._has("SELECT 1 FROM labels WHERE label = ?", label):
                told.append(_unknown("label", label, list(self.label_counts())))
        for condition in conditions:
            if not self._has("SELECT 1 FROM facets WHERE field = ?", condition.field):
                told.append(_unknown("metadata", condition.field, self.fields()))
        return told

    def _has(self, query: str, value: str) -> bool:
        return self._connection.execute(f"{query} LIMIT 1", (str(value),)).fetchone() is not None

    def codes(self, n_bits: int, *, only_new: bool = False) -> tuple[Positions, Packed]:
        """Positions and codes of all documents that have one, in order of insertion."""
        query = "SELECT position, code FROM codes ORDER BY position"
        if only_new:
            query = "SELECT position, code FROM codes JOIN documents USING (position) WHERE is_new"
        return _split(self._connection.execute(query).fetchall(), n_bits)

    def changes_since(self, version: int, n_bits: int) -> Changes | None:
        """What has happened to the codes since a version; None where that is not known any more."""
        if version < self._state("oldest"):
            return None
        gone = _integers(self._connection.execute("SELECT position FROM changes WHERE version > ?", (version,)))
        query = "SELECT position, code FROM codes WHERE position IN (SELECT position FROM changes WHERE version > ?)"
        return Changes(gone, *_split(self._connection.execute(query, (version,)).fetchall(), n_bits))

    def words(self, positions: Positions) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The words of documents one after the other (as :data:`WORD`), and how many each has."""
        query = "SELECT position, words FROM words WHERE position IN (SELECT value FROM json_each(?))"
        found = dict(self._connection.execute(query, (json.dumps(positions.tolist()),)).fetchall())
        rows = [found[position] for position in positions.tolist()]
        counts = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)) // WORD.itemsize
        return np.frombuffer(b"".join(rows), dtype=WORD), counts

    def new_positions(self) -> Positions:
        """Positions of documents that were added or updated since the codes were learnt."""
        return _integers(self._connection.execute("SELECT position FROM documents WHERE is_new"))

    def extent_of_learnt_words(self) -> tuple[int, int]:
        """The last position of :meth:`learnt_words`, and how many words there are."""
        query = f"SELECT max(position), sum(length(words)) {LEARNT_WORDS}"
        last, length = self._connection.execute(query).fetchone()
        return last or 0, (length or 0) // WORD.itemsize

    def learnt_words(self) -> Iterator[tuple[int, bytes]]:
        """Positions and words of the documents that the codes were learnt from, in order."""
        return iter(self._connection.execute(f"SELECT position, words {LEARNT_WORDS} ORDER BY position"))

    def check(self) -> None:
        """Read everything and compare it with its checksums."""
        try:
            problems = self._connection.execute("PRAGMA quick_check").fetchall()
            if problems != [("ok",)]:
                raise BrokenFolderError("the documents are damaged (documents.sqlite)", got=problems[0][0])
            documents = self._connection.execute(f"SELECT checksum, {COLUMNS} FROM documents")
            encoded = self._connection.execute(
                "SELECT checksum, code, words FROM codes LEFT JOIN words USING (position)"
            )
            for checksum, *content in chain(documents, encoded):
                if checksum != _checksum(*content):
                    raise BrokenFolderError("a document is altered (documents.sqlite): its checksum differs")
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise BrokenFolderError("the documents cannot be read (documents.sqlite)", got=error) from error

    def _positions(self, ids: Sequence[DocumentId]) -> dict[DocumentId, int]:
        # One by one: texts and numbers stay apart, as they do in Python.
        rows = (
            (id, self._connection.execute("SELECT position FROM documents WHERE id = ?", (id,)).fetchone())
            for id in ids
        )
        return {id: row[0] for id, row in rows if row is not None}

    def _state(self, name: str) -> int:
        return int(self._connection.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()[0])


class Writer(Reader):
    """Changes the documents; what it did becomes visible when its transaction ends."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        connection.execute("UPDATE state SET value = value + 1 WHERE name = 'version'")

    def insert(self, documents: Sequence[Document], *, are_new: bool) -> list[int]:
        """Add documents and return their positions; an id that is there already is an error."""
        self._check_kinds(documents)
        known = self._positions([document.id for document in documents])
        if known:
            hint = "Choose another id, or update the document."
            raise DataError(f"the id {next(iter(known))!r} is there already", hint=hint)
        _check_once([document.id for document in documents])
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'documents'").fetchone()
        start = 1 if row is None else row[0] + 1
        positions = list(range(start, start + len(documents)))
        self._put(positions, documents, are_new=are_new)
        return positions

    def replace(self, documents: Sequence[Document]) -> list[int]:
        """Put documents in the place of those with the same ids, and return their positions."""
        ids = [document.id for document in documents]
        _check_once(ids)
        positions = self.positions(ids)
        query = "SELECT position FROM changes WHERE version = ? AND position IN (SELECT value FROM json_each(?))"
        replaced = self._connection.execute(query, (self.version(), json.dumps(positions))).fetchone()
        if replaced is not None:  # by an earlier block of the same change
            raise _given_twice(ids[positions.index(replaced[0])])
        self._clear(positions)
        self._put(positions, documents, are_new=True)
        return positions

    def remove(self, ids: Sequence[DocumentId]) -> None:
        """Remove documents; an unknown id is an error."""
        _check_once(ids)
        self._clear(self.positions(ids))

    def put_codes(self, positions: Sequence[int], codes: Packed, rows: Any = None) -> None:
        """Store the codes of documents, and their words where they have any (tf-idf rows)."""
        words: list[bytes | None] = [None] * len(positions)
        if rows is not None:
            words = list(_as_bytes(rows))
            self._connection.executemany("INSERT INTO words VALUES (?, ?)", zip(positions, words, strict=True))
        packed = [code.tobytes() for code in codes]
        sums = (_checksum(*content) for content in zip(packed, words, strict=True))
        self._connection.executemany("INSERT INTO codes VALUES (?, ?, ?)", zip(positions, packed, sums, strict=True))

    def finish(self) -> None:
        """Forget changes that are too many to be read one by one."""
        count = self._connection.execute("SELECT count(*) FROM changes").fetchone()[0]
        if count > REMEMBERED_CHANGES:
            self._connection.execute("DELETE FROM changes")
            self._connection.execute("UPDATE state SET value = ? WHERE name = 'oldest'", (self.version(),))

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
        self._note(positions)

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
        self._note(positions)

    def _note(self, positions: list[int]) -> None:
        version = self.version()
        self._connection.executemany("INSERT OR IGNORE INTO changes VALUES (?, ?)", ((version, p) for p in positions))

    def _check_kinds(self, documents: Sequence[Document]) -> None:
        kind = self.kind_of_ids()
        for document in documents:
            kind = kind or type(document.id)
            if type(document.id) is not kind:
                raise DataError("ids are all texts or all whole numbers", got=f"{document.id!r} beside others")


def _unknown(what: str, name: str, known: list[str]) -> str:
    more = f" and {len(known) - SHOWN_NAMES:,} more" if len(known) > SHOWN_NAMES else ""
    there = f"there are: {', '.join(known[:SHOWN_NAMES])}{more}" if known else "none has any"
    return f"No document has the {what} {name!r} ({there})."


def _check_once(ids: Sequence[DocumentId]) -> None:
    if len(set(ids)) < len(ids):
        seen: set[DocumentId] = set()
        twice = next(id for id in ids if id in seen or seen.add(id))  # type: ignore[func-returns-value]
        raise _given_twice(twice)


def _given_twice(id: DocumentId) -> DataError:
    return DataError(f"the id {id!r} is given twice", hint="Every document has its own id.")


def _row(document: Document, is_new: bool) -> tuple[Any, ...]:
    labels = json.dumps(document.labels)
    metadata = json.dumps(dict(document.metadata), ensure_ascii=False)
    checksum = _checksum(document.id, labels, metadata, document.text)
    return document.id, labels, metadata, is_new, checksum, document.text


def _facets(positions: Sequence[int], documents: Sequence[Document]) -> Iterator[tuple[str, Any, int]]:
    for position, document in zip(positions, documents, strict=True):
        for field, value in document.metadata.items():
            for item in facet_values(value):
                # a number beyond SQLite's 64 bits is kept as a float, by which it can still be compared
                yield field, float(item) if isinstance(item, int) and abs(item) >= 2**63 else item, position


def _checksum(*values: Any) -> int:
    checksum = 0
    for value in values:
        content = value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass")
        checksum = zlib.crc32(content, checksum)
    return checksum


def _document(id: DocumentId, labels: str, metadata: str, text: str) -> Document:
    return Document(id, text, tuple(json.loads(labels)), json.loads(metadata))


def _as_bytes(rows: Any) -> Iterator[bytes]:
    """The words of each row."""
    table = sparse.csr_array(rows)
    words = np.empty(len(table.data), dtype=WORD)
    words["column"], words["weight"] = table.indices, table.data
    content = words.tobytes()
    ends = (table.indptr * WORD.itemsize).tolist()
    return (content[start:end] for start, end in pairwise(ends))


def _integers(rows: Iterable[tuple[int]]) -> Positions:
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64)


def _split(rows: list[tuple[int, bytes]], n_bits: int) -> tuple[Positions, Packed]:
    positions = np.fromiter((position for position, _ in rows), dtype=np.int64, count=len(rows))
    codes = np.frombuffer(b"".join(code for _, code in rows), dtype=np.uint8)
    if len(codes) != len(rows) * n_bytes(n_bits):
        raise BrokenFolderError("the codes have another length (documents.sqlite)", allowed=f"{n_bytes(n_bits)} bytes")
    return positions, codes.reshape(len(rows), n_bytes(n_bits))

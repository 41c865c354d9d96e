"""Writing the SQLite file of an engine: its schema, and changes to documents, codes and term vectors."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np
from scipy import sparse

from fewbits.codes import Packed
from fewbits.data.document import Document, DocumentId
from fewbits.errors import BrokenFolderError, DataError
from fewbits.search.store.checksums import codes_sum, rows_sum, total
from fewbits.search.store.connection import MAX_POSITION, SCHEMA, SUMS_SCHEMA
from fewbits.search.store.filters import facet_values
from fewbits.search.store.listings import FIELD, LABEL, TERM, VECTOR, VERSION, StoredDocument, sums_sum
from fewbits.search.store.reader import (
    STATE,
    Database,
    Reader,
    checksum,
    document_checksum,
    state_checksum,
    storable,
)
from fewbits.storage import RESTORE

LONG_INTEGER = re.compile("[0-9]{19}")
MAX_CHANGES = 100_000  # a reader that missed more reads all codes again


def create_database() -> Database:
    """Create an empty database in a temporary file that is removed when it is no longer used."""
    folder = Path(tempfile.mkdtemp(prefix="fewbits-"))
    database = Database(folder / "documents.sqlite", is_durable=False)
    database.create(SCHEMA + SUMS_SCHEMA)
    with database.writing() as connection:
        _write_state(connection, dict.fromkeys(STATE, 0))
    finalize(database, remove_temporary, folder, os.getpid())
    return database


def remove_temporary(folder: Path, process: int) -> None:
    """Remove a temporary folder, unless the present process was forked from the one that uses it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def record_change(database: Database) -> Iterator[Writer]:
    """Open a file for one change, which gets a new version and becomes visible when the block ends."""
    with database.writing() as connection:
        writer = Writer(connection)
        writer.begin_change()
        yield writer
        writer.end_change()


class Writer(Reader):
    """Changes the documents inside a transaction, and the sums over them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self._added: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])  # to counts and sums of rows
        self._recorded: set[int] = set()  # positions that this change has recorded

    def begin_change(self) -> None:
        """Assign a new version to what follows."""
        self.state["version"] += 1

    def end_change(self) -> None:
        """Store the sums; delete the record of changes if it is too long to be read one by one."""
        self._add_rows(VERSION, str(self.version()), [self.version()] * len(self._recorded), sorted(self._recorded))
        self.store_sums()
        count = self._connection.execute("SELECT count(*) FROM changes").fetchone()[0]
        if count > MAX_CHANGES:
            self.forget_changes()
        _write_state(self._connection, self.state)

    def forget_changes(self) -> None:
        """Delete the record of changes."""
        self._connection.execute("DELETE FROM changes")
        if self.has_sums:
            self._connection.execute("DELETE FROM sums WHERE kind = ?", (VERSION,))
        self.state["oldest"] = self.version()
        _write_state(self._connection, self.state)

    def insert(self, documents: Sequence[Document], *, are_new: bool) -> list[int]:
        """Add documents and return their positions; an existing id is an error."""
        self._check_ids(documents)
        existing = self._find([document.id for document in documents])
        if existing:
            hint = "Choose another id, or update the document."
            raise DataError(f"the id {next(iter(existing))!r} exists already", hint=hint)
        _check_distinct([document.id for document in documents])
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'documents'").fetchone()
        [last] = self._connection.execute("SELECT max(position) FROM documents").fetchone()
        start = max(row[0] if row else 0, last or 0) + 1
        if start + len(documents) >= MAX_POSITION:
            raise DataError("the engine cannot number more documents", allowed=f"{MAX_POSITION:,} in all", got=start)
        positions = list(range(start, start + len(documents)))
        self.put(positions, documents, are_new=are_new)
        return positions

    def replace(self, documents: Sequence[Document]) -> list[int]:
        """Replace the documents with the same ids, and return their positions."""
        ids = [document.id for document in documents]
        _check_distinct(ids)
        positions = self.positions(ids)
        # by an earlier block of the same change
        if replaced := [id for id, position in zip(ids, positions, strict=True) if position in self._recorded]:
            raise _duplicate_id(replaced[0])
        self._clear(positions)
        self.put(positions, documents, are_new=True)
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
        """Store the codes of documents, and their tf-idf rows or embeddings if they are kept."""
        terms: list[bytes | None] = [None] * len(positions)
        if rows is not None:
            is_sparse = sparse.issparse(rows)
            terms = list(_as_bytes(rows)) if is_sparse else [row.tobytes() for row in rows.astype(VECTOR)]
            self._connection.executemany("INSERT INTO words VALUES (?, ?)", zip(positions, terms, strict=True))
        packed = [code.tobytes() for code in codes]
        sums = map(self.encoded_checksum, positions, packed, terms)
        self._connection.executemany("INSERT INTO codes VALUES (?, ?, ?)", zip(positions, packed, sums, strict=True))
        if len(packed):
            self.add_to_state(codes=codes_sum(positions, codes))

    def check_rows(self, kind: str, name: str) -> None:
        """Compare rows with the sum over them, except for what this change has recorded so far."""
        if (kind, name) != (VERSION, str(self.version())):
            super().check_rows(kind, name)

    def put(self, positions: Sequence[int], documents: Sequence[Document], *, are_new: bool) -> None:
        """Store documents at positions that are free."""
        rows = []
        for position, document in zip(positions, documents, strict=True):
            id, labels, metadata, text = _row(document)
            if self.has_sums:
                sum = document_checksum(position, int(are_new), id, labels, metadata, text)
            else:
                sum = checksum(id, labels, metadata, text)
            rows.append((position, id, labels, metadata, int(are_new), sum, text))
        self._connection.executemany("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        self._connection.executemany("INSERT INTO labels VALUES (?, ?)", _labels(positions, documents))
        self._connection.executemany("INSERT INTO facets VALUES (?, ?, ?)", _facets(positions, documents))
        self._count(positions, documents, are_new=are_new, sign=1)
        self._record(positions)

    def _clear(self, positions: list[int]) -> None:
        stored = self.stored(positions)
        documents = [stored[position].document() for position in positions]
        labels, facets = _labels(positions, documents), _facets(positions, documents)
        self._connection.executemany("DELETE FROM labels WHERE label = ? AND position = ?", labels)
        self._connection.executemany("DELETE FROM facets WHERE field = ? AND value = ? AND position = ?", facets)
        for is_new in (False, True):
            chosen = [position for position in positions if stored[position].is_new is is_new]
            self._count(chosen, [stored[position].document() for position in chosen], are_new=is_new, sign=-1)
        query = "SELECT position, code FROM codes WHERE position IN (SELECT value FROM json_each(?))"
        rows = self._connection.execute(query, (json.dumps(positions),)).fetchall()
        if rows:
            codes = np.frombuffer(b"".join(code for _, code in rows), np.uint8).reshape(len(rows), -1)
            self.add_to_state(codes=-codes_sum([position for position, _ in rows], codes))
        for table in ("documents", "codes", "words"):
            self._connection.executemany(f"DELETE FROM {table} WHERE position = ?", ((p,) for p in positions))
        self._record(positions)

    def _count(self, positions: Sequence[int], documents: Sequence[Document], *, are_new: bool, sign: int) -> None:
        """Add documents to the counts and sums, or subtract them."""
        if not positions:
            return
        ids = rows_sum((document.id for document in documents), positions)
        self.add_to_state(documents=sign * len(positions), ids=sign * ids)
        if are_new:
            self.add_to_state(new=sign * len(positions), new_positions=sign * rows_sum([0] * len(positions), positions))
        for (kind, name), rows in grouped(positions, documents).items():
            self._add_rows(kind, name, [key for key, _ in rows], [row[1] for row in rows], sign)

    def _add_rows(self, kind: str, name: str, keys: Sequence[Any], positions: Sequence[int], sign: int = 1) -> None:
        added = self._added[kind, name]
        added[0] += sign * len(positions)
        added[1] = total(added[1], sign * rows_sum(keys, positions))

    def add_to_state(self, **added: int) -> None:
        """Add to counts and sums over tables."""
        if self.has_sums:
            self.state.update({name: total(self.state[name], value) for name, value in added.items()})

    def store_sums(self) -> None:
        """Store the sums over the rows of labels, metadata fields and the version."""
        for (kind, name), (count, added) in self._added.items() if self.has_sums else ():
            before = self.stored_sum(kind, name)
            after = (before[0] + count, total(before[1], added))
            query = "INSERT OR REPLACE INTO sums VALUES (?, ?, ?, ?)"
            self._connection.execute(query, (kind, name, *after))
            if not after[0]:
                self._connection.execute("DELETE FROM sums WHERE kind = ? AND name = ?", (kind, name))
            if after[0] < 0 or (not after[0] and after[1]):
                raise BrokenFolderError(f"the {kind} {name!r} was altered (documents.sqlite)", hint=RESTORE)
            if kind != VERSION:
                old, new = (sums_sum([(name, *sums)]) if sums[0] else 0 for sums in (before, after))
                self.add_to_state(**{{LABEL: "labels", FIELD: "fields"}[kind]: new - old})
        self._added.clear()

    def _record(self, positions: Sequence[int]) -> None:
        version = self.version()
        new = [position for position in positions if position not in self._recorded]
        self._recorded.update(new)
        self._connection.executemany("INSERT INTO changes VALUES (?, ?)", ((version, p) for p in new))

    def _check_ids(self, documents: Sequence[Document]) -> None:
        kind = self.kind_of_ids()
        for document in documents:
            kind = kind or type(document.id)
            if type(document.id) is not kind:
                raise DataError("ids must be all strings or all integers", got=f"{document.id!r} among others")
            if storable(document.id) is None:
                raise DataError("the id is not valid text", allowed="no lone surrogates", got=repr(document.id)[:60])


def _check_distinct(ids: Sequence[DocumentId]) -> None:
    if len(set(ids)) < len(ids):
        seen: set[DocumentId] = set()
        twice = next(id for id in ids if id in seen or seen.add(id))  # type: ignore[func-returns-value]
        raise _duplicate_id(twice)


def _duplicate_id(id: DocumentId) -> DataError:
    return DataError(f"the id {id!r} is given twice", hint="Ids must be unique.")


def _row(document: Document) -> tuple[Any, ...]:
    try:
        for value in (document.text, *document.labels):
            value.isascii() or value.encode()
        metadata = json.dumps(dict(document.metadata), ensure_ascii=False)
        metadata.isascii() or metadata.encode()
        if LONG_INTEGER.search(metadata):
            _check_integers(document.id, dict(document.metadata))
    except (UnicodeEncodeError, AttributeError, TypeError) as error:
        raise DataError(f"the document {document.id!r} cannot be stored", got=error) from error
    return document.id, json.dumps(document.labels), metadata, document.text


def _check_integers(id: DocumentId, value: Any) -> None:
    """Raise an error if there is an integer that neither SQLite nor most readers of JSON take as one."""
    if isinstance(value, (dict, list, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            _check_integers(id, item)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        allowed, hint = "integers of 64 bits", "Store it as a text."
        raise DataError(f"the metadata of {id!r} cannot be stored", allowed=allowed, got=value, hint=hint)


def _labels(positions: Sequence[int], documents: Sequence[Document | StoredDocument]) -> list[tuple[str, int]]:
    pairs = zip(positions, documents, strict=True)
    return [(label, position) for position, document in pairs for label in dict.fromkeys(document.labels)]


def _facets(positions: Sequence[int], documents: Sequence[Document | StoredDocument]) -> list[tuple[str, Any, int]]:
    """Return field, value and position of what can be compared; equal values of a field count once."""
    return [
        (field, value, position)
        for position, document in zip(positions, documents, strict=True)
        for field, values in document.metadata.items()
        for value in dict.fromkeys(map(_as_facet, facet_values(values)))
    ]


def _as_facet(value: Any) -> Any:
    """Return a value that SQLite stores unchanged: no truth values, and no integers beyond 64 bits."""
    if isinstance(value, int):
        return float(value) if abs(value) >= 2**63 else int(value)
    return value + 0.0 if isinstance(value, float) else value


def grouped(
    positions: Sequence[int], documents: Sequence[Document | StoredDocument]
) -> dict[tuple[str, str], list[tuple[Any, int]]]:
    """Return the rows of the tables of labels and metadata, by label and by field."""
    groups: defaultdict[tuple[str, str], list[tuple[Any, int]]] = defaultdict(list)
    for label, position in _labels(positions, documents):
        groups[LABEL, label].append((label, position))
    for field, value, position in _facets(positions, documents):
        groups[FIELD, field].append((value, position))
    return groups


def _write_state(connection: sqlite3.Connection, state: dict[str, int]) -> None:
    if state.keys() == STATE:
        state["checksum"] = state_checksum(state)
    connection.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", state.items())


def _as_bytes(rows: Any) -> Iterator[bytes]:
    """Return the terms of each row as bytes."""
    table = sparse.csr_array(rows)
    terms = np.empty(len(table.data), dtype=TERM)
    terms["column"], terms["weight"] = table.indices, table.data
    content = terms.tobytes()
    ends = (table.indptr * TERM.itemsize).tolist()
    return (content[start:end] for start, end in pairwise(ends))

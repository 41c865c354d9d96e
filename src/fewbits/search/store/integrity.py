"""Verification of the SQLite file: derived data are compared with the documents. Upgrade of earlier formats."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from fewbits.errors import BrokenFolderError
from fewbits.search.store.checksums import codes_sum, rows_sum, total
from fewbits.search.store.connection import SUMS_SCHEMA
from fewbits.search.store.listings import FIELD, LABEL, VERSION, damaged, sums_sum
from fewbits.search.store.reader import STATE, Reader
from fewbits.search.store.writer import Writer, grouped
from fewbits.storage import RESTORE
from fewbits.validation import batched

BLOCK = 4096  # documents
Sums = dict[tuple[str, str], tuple[int, int]]  # count and sum by kind and name


def check_documents(connection: sqlite3.Connection) -> None:
    """Read everything, compare checksums, and compare what is derived from the documents with them."""
    try:
        problems = connection.execute("PRAGMA integrity_check").fetchall()
        if problems != [("ok",)]:
            raise BrokenFolderError("the documents are damaged (documents.sqlite)", got=problems[0][0], hint=RESTORE)
        reader = Reader(connection)
        state, sums = _sums_of_documents(reader)
        state["codes"] = _sum_of_codes(connection, reader)
        rows = connection.execute("SELECT label, label, position FROM labels ORDER BY label")
        facets = connection.execute("SELECT field, value, position FROM facets ORDER BY field")
        if {**_sums_of_rows(LABEL, rows), **_sums_of_rows(FIELD, facets)} != sums:
            raise damaged("the tables of labels and metadata")
        if reader.has_sums:
            _check_stored_sums(connection, reader, state, sums)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise BrokenFolderError("the documents cannot be read (documents.sqlite)", got=error, hint=RESTORE) from error


def _sums_of_documents(reader: Reader) -> tuple[dict[str, int], Sums]:
    """Compute the sums of all documents, and of the rows of labels and metadata that they should have."""
    state = {"documents": 0, "ids": 0, "new": 0, "new_positions": 0}
    sums: defaultdict[tuple[str, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for block in batched(reader.stored_documents(), BLOCK):
        positions = [position for position, _ in block]
        documents = [one for _, one in block]
        if len({type(document.id) for document in documents}) > 1:
            raise damaged("the ids")
        new = [position for position, one in block if one.is_new]
        ids = rows_sum((document.id for document in documents), positions)
        added = (len(block), ids, len(new), rows_sum([0] * len(new), new))
        state = {name: total(value, more) for (name, value), more in zip(state.items(), added, strict=True)}
        for key, rows in grouped(positions, documents).items():
            count, sum = sums[key]
            sums[key] = count + len(rows), total(sum, rows_sum(*zip(*rows, strict=True)))
    return state, dict(sums)


def _sum_of_codes(connection: sqlite3.Connection, reader: Reader) -> int:
    sum = n_words = 0
    query = "SELECT position, code, checksum, words FROM codes LEFT JOIN words USING (position)"
    for block in batched(connection.execute(query), BLOCK):
        for position, code, expected, words in block:
            n_words += words is not None
            if reader.encoded_checksum(position, code, words) != expected:
                raise damaged("a code and its words")
        codes = np.frombuffer(b"".join(code for _, code, *_ in block), np.uint8).reshape(len(block), -1)
        sum = total(sum, codes_sum([position for position, *_ in block], codes))
    [alone] = connection.execute("SELECT count(*) FROM codes WHERE position NOT IN (SELECT position FROM documents)")
    if alone != (0,) or connection.execute("SELECT count(*) FROM words").fetchone() != (n_words,):
        raise damaged("the codes")
    return sum


def _sums_of_rows(kind: str, rows: Iterable[tuple[str, object, int]]) -> Sums:
    """Compute the sums of the rows of a table, which are in order of their names."""
    sums: Sums = {}
    for block in batched(rows, BLOCK):
        groups: defaultdict[str, list[tuple[object, int]]] = defaultdict(list)
        for name, key, position in block:
            groups[name].append((key, position))
        for name, group in groups.items():
            count, sum = sums.get((kind, name), (0, 0))
            sums[kind, name] = count + len(group), total(sum, rows_sum(*zip(*group, strict=True)))
    return sums


def _check_stored_sums(connection: sqlite3.Connection, reader: Reader, state: dict[str, int], sums: Sums) -> None:
    stored = {(kind, name): (count, sum) for kind, name, count, sum in connection.execute("SELECT * FROM sums")}
    names: dict[str, list[tuple[str, int, int]]] = {LABEL: [], FIELD: []}
    for (kind, name), (count, sum) in sums.items():
        names[kind].append((name, count, sum))
    state |= {"labels": total(sums_sum(names[LABEL])), "fields": total(sums_sum(names[FIELD]))}
    if {key: value for key, value in stored.items() if key[0] != VERSION} != sums:
        raise damaged("the sums over labels and metadata")
    if any(reader.state[name] != value for name, value in state.items()):
        raise damaged("the sums over the tables")
    changes = connection.execute("SELECT version, version, position FROM changes ORDER BY version")
    recorded = {(kind, str(name)): value for (kind, name), value in _sums_of_rows(VERSION, changes).items()}
    if {key: value for key, value in stored.items() if key[0] == VERSION} != recorded:
        raise damaged("the record of changes")


def prepare_copy(connection: sqlite3.Connection) -> None:
    """Make the copy of a file independent: it has no readers yet, and sums even if an earlier release wrote it."""
    connection.execute("BEGIN")
    writer = Writer(connection)
    if not writer.has_sums:
        connection.execute(SUMS_SCHEMA)
        _upgrade(connection, Reader(connection), writer)
    writer.forget_changes()
    connection.execute("COMMIT")


def _upgrade(connection: sqlite3.Connection, reader: Reader, writer: Writer) -> None:
    """Store all documents again, with the sums over them."""
    _sum_of_codes(connection, reader)
    for table in ("labels", "facets", "changes"):
        connection.execute(f"DELETE FROM {table}")
    positions = reader.all_positions().tolist()  # also reads the state in its old form
    writer.state.update(dict.fromkeys(STATE - writer.state.keys(), 0))
    for block in batched(positions, BLOCK):
        stored = reader.stored(block)
        connection.executemany("DELETE FROM documents WHERE position = ?", ((position,) for position in block))
        for is_new in (False, True):
            chosen = [position for position in block if stored[position].is_new is is_new]
            writer.put(chosen, [stored[position].document() for position in chosen], are_new=is_new)
    query = "SELECT position, code, words FROM codes LEFT JOIN words USING (position)"
    for rows in _blocks(connection, query):
        sums = ((writer.encoded_checksum(*row), row[0]) for row in rows)
        connection.executemany("UPDATE codes SET checksum = ? WHERE position = ?", sums)
        codes = np.frombuffer(b"".join(code for _, code, _ in rows), np.uint8).reshape(len(rows), -1)
        writer.add_to_state(codes=codes_sum([position for position, *_ in rows], codes))
    writer.store_sums()


def _blocks(connection: sqlite3.Connection, query: str) -> Iterator[list[tuple[int, bytes, bytes | None]]]:
    """Read rows by position in blocks, so that they can be changed between two blocks."""
    last, page = 0, f"{query} WHERE position > ? ORDER BY position LIMIT {BLOCK}"
    while block := connection.execute(page, (last,)).fetchall():
        yield block
        last = block[-1][0]

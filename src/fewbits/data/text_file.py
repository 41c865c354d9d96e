"""A file of texts that is read several times: its texts and ids, and its records with all their fields."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fewbits.data.document import Document, DocumentId, Record
from fewbits.data.io import read_documents, write_documents, write_records
from fewbits.data.records import existing, open_records
from fewbits.errors import ParameterError


class TextFile:
    """A file of texts; ``reading`` are options of :func:`read_documents`.

    What is skipped or empty is reported in the first reading only.
    """

    def __init__(self, path: Path, reading: Mapping[str, Any]) -> None:
        if str(path) == "-":
            hint = "Write it to a file first."
            raise ParameterError("standard input can be read only once", allowed="a file", hint=hint)
        self.path = existing(path)
        self._reading = dict(reading)
        self._positions: array[int] | None = None  # of the records of documents, once they were read
        self._ids: list[DocumentId] | None = None  # unless they are the positions

    def documents(self) -> Iterator[Document]:
        """Iterate over the documents."""
        is_first = self._positions is None
        stream = read_documents(self.path, **self._reading if is_first else {**self._reading, "warn": lambda _: None})
        positions: array[int] = array("q")
        ids: list[DocumentId] = []
        for document in stream:
            if is_first:
                positions.append(stream.report.position)
                if document.id != stream.report.position or isinstance(document.id, str):
                    ids.append(document.id)
            yield document
        if is_first:
            self._positions, self._ids = positions, ids or None

    def texts(self) -> Iterator[str]:
        """Iterate over the texts."""
        return (document.text for document in self.documents())

    @property
    def ids(self) -> Sequence[DocumentId]:
        """Return the ids of the documents."""
        positions = self._read_positions()
        return positions if self._ids is None else self._ids

    def _read_positions(self) -> array[int]:
        if self._positions is None:
            for _ in self.documents():
                pass
        assert self._positions is not None
        return self._positions

    def stamp(self) -> int:
        """Return a number that changes with the file and the way it is read."""
        paths = sorted(self.path.rglob("*")) if self.path.is_dir() else [self.path]
        facts = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
        options = {name: value for name, value in self._reading.items() if name != "warn"}
        return zlib.crc32(repr((facts, options)).encode())

    def write_without(self, rows: set[int], output: Path) -> int:
        """Write the records of all documents but some with all their fields, and return their number."""
        if self.path.is_dir() or self.path.suffix.lower() == ".txt":
            kept = (document for row, document in enumerate(self.documents()) if row not in rows)
            return write_documents(output, kept)
        return write_records(output, self._records(rows))

    def _records(self, without: set[int]) -> Iterator[Record]:
        rows = {position: row for row, position in enumerate(self._read_positions())}
        records = open_records(self.path, self._reading.get("encoding", "utf-8"), self._reading.get("delimiter"))
        for position, (_, record) in enumerate(records):
            if position in rows and rows[position] not in without and isinstance(record, dict):
                yield record

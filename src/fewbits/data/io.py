"""Read and write documents as a stream: JSON Lines, JSON arrays, CSV, TSV, Parquet, a folder of texts."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from fewbits.data.document import Document, DocumentId, Fields, Record, as_id
from fewbits.data.records import Records, check_encoding, existing, open_records, whole_text
from fewbits.errors import DataError, ParameterError
from fewbits.storage import atomic_write

ON_ERROR = ("stop", "skip")
SHOWN = 10  # places that a report names
LOOKED_AHEAD = 1_000  # records, of which one must have each field


@dataclass
class ReadReport:
    """What was left out of a stream of records, and which fields were empty; complete when the stream has ended."""

    read: int = 0
    position: int = -1  # of the record that was read last, counting those that were skipped
    skipped: int = 0
    errors: list[str] = field(default_factory=list)  # of the first records that were skipped
    empty: dict[str, list[str]] = field(default_factory=dict)  # by field, the first places without a value
    n_empty: dict[str, int] = field(default_factory=dict)  # by field, the number of records without a value

    def skip(self, error: DataError) -> None:
        """Count a record that is left out."""
        self.skipped += 1
        if len(self.errors) < SHOWN:
            self.errors.append(str(error))

    def note_empty(self, name: str, where: str) -> None:
        """Count a record without a value in a field."""
        self.n_empty[name] = self.n_empty.get(name, 0) + 1
        places = self.empty.setdefault(name, [])
        if len(places) < SHOWN:
            places.append(where)

    def sentences(self) -> list[str]:
        """Return a sentence for each thing that the user should know."""
        found = []
        for name, count in self.n_empty.items():
            subject = f"{count:,} record has" if count == 1 else f"{count:,} records have"
            places = _places(self.empty[name], count)
            found.append(f"{subject} no value in the field {name!r}, which counts as empty: {places}.")
        if self.skipped:
            subject = "1 record was" if self.skipped == 1 else f"{self.skipped:,} records were"
            found.append(f"{subject} skipped:")
            found += [f"  {error}" for error in self.errors]
            if self.skipped > len(self.errors):
                found.append(f"  and {self.skipped - len(self.errors):,} more.")
        return found


def _places(places: Sequence[str], count: int) -> str:
    """Name places, the file once: "news.csv, line 3, line 7 and 2 more"."""
    source = places[0].rpartition(", ")[0]
    names = [places[0], *(place.removeprefix(f"{source}, ") for place in places[1:])]
    return ", ".join(names) + (f" and {count - len(places):,} more" if count > len(places) else "")


class DocumentStream(Iterator[Document]):
    """Documents, one at a time, and a report of what was skipped or empty."""

    def __init__(self, documents: Iterator[Document], report: ReadReport) -> None:
        self._documents = documents
        self.report = report

    def __next__(self) -> Document:
        return next(self._documents)


def read_documents(
    source: str | Path,
    *,
    text: str | Sequence[str] = "text",
    id: str | None = None,
    label: str | None = None,
    label_separator: str | None = None,
    metadata: Sequence[str] = (),
    encoding: str = "utf-8",
    delimiter: str | None = None,
    strip_html: bool = False,
    on_error: str = "stop",
    warn: Callable[[str], None] | None = None,
) -> DocumentStream:
    """Read documents from a file or folder, one at a time.

    A field that a record lacks, and a text that is null or NaN, is empty; a warning at the end counts them. A field
    that none of the first 1,000 records has is an error.

    Parameters
    ----------
    source : path
        A ``.jsonl``/``.ndjson``, ``.json`` (an array of objects, or JSON Lines), ``.csv`` or ``.tsv`` file (each also
        with ``.gz``), a ``.parquet`` file, or a folder of ``.txt`` files, each a document labelled with the name of its
        folder. A single ``.txt`` file is one document. ``-`` is JSON from standard input.
    text : str or sequence of str
        Field or fields of the text; several are joined with newlines.
    id, label : str, optional
        Fields of the id (default: the position, from 0) and of the label or labels.
    label_separator : str, optional
        Separator of several labels in one field, such as a space or a comma.
    metadata : sequence of str
        Fields to store with the document, for use in filters.
    encoding : str, default="utf-8"
        Encoding of the file or files.
    delimiter : str, optional
        Character between the fields of a ``.csv`` or ``.tsv`` file, such as ``;``.
    strip_html : bool, default=False
        Remove tags, comments, scripts and styles from texts, and decode entities such as ``&amp;``.
    on_error : {"stop", "skip"}, default="stop"
        Whether a record that cannot be used is an error, or is left out and counted in the report of the stream. With
        "skip", a document whose id an earlier one has is left out too.
    warn : callable, optional
        Called at the end with each sentence of the report; by default they are Python warnings.

    Returns
    -------
    DocumentStream
        An iterator over documents; its ``report`` is complete at the end.
    """
    names = (text,) if isinstance(text, str) else tuple(text)
    fields = Fields(names, id, label, label_separator, tuple(metadata), strip_html)
    fields.check()
    check_encoding(encoding)
    if on_error not in ON_ERROR:
        raise ParameterError("on_error is unknown", allowed=", ".join(ON_ERROR), got=repr(on_error))
    report = ReadReport()
    path = Path("-") if str(source) == "-" else existing(source)
    if str(source) != "-" and (path.is_dir() or path.suffix.lower() == ".txt"):
        if id is not None or label is not None or metadata:
            kind = "a folder of texts" if path.is_dir() else "a text"
            fields_got = f"id={id!r}, label={label!r}, metadata={list(metadata)!r}"
            raise ParameterError(f"{path} is {kind}, which has no fields", got=fields_got)
        documents = _Texts(path, encoding, fields, report, skip=on_error == "skip").documents()
    else:
        records = open_records(source, encoding, delimiter)
        documents = _documents(records, fields, report, skip=on_error == "skip")
    return DocumentStream(_with_warnings(documents, report, warn or _warn), report)


def read_records(source: str | Path, encoding: str = "utf-8") -> Iterator[tuple[str, Record]]:
    """Yield the place in the file (for error messages) and the fields of every record."""
    for where, record in open_records(source, encoding):
        if isinstance(record, DataError):
            raise record
        yield where, record


def _warn(sentence: str) -> None:
    warnings.warn(sentence, stacklevel=2)


def _with_warnings(
    documents: Iterable[Document], report: ReadReport, warn: Callable[[str], None]
) -> Iterator[Document]:
    for document in documents:
        report.read += 1
        yield document
    sentences = report.sentences()
    details = [sentence for sentence in sentences if sentence.startswith(" ")]
    for sentence in sentences:
        if not sentence.startswith(" "):
            warn("\n".join([sentence, *details]) if sentence.endswith(":") else sentence)


def _documents(records: Records, fields: Fields, report: ReadReport, *, skip: bool) -> Iterator[Document]:
    """Convert records; those that cannot be used are errors, or are left out and counted."""
    numbered = enumerate(records)
    first = _first_usable(numbered)
    fields.check_exist([(where, record) for _, (where, record) in first if not isinstance(record, DataError)])
    places: dict[DocumentId, str] = {}  # of the ids
    for position, (where, record) in chain(first, numbered):
        empty: list[str] = []
        try:
            if isinstance(record, DataError):
                raise record
            document = fields.document(record, position, where, empty)
            if fields.id is not None:
                earlier = places.setdefault(document.id, where)
                if earlier is not where:
                    raise _given_twice(document.id, earlier, where)
        except DataError as error:
            if not skip:
                raise
            report.skip(error)
            continue
        for name in empty:
            report.note_empty(name, where)
        report.position = position
        yield document


def _first_usable(numbered: Iterator[tuple[int, tuple[str, Record | DataError]]]) -> list[Any]:
    """Read ahead until the first error, which is raised when its record is reached."""
    first: list[Any] = []
    try:
        for number, (where, record) in islice(numbered, LOOKED_AHEAD):
            first.append((number, (where, record)))
    except DataError as error:
        first.append((len(first), ("", error)))
    return first


def _given_twice(id: DocumentId, earlier: str, where: str) -> DataError:
    file, _, place = where.rpartition(", ")
    return DataError(
        f"{file}, {earlier.removeprefix(f'{file}, ')} and {place}: the id {id!r} is given twice",
        hint="Ids must be unique. To keep the first document of each, skip errors (--on-error skip).",
    )


@dataclass(frozen=True)
class _Texts:
    """A text file, or a folder of them."""

    path: Path
    encoding: str
    fields: Fields
    report: ReadReport
    skip: bool

    def documents(self) -> Iterator[Document]:
        """Yield a document per file."""
        if not self.path.is_dir():
            yield from self._document(self.path, self.path.name, ())
            return
        paths = sorted(path for path in self.path.rglob("*.txt") if path.is_file())
        if not paths:
            raise DataError(f"{self.path} contains no documents", allowed=".txt files, also in subfolders")
        for position, path in enumerate(paths):
            self.report.position = position
            name = path.relative_to(self.path)
            yield from self._document(path, name.as_posix(), name.parts[-2:-1])

    def _document(self, path: Path, id: str, labels: tuple[str, ...]) -> Iterator[Document]:
        try:
            with path.open("rb") as stream:
                text = whole_text(stream, str(path), self.encoding)
            yield Document(id, self.fields.clean(text), labels)
        except (DataError, OSError) as error:
            if not self.skip:
                raise
            self.report.skip(error if isinstance(error, DataError) else DataError(f"{path} cannot be read", got=error))


def write_documents(path: Path, documents: Iterable[Document]) -> int:
    """Write documents as JSON Lines, atomically, and return their number.

    The fields are id, text, labels and those of the metadata.
    """
    return write_records(path, map(_as_record, documents))


def write_records(path: Path, records: Iterable[Record]) -> int:
    """Write records as JSON Lines with all their fields, atomically, and return their number."""
    count = 0
    with atomic_write(Path(path)) as stream:
        for record in records:
            stream.write((json.dumps(record, ensure_ascii=False, default=str) + "\n").encode("utf-8", "replace"))
            count += 1
    return count


def _as_record(document: Document) -> Record:
    return {**document.metadata, "id": document.id, "text": document.text, "labels": list(document.labels)}


PAIR_FIELDS = ("left", "right", "same")
BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class Pair:
    """Ids of two documents, and whether they belong together."""

    left: DocumentId
    right: DocumentId
    same: bool


def read_pairs(source: str | Path, encoding: str = "utf-8") -> Iterator[Pair]:
    """Read pairs from JSON Lines, CSV, TSV or Parquet: fields ``left`` and ``right`` are ids, ``same`` is yes or no."""
    for where, record in read_records(source, encoding):
        missing = [name for name in PAIR_FIELDS if record.get(name) in (None, "")]
        if missing:
            raise DataError(f"{where} lacks {missing[0]!r}", allowed=", ".join(PAIR_FIELDS), got=", ".join(record))
        same = BOOLEANS.get(str(record["same"]).strip().lower())
        if same is None:
            raise DataError(
                f"{where}: field 'same' is not yes or no", allowed=", ".join(BOOLEANS), got=repr(record["same"])
            )
        left, right = (as_id(record[name], name, where) for name in ("left", "right"))
        yield Pair(left, right, same)

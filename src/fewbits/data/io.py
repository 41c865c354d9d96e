"""Read and write documents as a stream: JSON Lines, CSV, TSV, Parquet, a folder of texts."""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from fewbits.data.document import Document, DocumentId, Fields, Record, as_id
from fewbits.errors import DataError, MissingExtraError, MissingFileError, ParameterError
from fewbits.storage import atomic_write


def read_documents(
    source: str | Path,
    *,
    text: str | Sequence[str] = "text",
    id: str | None = None,
    label: str | None = None,
    label_separator: str | None = None,
    metadata: Sequence[str] = (),
    encoding: str = "utf-8",
) -> Iterator[Document]:
    """Read documents from a file or folder, one at a time.

    Parameters
    ----------
    source : path
        A ``.jsonl``/``.ndjson``, ``.csv`` or ``.tsv`` file (each also with ``.gz``), a ``.parquet`` file, or a
        folder of ``.txt`` files, each a document labelled with the name of its folder. A single ``.txt`` file is one
        document. ``-`` is JSON Lines from standard input.
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
    """
    fields = Fields((text,) if isinstance(text, str) else tuple(text), id, label, label_separator, tuple(metadata))
    fields.check()
    _check_encoding(encoding)
    if str(source) == "-":
        return _documents(_json_records(sys.stdin.buffer, "standard input", encoding), fields)
    path = _existing(source)
    if path.is_dir() or path.suffix.lower() == ".txt":
        if id is not None or label is not None or metadata:
            kind = "a folder of texts" if path.is_dir() else "a text"
            fields_got = f"id={id!r}, label={label!r}, metadata={list(metadata)!r}"
            raise ParameterError(f"{path} is {kind}, which has no fields", got=fields_got)
        return _folder(path, encoding) if path.is_dir() else iter([_text_file(path, path.name, (), encoding)])
    return _documents(_record_reader(path)(path, encoding), fields)


def read_records(source: str | Path, encoding: str = "utf-8") -> Iterator[tuple[str, Record]]:
    """Yield the place in the file (for error messages) and the fields of every record."""
    _check_encoding(encoding)
    path = _existing(source)
    return _record_reader(path)(path, encoding)


def _existing(source: str | Path) -> Path:
    path = Path(source)
    if not path.exists():
        raise MissingFileError(f"{path} does not exist", hint="Check the path; - reads JSON Lines from standard input.")
    return path


def _documents(records: Iterable[tuple[str, Record]], fields: Fields) -> Iterator[Document]:
    for position, (where, record) in enumerate(records):
        yield fields.document(record, position, where)


def _record_reader(path: Path) -> Callable[[Path, str], Iterator[tuple[str, Record]]]:
    kinds = {
        ".jsonl": _json_file,
        ".ndjson": _json_file,
        ".csv": _csv_file,
        ".tsv": _tsv_file,
        ".parquet": _parquet_file,
    }
    suffix = (Path(path.stem).suffix if path.suffix == ".gz" else path.suffix).lower()
    if suffix not in kinds:
        raise ParameterError(
            f"{path} has an unknown extension",
            allowed=", ".join(kinds) + ", all but the last also with .gz, or a folder",
            got=path.suffix or "none",
            hint="Rename the file to match its format.",
        )
    return kinds[suffix]


def _json_file(path: Path, encoding: str) -> Iterator[tuple[str, Record]]:
    with _open(path) as stream:
        yield from _json_records(stream, str(path), encoding)


def _json_records(stream: BinaryIO, name: str, encoding: str) -> Iterator[tuple[str, Record]]:
    for number, line in enumerate(_lines(stream, name, encoding), 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            hint = f"Every line is one JSON object; see the line with: sed -n {number}p {name}"
            raise DataError(f"{where} is not JSON", got=f"{error.msg} at column {error.colno}", hint=hint) from error
        except RecursionError:
            raise DataError(f"{where} is nested too deeply") from None
        if not isinstance(record, dict):
            raise DataError(f"{where} is not a record", allowed="a JSON object", got=type(record).__name__)
        yield where, record


def _csv_file(path: Path, encoding: str, delimiter: str = ",") -> Iterator[tuple[str, Record]]:
    csv.field_size_limit(2**31 - 1)  # a document is often longer than the module's default of 128 KiB
    with _open(path) as stream:
        reader = csv.DictReader(_lines(stream, str(path), encoding), delimiter=delimiter, strict=True)
        try:
            names = list(reader.fieldnames or ())
            if len(set(names)) != len(names):
                raise DataError(f"{path}, line 1 has duplicate field names", got=", ".join(names))
            for record in reader:
                where = f"{path}, line {reader.line_num}"
                if None in record or None in record.values():
                    raise DataError(f"{where} differs from the header in the number of fields", allowed=len(names))
                yield where, record
        except csv.Error as error:
            where = f"{path}, line {reader.line_num}"
            raise DataError(f"{where} is not valid CSV", got=error, hint="Check its quotes.") from error


def _tsv_file(path: Path, encoding: str) -> Iterator[tuple[str, Record]]:
    return _csv_file(path, encoding, delimiter="\t")


def _parquet_file(path: Path, encoding: str) -> Iterator[tuple[str, Record]]:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtraError("reading Parquet", extra="parquet") from error
    try:
        with parquet.ParquetFile(path) as file:
            position = 0
            for batch in file.iter_batches(batch_size=1024):
                for record in batch.to_pylist():
                    yield f"{path}, row {position}", record
                    position += 1
    except arrow.ArrowInvalid as error:
        raise DataError(f"{path} is not a Parquet file", got=error) from error


def _folder(folder: Path, encoding: str) -> Iterator[Document]:
    paths = sorted(path for path in folder.rglob("*.txt") if path.is_file())
    if not paths:
        raise DataError(f"{folder} contains no documents", allowed=".txt files, also in subfolders")
    for path in paths:
        name = path.relative_to(folder)
        yield _text_file(path, name.as_posix(), name.parts[-2:-1], encoding)


def _text_file(path: Path, id: str, labels: tuple[str, ...], encoding: str) -> Document:
    with path.open("rb") as stream:
        return Document(id, "".join(_lines(stream, str(path), encoding)), labels)


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _lines(stream: BinaryIO, name: str, encoding: str) -> Iterator[str]:
    """Decode line by line, so that an error message has the line number."""
    number = 0
    if "a".encode(encoding) != b"a":  # such as UTF-16, where a line does not end with one byte
        stream, encoding = cast(BinaryIO, codecs.EncodedFile(stream, "utf-8", encoding)), "utf-8"
    try:
        for number, line in enumerate(stream, 1):
            text = line.decode(encoding)
            yield text.removeprefix("\ufeff") if number == 1 else text
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}, line {number} is not {encoding}",
            got=f"byte 0x{error.object[error.start]:02x} at column {error.start + 1}",
            hint="Specify its encoding (encoding='latin-1' or 'cp1252' are common), or convert the file with iconv.",
        ) from error
    except (EOFError, gzip.BadGzipFile) as error:
        raise DataError(f"{name} is not a complete gzip file", got=error, hint="Download it again.") from error


def _check_encoding(encoding: str) -> None:
    try:
        codecs.lookup(encoding)
    except LookupError as error:
        raise ParameterError("encoding is unknown", allowed="utf-8, latin-1, cp1252, …", got=repr(encoding)) from error


def write_documents(path: Path, documents: Iterable[Document]) -> int:
    """Write documents as JSON Lines, atomically, and return their number.

    The fields are id, text, labels and those of the metadata.
    """
    count = 0
    with atomic_write(Path(path)) as stream:
        for document in documents:
            stream.write((json.dumps(_as_record(document), ensure_ascii=False) + "\n").encode())
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

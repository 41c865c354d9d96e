"""The user's own files, read as a stream of documents: JSON Lines, CSV, TSV, Parquet, a folder of texts."""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from fewbits.data.document import Document, DocumentId
from fewbits.errors import DataError, MissingExtraError, MissingFileError, ParameterError
from fewbits.storage import atomic_write

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fields:
    """Which fields of a record hold a document's text, id, labels and metadata."""

    text: tuple[str, ...] = ("text",)
    id: str | None = None
    label: str | None = None
    label_separator: str | None = None
    metadata: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse what can name nothing."""
        if not self.text:
            raise ParameterError("no field is named for the text", allowed="one or more")
        if self.label_separator == "":
            raise ParameterError("label_separator is empty", allowed="one character or more", hint="Leave it out.")

    def document(self, record: Record, position: int, where: str) -> Document:
        """Pick a document from a record; ``position`` is its id where no field is named."""
        text = "\n".join(_as_text(_pick(record, name, where), name, where) for name in self.text)
        document_id = position if self.id is None else _as_id(_pick(record, self.id, where), self.id, where)
        labels = () if self.label is None else self._labels(_pick(record, self.label, where), where)
        return Document(document_id, text, labels, {name: _pick(record, name, where) for name in self.metadata})

    def _labels(self, value: Any, where: str) -> tuple[str, ...]:
        if value is None or value == "":
            return ()
        if isinstance(value, str) and self.label_separator is not None:
            # str.split() without an argument takes any run of white space
            parts = value.split(None if self.label_separator.isspace() else self.label_separator)
            return tuple(part.strip() for part in parts if part.strip())
        if isinstance(value, (list, tuple)):
            return tuple(str(label) for label in value)
        if isinstance(value, (str, int, float)):
            return (str(value),)
        raise DataError(f"{where}: field {self.label!r} is no label", allowed="text, a number, a list", got=repr(value))


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
        ``.jsonl``/``.ndjson``, ``.csv``, ``.tsv`` (each also with ``.gz``), ``.parquet``, or a folder whose
        ``.txt`` files are one document each, labelled by the folder they lie in; a ``.txt`` file is one document.
        ``-`` is JSON Lines from standard input.
    text : str or sequence of str
        The field or fields that hold the text; several are joined by a newline.
    id, label : str, optional
        The fields of the id (else the position, from 0) and of the label or labels.
    label_separator : str, optional
        What separates several labels inside one text field, as a space or a comma.
    metadata : sequence of str
        Fields that are kept beside the text, to filter by.
    """
    fields = Fields((text,) if isinstance(text, str) else tuple(text), id, label, label_separator, tuple(metadata))
    fields.check()
    _check_encoding(encoding)
    if str(source) == "-":
        return _documents(_json_records(sys.stdin.buffer, "standard input", encoding), fields)
    path = _existing(source)
    if path.is_dir() or path.suffix.lower() == ".txt":
        if id is not None or label is not None or metadata:
            named = f"id={id!r}, label={label!r}, metadata={list(metadata)!r}"
            kind = "a folder: its documents have" if path.is_dir() else "one text: it has"
            raise ParameterError(f"{path} is {kind} no fields", got=named)
        return _folder(path, encoding) if path.is_dir() else iter([_text_file(path, path.name, (), encoding)])
    return _documents(_record_reader(path)(path, encoding), fields)


def read_records(source: str | Path, encoding: str = "utf-8") -> Iterator[tuple[str, Record]]:
    """Read the records of a file, each with where it stands, for whoever needs other fields than a document's."""
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
            f"{path} has an unknown ending",
            allowed=", ".join(kinds) + ", each but the last also with .gz, or a folder",
            got=path.suffix or "none",
            hint="Rename the file by what it holds.",
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
            raise DataError(f"{where} is no record", allowed="a JSON object", got=type(record).__name__)
        yield where, record


def _csv_file(path: Path, encoding: str, delimiter: str = ",") -> Iterator[tuple[str, Record]]:
    csv.field_size_limit(2**31 - 1)  # a document is often longer than the module's default of 128 KiB
    with _open(path) as stream:
        reader = csv.DictReader(_lines(stream, str(path), encoding), delimiter=delimiter, strict=True)
        try:
            names = list(reader.fieldnames or ())
            if len(set(names)) != len(names):
                raise DataError(f"{path}, line 1 names a field twice", got=", ".join(names))
            for record in reader:
                where = f"{path}, line {reader.line_num}"
                if None in record or None in record.values():
                    raise DataError(f"{where} has another number of fields than the first line", allowed=len(names))
                yield where, record
        except csv.Error as error:
            raise DataError(
                f"{path}, line {reader.line_num} is not CSV", got=error, hint="Check its quotes."
            ) from error


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
        raise DataError(f"{path} is not Parquet", got=error) from error


def _folder(folder: Path, encoding: str) -> Iterator[Document]:
    paths = sorted(path for path in folder.rglob("*.txt") if path.is_file())
    if not paths:
        raise DataError(f"{folder} holds no document", allowed="files that end in .txt, in folders or not")
    for path in paths:
        name = path.relative_to(folder)
        yield _text_file(path, name.as_posix(), name.parts[-2:-1], encoding)


def _text_file(path: Path, id: str, labels: tuple[str, ...], encoding: str) -> Document:
    with path.open("rb") as stream:
        return Document(id, "".join(_lines(stream, str(path), encoding)), labels)


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _lines(stream: BinaryIO, name: str, encoding: str) -> Iterator[str]:
    """Decode line by line, so that an error can say where it is."""
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
            hint="Give its encoding (encoding='latin-1' or 'cp1252' are common), or convert the file with iconv.",
        ) from error
    except (EOFError, gzip.BadGzipFile) as error:
        raise DataError(f"{name} is no whole gzip file", got=error, hint="Fetch it again.") from error


def _check_encoding(encoding: str) -> None:
    try:
        codecs.lookup(encoding)
    except LookupError as error:
        raise ParameterError("encoding is unknown", allowed="utf-8, latin-1, cp1252, …", got=repr(encoding)) from error


def _pick(record: Record, name: str, where: str) -> Any:
    if name not in record:
        raise DataError(
            f"{where} has no field {name!r}",
            allowed=", ".join(map(repr, record)) or "no field at all",
            hint="Choose the fields by name: --text, --id, --label (in Python text=, id=, label=).",
        )
    return record[name]


def _as_text(value: Any, name: str, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{where}: field {name!r} is no text", allowed="a string", got=repr(value)[:60])
    # JSON can spell half of a character (a lone surrogate), which no file can hold: it is marked as broken.
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _as_id(value: Any, name: str, where: str) -> DocumentId:
    if isinstance(value, bool) or not isinstance(value, (int, str)) or value == "" or not str(value).isprintable():
        raise DataError(f"{where}: field {name!r} is no id", allowed="text or a whole number", got=repr(value)[:60])
    return value


def write_documents(path: Path, documents: Iterable[Document]) -> int:
    """Write a JSON object a line, the whole file or nothing, and return how many.

    The fields are id, text, labels and those of the metadata.
    """
    count = 0
    with atomic_write(Path(path)) as stream:
        for document in documents:
            stream.write((json.dumps(_as_record(document), ensure_ascii=False) + "\n").encode())
            count += 1
    return count


def _as_record(document: Document) -> dict[str, Any]:
    own = {"id": document.id, "text": document.text, "labels": list(document.labels)}
    return {**document.metadata, **own}


PAIR_FIELDS = ("left", "right", "same")
SAID = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


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
            raise DataError(f"{where} has no {missing[0]!r}", allowed=", ".join(PAIR_FIELDS), got=", ".join(record))
        yield Pair(_pair_id(record["left"], where), _pair_id(record["right"], where), _answer(record["same"], where))


def _pair_id(value: Any, where: str) -> DocumentId:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise DataError(f"{where} names no document", allowed="a text or a whole number", got=repr(value))
    return value


def _answer(value: Any, where: str) -> bool:
    said = SAID.get(str(value).strip().lower())
    if said is None:
        raise DataError(f"{where}: same is no answer", allowed=", ".join(SAID), got=repr(value))
    return said

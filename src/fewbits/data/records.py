"""Read records from files as a stream: JSON Lines, JSON arrays, CSV, TSV, Parquet.

A reader yields the place of each record, for error messages, and its fields. Where one record is damaged and the others
can still be read, it yields the error in the place of the fields, and the caller decides whether to stop.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from fewbits.data.document import Record
from fewbits.errors import DataError, MissingExtraError, MissingFileError, ParameterError

Records = Iterator[tuple[str, Record | DataError]]

CHUNK = 1 << 16  # characters of a JSON array that are decoded at a time
DELIMITED = (".csv", ".tsv")
_SPACE = re.compile(r"[ \t\r\n]*")
_OBJECT = "a JSON object"


def open_records(source: str | Path, encoding: str = "utf-8", delimiter: str | None = None) -> Records:
    """Open a file, or standard input for ``-``, and yield the place of each record and its fields or its error."""
    check_encoding(encoding)
    if str(source) == "-":
        if delimiter is not None:
            raise _no_delimiter("standard input")
        return _json_records(sys.stdin.buffer, "standard input", encoding)
    path = existing(source)
    suffix = (Path(path.stem).suffix if path.suffix == ".gz" else path.suffix).lower()
    if delimiter is not None and suffix not in DELIMITED:
        raise _no_delimiter(str(path))
    if suffix in DELIMITED:
        return _csv_file(path, encoding, _one_character(delimiter or ("\t" if suffix == ".tsv" else ",")))
    if suffix not in READERS:
        raise ParameterError(
            f"{path} has an unknown extension",
            allowed=".jsonl, .ndjson, .json, .csv, .tsv, .parquet, all but the last also with .gz, or a folder",
            got=path.suffix or "none",
            hint="Rename the file to match its format.",
        )
    return READERS[suffix](path, encoding)


def existing(source: str | Path) -> Path:
    """Return a path that exists."""
    path = Path(source)
    if not path.exists():
        raise MissingFileError(f"{path} does not exist", hint="Check the path; - reads JSON Lines from standard input.")
    return path


def check_encoding(encoding: str) -> None:
    """Check that an encoding is known."""
    try:
        "a".encode(encoding)  # also tells codecs that are no encodings of text, such as zip
    except (LookupError, UnicodeError) as error:
        raise ParameterError("encoding is unknown", allowed="utf-8, latin-1, cp1252, …", got=repr(encoding)) from error


def _one_character(delimiter: str) -> str:
    character = "\t" if delimiter == "\\t" else delimiter  # as typed in a shell
    if len(character) != 1 or character in '\r\n"\0':
        allowed = "one character, such as ; or \\t"
        raise ParameterError("the delimiter is not valid", allowed=allowed, got=repr(delimiter))
    return character


def _no_delimiter(name: str) -> ParameterError:
    hint = "Omit the delimiter, or rename the file to .csv."
    return ParameterError(f"{name} has no delimiter", allowed="a delimiter for .csv and .tsv files", hint=hint)


def _json_file(path: Path, encoding: str) -> Records:
    with _open(path) as stream:
        yield from _json_records(stream, str(path), encoding)


def _json_records(stream: BinaryIO, name: str, encoding: str) -> Records:
    """Read JSON Lines, or an array of objects, recognized by its first character."""
    lines = Lines(stream, name, encoding)
    is_first = True
    for line in lines:
        if isinstance(line, str) and not line.strip():
            continue
        if is_first and isinstance(line, str) and line.lstrip().startswith("["):
            yield from _json_array(line, lines, name)
            return
        is_first = False
        where = f"{name}, line {lines.number}"
        yield where, line if isinstance(line, DataError) else _json_line(line, where, f"{lines.number}p {name}")


def _json_line(line: str, where: str, shown_by: str) -> Record | DataError:
    try:
        return _as_record(json.loads(line), where)
    except json.JSONDecodeError as error:
        hint = f"Every line is one JSON object; see the line with: sed -n {shown_by}"
        return DataError(f"{where} is not JSON", got=f"{error.msg} at column {error.colno}", hint=hint)
    except RecursionError:
        return DataError(f"{where} is nested too deeply")
    except ValueError as error:
        return _long_number(where, error)


def _long_number(where: str, error: ValueError) -> DataError:
    return DataError(f"{where} has a number that is too long", got=str(error).partition(";")[0])


def _json_array(first: str, lines: Lines, name: str) -> Records:
    """Decode the elements of an array one by one, reading on where an element is not complete.

    After a damaged element the boundaries are unknown, so the array ends with an error.
    """
    decode = json.JSONDecoder().raw_decode
    buffer, position, line = first, first.index("[") + 1, lines.number
    expected, wanted, counted = "element or ]", CHUNK, 0
    while True:
        position = _SPACE.match(buffer, position).end()  # type: ignore[union-attr]
        line, counted = line + buffer.count("\n", counted, position), position
        where = f"{name}, line {line}"
        problem = "the array does not end"
        sign = buffer[position : position + 1]
        if sign == "]" and expected != "element":
            return
        if sign and expected == ", or ]":
            if sign != ",":
                got = repr(buffer[position : position + 20])
                raise DataError(f"{where} is not JSON", allowed="a comma or ] after an element", got=got)
            position, expected = position + 1, "element"
            continue
        if sign:
            try:
                value, end = decode(buffer, position)
            except json.JSONDecodeError as error:
                problem = error.msg
            except RecursionError:
                raise DataError(f"{where} is nested too deeply") from None
            except ValueError as error:
                raise _long_number(where, error) from error
            else:
                if end < len(buffer) or isinstance(value, (dict, list)):  # a number at the end may be incomplete
                    yield where, _as_record(value, where)
                    position, expected, wanted = end, ", or ]", CHUNK
                    continue
        more = lines.read(wanted)
        wanted = min(2 * wanted, 1 << 26)  # so that a large element is not decoded again for every line
        if not more:
            raise DataError(f"{where} is not JSON", allowed="an array of objects, [{…}, {…}]", got=problem)
        buffer, position, counted = buffer[position:] + more, 0, 0


def _as_record(value: Any, where: str) -> Record | DataError:
    if isinstance(value, dict):
        return value
    return DataError(f"{where} is not a record", allowed=_OBJECT, got=type(value).__name__)


def _csv_file(path: Path, encoding: str, delimiter: str) -> Records:
    csv.field_size_limit(2**31 - 1)  # a document is often longer than the module's default of 128 KiB
    with _open(path) as stream:
        lines = Lines(stream, str(path), encoding)
        rows = csv.reader(_Raising(lines), delimiter=delimiter, strict=True)
        names: list[str] | None = None
        while True:
            first = lines.number + 1
            try:
                row = next(rows)
            except StopIteration:
                return
            except (csv.Error, DataError) as error:
                # A quote that is not closed takes all lines up to the next one.
                where = f"{path}, line {first}" if lines.number <= first else f"{path}, lines {first} to {lines.number}"
                damage = error if isinstance(error, DataError) else _csv_error(where, error)
                if names is None:
                    raise damage from error
                yield where, damage
                continue
            where = f"{path}, line {first}"
            if not row:
                continue
            if names is None:
                names = row
                if len(set(names)) != len(names):
                    raise DataError(f"{path}, line 1 has duplicate field names", got=", ".join(names))
            elif len(row) != len(names):
                problem = f"{where} differs from the header in the number of fields"
                yield where, DataError(problem, allowed=len(names), got=len(row))
            else:
                yield where, dict(zip(names, row, strict=True))


def _csv_error(where: str, error: csv.Error) -> DataError:
    verb = "are" if ", lines" in where else "is"
    return DataError(f"{where} {verb} not valid CSV", got=error, hint="Check the quotes.")


def _parquet_file(path: Path, encoding: str) -> Records:
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
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} is not a Parquet file", got=error) from error


READERS: dict[str, Callable[[Path, str], Records]] = {
    ".jsonl": _json_file,
    ".ndjson": _json_file,
    ".json": _json_file,
    ".parquet": _parquet_file,
}


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


class Lines:
    """The lines of a stream, decoded one by one, so that an error has the line number and the next line can be read."""

    def __init__(self, stream: BinaryIO, name: str, encoding: str) -> None:
        self.number = 0  # of the latest line
        self._name = name
        self._encoding = encoding
        self._stream: Iterator[bytes | str] = iter(stream)
        if "a".encode(encoding) != b"a":  # such as UTF-16, where a line does not end with one byte
            self._stream = iter(io.TextIOWrapper(stream, encoding, newline="\n"))

    def __iter__(self) -> Iterator[str | DataError]:
        return self

    def __next__(self) -> str | DataError:
        try:
            line = next(self._stream)
        except UnicodeError as error:  # of an encoding whose lines cannot be told apart: the end
            raise self._not_decoded(self.number + 1, error) from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            problem = f"{self._name} is not a complete gzip file"
            raise DataError(problem, got=error, hint="Download it again.") from error
        self.number += 1
        try:
            text = line if isinstance(line, str) else line.decode(self._encoding)
        except UnicodeError as error:
            return self._not_decoded(self.number, error)
        return text.removeprefix("\ufeff") if self.number == 1 else text

    def _not_decoded(self, number: int, error: UnicodeError) -> DataError:
        got = str(error)
        if isinstance(error, UnicodeDecodeError):
            got = f"byte 0x{error.object[error.start]:02x} at column {error.start + 1}"
        return DataError(
            f"{self._name}, line {number} is not {self._encoding}",
            got=got,
            hint="Specify its encoding (encoding='latin-1' or 'cp1252' are common), or convert the file with iconv.",
        )

    def read(self, size: int) -> str:
        """Return whole lines of at least ``size`` characters together, fewer at the end."""
        parts: list[str] = []
        length = 0
        for line in self:
            if isinstance(line, DataError):
                raise line
            parts.append(line)
            length += len(line)
            if length >= size:
                break
        return "".join(parts)


class _Raising:
    """Raise the error of a line when that line is requested; reading may then continue."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        if isinstance(line, DataError):
            raise line
        return line


def whole_text(stream: BinaryIO, name: str, encoding: str) -> str:
    """Return all text of a stream."""
    return "".join(_Raising(Lines(stream, name, encoding)))

"""Documents, and how the fields of a record become one."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fewbits.errors import DataError, ParameterError

DocumentId = int | str
Record = dict[str, Any]
LARGEST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Document:
    """A text with an id, any number of labels, and metadata (JSON values by name)."""

    id: DocumentId
    text: str
    labels: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if type(self.id) is not str:
            object.__setattr__(self, "id", _whole_number(self.id))
        if self.metadata:
            _check_metadata(self.id, self.metadata)


def _whole_number(id: Any) -> int:
    """Convert an id that is not a text, such as a NumPy integer, to an int; it must fit into 64 bits."""
    try:
        number = operator.index(id)
    except TypeError:
        number = None
    if number is None or isinstance(id, bool) or not -LARGEST_ID - 1 <= number <= LARGEST_ID:
        raise DataError("the id is not valid", allowed="a string or a 64-bit integer", got=repr(id)[:60])
    return number


def _check_metadata(id: DocumentId, metadata: Any) -> None:
    try:
        json.dumps(metadata, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"the metadata of {id!r} cannot be stored", allowed="JSON values", got=error) from error
    if not isinstance(metadata, Mapping) or not all(isinstance(name, str) for name in metadata):
        raise DataError(
            f"the metadata of {id!r} is not a mapping", allowed="JSON values by name", got=repr(metadata)[:60]
        )


@dataclass(frozen=True, slots=True)
class Fields:
    """Which fields of a record hold a document's text, id, labels and metadata."""

    text: tuple[str, ...] = ("text",)
    id: str | None = None
    label: str | None = None
    label_separator: str | None = None
    metadata: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise an error if the text has no field, or the separator is empty."""
        if not self.text:
            raise ParameterError("no text field is given", allowed="one or more")
        if self.label_separator == "":
            raise ParameterError("label_separator is empty", allowed="one character or more", hint="Omit it.")

    def document(self, record: Record, position: int, where: str) -> Document:
        """Return the document in a record; without an id field, ``position`` is its id."""
        text = "\n".join(_as_text(_pick(record, name, where), name, where) for name in self.text)
        document_id = position if self.id is None else as_id(_pick(record, self.id, where), self.id, where)
        labels = () if self.label is None else self._labels(_pick(record, self.label, where), where)
        return Document(document_id, text, labels, {name: _pick(record, name, where) for name in self.metadata})

    def _labels(self, value: Any, where: str) -> tuple[str, ...]:
        if value is None or value == "":
            return ()
        if isinstance(value, str) and self.label_separator is not None:
            # str.split() without an argument splits at any run of white space
            parts = value.split(None if self.label_separator.isspace() else self.label_separator)
            return tuple(part.strip() for part in parts if part.strip())
        if isinstance(value, (list, tuple)):
            return tuple(str(label) for label in value)
        if isinstance(value, (str, int, float)):
            return (str(value),)
        raise DataError(
            f"{where}: field {self.label!r} is not a label",
            allowed="a string, a number or a list of them",
            got=repr(value),
        )


def _pick(record: Record, name: str, where: str) -> Any:
    if name not in record:
        raise DataError(
            f"{where} has no field {name!r}",
            allowed=", ".join(map(repr, record)) or "none, the record is empty",
            hint="Name the fields with --text, --id and --label (in Python: text, id and label).",
        )
    return record[name]


def _as_text(value: Any, name: str, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{where}: field {name!r} is not a text", allowed="a string", got=repr(value)[:60])
    # JSON can contain a lone surrogate, which UTF-8 cannot encode.
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def as_id(value: Any, name: str, where: str) -> DocumentId:
    """Check that the value of a field can be an id, and return it."""
    if isinstance(value, bool) or not isinstance(value, (int, str)) or value == "" or not str(value).isprintable():
        raise DataError(f"{where}: field {name!r} is not an id", allowed="a string or an integer", got=repr(value)[:60])
    return value

"""Documents, and how the fields of a record become one."""

from __future__ import annotations

import html
import json
import operator
import re
from collections.abc import Mapping, Sequence
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
        if not isinstance(self.text, str):
            hint = "Leave the document out, or give an empty text."
            got = "None" if self.text is None else repr(self.text)[:60]
            raise DataError(f"the text of {self.id!r} is not a text", allowed="a string", got=got, hint=hint)
        if isinstance(self.labels, str):
            raise DataError(f"the labels of {self.id!r} are one string", allowed="a tuple of strings", got=self.labels)
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
    strip_html: bool = False

    def check(self) -> None:
        """Raise an error if the text has no field, or the separator is empty."""
        if not self.text:
            raise ParameterError("no text field is given", allowed="one or more")
        if self.label_separator == "":
            raise ParameterError("label_separator is empty", allowed="one character or more", hint="Omit it.")

    def check_exist(self, records: Sequence[tuple[str, Record]]) -> None:
        """Raise an error for a field that none of some records has: its name is probably misspelt."""
        for name in (*self.text, self.id, self.label, *self.metadata):
            if name is not None and records and not any(name in record for _, record in records):
                where, record = records[0]
                raise DataError(
                    f"{where} has no field {name!r}" + (", nor has any record after it" if len(records) > 1 else ""),
                    allowed=", ".join(map(repr, record)) or "none, the record is empty",
                    hint="Name the fields with --text, --id and --label (in Python: text, id and label).",
                )

    def document(self, record: Record, position: int, where: str, empty: list[str]) -> Document:
        """Return the document in a record; without an id field, ``position`` is its id.

        The names of fields without a value are appended to ``empty``: text that is missing, null or NaN, and a label or
        metadata that is missing. Null is a value there: a document without a label.
        """
        text = "\n".join(self._text(record.get(name), name, where, empty) for name in self.text)
        empty += [name for name in (self.label, *self.metadata) if name is not None and name not in record]
        document_id: DocumentId = position
        if self.id is not None:
            if self.id not in record:
                raise DataError(f"{where} has no field {self.id!r}, the id", allowed=", ".join(map(repr, record)))
            document_id = as_id(record[self.id], self.id, where)
        labels = () if self.label is None else self._labels(record.get(self.label), where)
        metadata = {name: record[name] for name in self.metadata if name in record}
        return Document(document_id, text, labels, metadata)

    def clean(self, text: str) -> str:
        """Return a text as it is stored."""
        return strip_html(text) if self.strip_html else text

    def _text(self, value: Any, name: str, where: str, empty: list[str]) -> str:
        if is_missing(value):
            empty.append(name)
            return ""
        if not isinstance(value, str):
            raise DataError(f"{where}: field {name!r} is not a text", allowed="a string", got=repr(value)[:60])
        # JSON can contain a lone surrogate, which UTF-8 cannot encode.
        return self.clean(value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8"))

    def _labels(self, value: Any, where: str) -> tuple[str, ...]:
        if is_missing(value) or value == "":
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


def is_missing(value: Any) -> bool:
    """Return whether a value stands for a missing one: None or NaN."""
    return value is None or (isinstance(value, float) and value != value)


def as_id(value: Any, name: str, where: str) -> DocumentId:
    """Check that the value of a field can be an id, and return it."""
    if isinstance(value, bool) or not isinstance(value, (int, str)) or value == "" or not str(value).isprintable():
        raise DataError(f"{where}: field {name!r} is not an id", allowed="a string or an integer", got=repr(value)[:60])
    return value


HIDDEN = frozenset({"script", "style", "template", "head"})  # elements whose content is not shown
INLINE = frozenset(
    [
        "a",
        "abbr",
        "b",
        "bdi",
        "bdo",
        "cite",
        "code",
        "dfn",
        "em",
        "i",
        "kbd",
        "mark",
        "q",
        "s",
        "samp",
        "small",
        "span",
        "strong",
        "sub",
        "sup",
        "u",
        "var",
        "wbr",
    ]
)
_TAG = re.compile(r"</?([a-zA-Z][a-zA-Z0-9]*)|<[!?]")
_HIDDEN_END = {name: re.compile(f"</{name}", re.IGNORECASE) for name in HIDDEN}
_LONG_NUMBER = re.compile(r"&#(?:[0-9]{8,}|[xX][0-9a-fA-F]{8,});?")  # int() refuses thousands of digits


def strip_html(text: str) -> str:
    """Return the visible text of HTML; block elements separate lines.

    Time is linear in the length. A "<" that begins no tag, and a tag or comment that does not end, is text.

    >>> strip_html("<p>Fish &amp; <b>chips</b><script>let x;</script></p><p>1 < 2</p>").splitlines()
    ['Fish & chips', '1 < 2']
    """
    if "<" not in text and "&" not in text:
        return text
    find = _Finder(text)
    parts: list[str] = []
    position = 0
    while (start := text.find("<", position)) >= 0:
        parts.append(text[position:start])
        tag = _TAG.match(text, start)
        end = -1 if tag is None else find.end_of_comment(start) if text.startswith("<!--", start) else find.end(start)
        if tag is None or end < 0:
            parts.append("<")
            position = start + 1
            continue
        name = (tag[1] or "").lower()
        if name not in INLINE:
            parts.append("\n")
        if name in HIDDEN and text[start + 1] != "/":
            end = max(end, find.end_of_hidden(name, end))
        position = end
    parts.append(text[position:])
    shown = html.unescape(_LONG_NUMBER.sub("\ufffd", "".join(parts)))
    lines = (" ".join(line.split()) for line in shown.split("\n"))
    return "\n".join(line for line in lines if line)


class _Finder:
    """Finds the ends of tags; remembers what was not found, so that time stays linear."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._absent: set[str] = set()

    def end(self, start: int) -> int:
        """Return the end of a tag, -1 without one; a > in quotes does not end it."""
        end, quoted_up_to = self._find(">", start), start
        while end >= 0:
            quotes = self._text.count('"', quoted_up_to, end)
            closing = self._find('"', end) if quotes % 2 else -1
            if closing < 0:
                return end + 1
            quoted_up_to = closing + 1
            end = self._find(">", quoted_up_to)
        return -1

    def end_of_comment(self, start: int) -> int:
        """Return the end of a comment, -1 without one."""
        end = self._find("-->", start + 2)
        return end + 3 if end >= 0 else -1

    def end_of_hidden(self, name: str, start: int) -> int:
        """Return where the closing tag of an element begins, -1 without one."""
        if name in self._absent:
            return -1
        found = _HIDDEN_END[name].search(self._text, start)
        if found is None:
            self._absent.add(name)
            return -1
        return found.start()

    def _find(self, what: str, start: int) -> int:
        found = -1 if what in self._absent else self._text.find(what, start)
        if found < 0:
            self._absent.add(what)
        return found

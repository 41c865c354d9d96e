"""What a document is."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from fewbits.errors import DataError

DocumentId = int | str
LARGEST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Document:
    """A text with an id of its owner's choice and any number of labels."""

    id: DocumentId
    text: str
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if type(self.id) is not str:
            object.__setattr__(self, "id", _whole_number(self.id))


def _whole_number(id: Any) -> int:
    """Read an id that is no text: a whole number, NumPy's too, that fits into 64 bits."""
    try:
        number = operator.index(id)
    except TypeError:
        number = None
    if number is None or isinstance(id, bool) or not -LARGEST_ID - 1 <= number <= LARGEST_ID:
        raise DataError("this is no id", allowed="a text, or a whole number of 64 bits", got=repr(id)[:60])
    return number

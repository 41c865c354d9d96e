"""Documents: a text with an id, labels and metadata."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fewbits.errors import DataError

DocumentId = int | str
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
        raise DataError("this is not an id", allowed="a text, or a whole number of 64 bits", got=repr(id)[:60])
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

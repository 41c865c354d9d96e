"""What a document is."""

from __future__ import annotations

from dataclasses import dataclass

DocumentId = int | str


@dataclass(frozen=True, slots=True)
class Document:
    """A text with an id of its owner's choice and any number of labels."""

    id: DocumentId
    text: str
    labels: tuple[str, ...] = ()

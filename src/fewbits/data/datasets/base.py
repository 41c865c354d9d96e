"""Which part of a data set a document belongs to: decided by its id alone, so everyone gets the same split."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = ("train", "validation", "test")


def assign_split(dataset: str, document_id: object, cuts: tuple[float, float]) -> Part:
    """Place a document by a hash of its id: train below the first cut, validation below the second, else test.

    >>> assign_split("ng20", "sci.space/60940", (0.6, 0.8))
    'test'
    """
    digest = hashlib.sha256(f"{dataset}:{document_id}".encode()).hexdigest()
    place = int(digest[:8], 16) / 2**32
    return "train" if place < cuts[0] else "validation" if place < cuts[1] else "test"


@dataclass(frozen=True, eq=False)
class TermTable:
    """Documents as rows of words: counts, or weights where the publisher has weighted them already."""

    ids: Sequence[str]
    label_sets: Sequence[tuple[str, ...]]
    terms: Any  # CSR, documents x words
    vocabulary: Sequence[str]
    weighted: bool = False
    parts: Sequence[Part] | None = None  # where the publisher has split it already

    def __len__(self) -> int:
        return len(self.ids)

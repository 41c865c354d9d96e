"""Which part of a data set a document belongs to: decided by its id alone, so everyone gets the same split."""

from __future__ import annotations

import hashlib
from typing import Literal

Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = ("train", "validation", "test")


def part_of(dataset: str, document_id: object, cuts: tuple[float, float]) -> Part:
    """Place a document by a hash of its id: train below the first cut, validation below the second, else test.

    >>> part_of("ng20", "sci.space/60940", (0.6, 0.8))
    'test'
    """
    digest = hashlib.sha256(f"{dataset}:{document_id}".encode()).hexdigest()
    place = int(digest[:8], 16) / 2**32
    return "train" if place < cuts[0] else "validation" if place < cuts[1] else "test"

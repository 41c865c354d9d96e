"""A collection that is published as a table of words instead of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fewbits.corpus.splits import Part


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

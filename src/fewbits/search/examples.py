"""Documents that show what a bit is about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fewbits.codes import unpack
from fewbits.corpus.document import Document
from fewbits.index import FlatIndex
from fewbits.search.documents import Reader
from fewbits.search.explanation import BitMeaning, stored_rows
from fewbits.search.model import Model

SAMPLE = 2_000  # documents among which the surest are looked for


@dataclass(frozen=True)
class BitExamples:
    """A bit, how many documents have it as 1 and as 0, and those of a sample that are surest of each."""

    meaning: BitMeaning
    ones: int
    zeros: int
    examples_of_one: tuple[Document, ...]
    examples_of_zero: tuple[Document, ...]


def examples(model: Model, meaning: BitMeaning, index: FlatIndex, reader: Reader, k: int) -> BitExamples:
    """Find documents on both sides of a bit, the surest first."""
    positions = np.asarray(index.ids(), dtype=np.int64)
    if not len(positions):
        return BitExamples(meaning, 0, 0, (), ())
    byte, place = divmod(meaning.bit, 8)
    is_one = unpack(index.codes(positions)[:, [byte]], 8)[:, place] == 1
    chosen = positions[np.linspace(0, len(positions) - 1, min(SAMPLE, len(positions))).astype(np.int64)]
    margins = model.hasher.margins(stored_rows(model, reader, chosen))[:, meaning.bit]
    order = np.argsort(-margins, kind="stable")

    def documents(places: np.ndarray) -> tuple[Document, ...]:
        return tuple(reader.get(chosen[places[:k]].tolist()))

    return BitExamples(
        meaning,
        int(is_one.sum()),
        int((~is_one).sum()),
        documents(order[margins[order] > 0]),
        documents(order[::-1][margins[order[::-1]] < 0]),
    )

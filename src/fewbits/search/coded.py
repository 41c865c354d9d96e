"""All codes of an engine at one moment, with what is known about their documents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fewbits.codes import Packed
from fewbits.corpus.document import DocumentId
from fewbits.search.documents import Reader
from fewbits.search.model import Model


@dataclass(frozen=True)
class CodedDocuments:
    """Documents that have a code, in order of insertion."""

    n_bits: int
    ids: list[DocumentId]
    labels: list[tuple[str, ...]]
    codes: Packed
    is_unseen: NDArray[np.bool_]  # whether it was added after the codes were learnt


def read_coded(reader: Reader, model: Model) -> CodedDocuments:
    """Read the codes of one state."""
    positions, codes = reader.codes(model.hasher.n_bits)
    rows = {position: (id, labels, is_new) for position, id, labels, is_new in reader.listed()}
    found = [rows[position] for position in positions.tolist()]
    old = [position for position, (_, _, is_new) in rows.items() if not is_new]
    # An updated document keeps its place, and something like it was learnt from: what was added stands behind.
    last = max(model.documents_when_learnt, max(old, default=0))
    return CodedDocuments(
        n_bits=model.hasher.n_bits,
        ids=[id for id, _, _ in found],
        labels=[labels for _, labels, _ in found],
        codes=codes,
        is_unseen=positions > last,
    )

"""Rows on three topics, quick parameters and a precision, for tests of the neural hashers."""

from __future__ import annotations

from typing import Any

from fewbits import precision_at_k
from helpers.corpora import topic_rows

QUICK: dict[str, Any] = {"n_bits": 16, "epochs": 12, "random_state": 0}
ROWS, CLASSES = topic_rows()
NEW_ROWS, NEW_CLASSES = topic_rows(seed=1)


def precision(hasher: Any) -> float:
    """Return the precision at 50 of new documents among the training documents."""
    return precision_at_k(hasher.transform(NEW_ROWS), NEW_CLASSES, hasher.transform(ROWS), CLASSES, k=50)

"""What a data set is made of."""

from __future__ import annotations

from typing import Any

from fewbits.data.datasets import PARTS, Dataset
from fewbits.metrics import random_floor


def describe(dataset: Dataset) -> dict[str, Any]:
    """Sizes of a data set and the precision of a random ranking on it."""
    return {
        "name": dataset.name,
        **{part: len(dataset.part(part)) for part in PARTS},
        "vocabulary": len(dataset.vocabulary),
        "labels": len(dataset.label_names),
        "random_floor": round(random_floor(dataset.test.labels, dataset.train.labels), 4),
        "fingerprint": dataset.fingerprint[:12],
    }

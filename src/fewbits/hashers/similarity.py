"""Who belongs with whom among a sample of labelled documents, for the methods that compare all its pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewbits.checks import check_whole_number
from fewbits.corpus.labels import as_label_table
from fewbits.errors import DataError


def known_labels(y: Any, rows: int) -> Any:
    """Labels as a table of documents x labels; at least two classes, where there are two documents."""
    if y is None:
        raise DataError("requires y to be passed, but the target y is None: this method learns from labels")
    labels = as_label_table(y, rows)
    check_classes(labels)
    return labels


def check_classes(labels: Any) -> None:
    """Refuse labels that tell no documents apart; a single document is taken as it is."""
    if not labels.nnz:
        raise DataError("no document has a label", allowed="two classes or more")
    if (labels.sum(axis=0) > 0).sum() < 2 and labels.shape[0] > 1:
        raise DataError("all labelled documents have one class", allowed="two classes or more")


def labelled_sample(y: Any, rows: int, most: int, generator: np.random.RandomState) -> tuple[NDArray[np.int64], Any]:
    """Rows of a random choice of labelled documents, in their order, and their labels."""
    check_whole_number("n_labelled", most, 1)
    labels = known_labels(y, rows)
    labelled = np.flatnonzero(np.diff(labels.indptr))
    chosen = np.sort(generator.permutation(labelled)[:most])
    check_classes(labels[chosen])
    return chosen, labels[chosen]


def similarity_signs(labels: Any) -> NDArray[np.float32]:
    """1 where two documents share a label, -1 where they do not (documents, documents)."""
    shared = (labels.astype(np.int32) @ labels.T.astype(np.int32)).toarray() > 0
    return np.where(shared, 1, -1).astype(np.float32)

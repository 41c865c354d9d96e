"""Labels as a sparse table: documents x label names, 1 where a document has the label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer

from fewbits.errors import DataError


def label_table(label_sets: Iterable[Sequence[str]]) -> tuple[Any, list[str]]:
    """Turn sets of label names into a CSR table and the names of its columns, sorted.

    >>> table, names = label_table([("b", "a"), (), ("b",)])
    >>> names, table.toarray().tolist()
    (['a', 'b'], [[1, 1], [0, 0], [0, 1]])
    """
    binarizer = MultiLabelBinarizer(sparse_output=True)
    table = sparse.csr_array(binarizer.fit_transform(list(label_sets)), dtype=np.uint8)
    return table, [str(name) for name in binarizer.classes_]


def same_columns(left: Any, right: Any) -> tuple[Any, Any]:
    """Turn two sets of labels into CSR tables over the same columns.

    Each may be a table (documents x labels) or one class a document; both must be of the same kind.
    """
    if np.ndim(left) == 1 and np.ndim(right) == 1:
        classes, codes = np.unique(np.concatenate([np.asarray(left), np.asarray(right)]), return_inverse=True)
        rows = np.arange(len(codes))
        table = sparse.csr_array((np.ones(len(codes), np.uint8), (rows, codes)), shape=(len(codes), len(classes)))
        return table[: len(left)], table[len(left) :]
    if np.ndim(left) == 1 or np.ndim(right) == 1:
        raise DataError("one class a document stands beside a table of labels", allowed="two of the same kind")
    tables = [sparse.csr_array(labels).astype(bool) for labels in (left, right)]
    if tables[0].shape[1] != tables[1].shape[1]:
        raise DataError(
            "labels of queries and database have different columns",
            allowed="two tables over the same labels, or two lists of one class a document",
            got=f"{tables[0].shape[1]} and {tables[1].shape[1]}",
        )
    return tables[0], tables[1]

"""Labels as a sparse table: documents x label names, 1 where a document has the label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer

from fewbits.errors import DataError

MISSING = ("None", "nan", "NaN", "<NA>", "NaT")  # as values that stand for no value are written


def label_table(label_sets: Iterable[Sequence[str]]) -> tuple[Any, list[str]]:
    """Turn sets of label names into a CSR table and the names of its columns, sorted.

    >>> table, names = label_table([("b", "a"), (), ("b",)])
    >>> names, table.toarray().tolist()
    (['a', 'b'], [[1, 1], [0, 0], [0, 1]])
    """
    binarizer = MultiLabelBinarizer(sparse_output=True)
    table = sparse.csr_array(binarizer.fit_transform(list(label_sets)), dtype=np.uint8)
    return table, [str(name) for name in binarizer.classes_]


def as_label_table(y: Any, rows: int) -> Any:
    """Turn what a user calls labels into a CSR table of 0/1, a row a document; a row without labels is unlabelled.

    Taken are a table (documents x labels, sparse or not) and one class a document, where -1, None, an empty text and
    what stands for a missing value (NaN, pandas' NA and NaT) are unlabelled.

    >>> as_label_table(["b", float("nan"), "a", ""], rows=4).toarray().tolist()
    [[0, 1], [0, 0], [1, 0], [0, 0]]
    """
    if not sparse.issparse(y):
        array = np.asarray(y)
        # NumPy writes a missing value among texts as the text "nan"
        y = np.asarray(y, dtype=object) if array.ndim == 1 and array.dtype.kind == "U" else array
    if y.ndim == 2:
        table = sparse.csr_array(y)
        if table.nnz and not np.isin(table.data, (0, 1)).all():
            raise DataError("a table of labels holds 0 and 1 only", got=np.unique(table.data)[:5].tolist())
    elif y.ndim == 1:
        table, _ = label_table([() if _is_unlabelled(value) else (str(value),) for value in y])
    else:
        raise DataError("labels are one class a document or a table", got=f"{y.ndim} axes")
    if table.shape[0] != rows:
        raise DataError("labels and documents differ in number", allowed=rows, got=table.shape[0])
    table = sparse.csr_array(table, dtype=np.uint8)
    table.eliminate_zeros()
    return table


def _is_unlabelled(value: Any) -> bool:
    if isinstance(value, str):
        return not value
    return str(value) in MISSING or value == -1


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

"""Labels as a sparse table: documents x label names, 1 where a document has the label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer

from fewbits.errors import DataError
from fewbits.validation import check_whole_number

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


def align_labels(left: Any, right: Any) -> tuple[Any, Any]:
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

"""Labels as a sparse table: documents x label names, 1 where a document has the label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer

from fewbits.errors import DataError
from fewbits.validation import check_whole_number

MISSING = ("None", "nan", "NaN", "<NA>", "NaT")  # missing values of Python, NumPy and pandas, as text


def label_table(label_sets: Iterable[Sequence[str]]) -> tuple[Any, list[str]]:
    """Convert sets of label names to a CSR table and the sorted names of its columns.

    >>> table, names = label_table([("b", "a"), (), ("b",)])
    >>> names, table.toarray().tolist()
    (['a', 'b'], [[1, 1], [0, 0], [0, 1]])
    """
    binarizer = MultiLabelBinarizer(sparse_output=True)
    table = sparse.csr_array(binarizer.fit_transform(list(label_sets)), dtype=np.uint8)
    return table, [str(name) for name in binarizer.classes_]


def as_label_table(y: Any, rows: int) -> Any:
    """Convert labels to a CSR table of 0/1 with one row per document; a document without labels has an empty row.

    ``y`` is a table (documents x labels, sparse or dense) or one class per document. A class of -1, None, an empty
    text or a missing value (NaN, pandas' NA and NaT) marks an unlabelled document.

    >>> as_label_table(["b", float("nan"), "a", ""], rows=4).toarray().tolist()
    [[0, 1], [0, 0], [1, 0], [0, 0]]
    """
    if not sparse.issparse(y):
        array = np.asarray(y)
        # NumPy turns a missing value among texts into the text "nan"
        y = np.asarray(y, dtype=object) if array.ndim == 1 and array.dtype.kind == "U" else array
    if y.ndim == 2:
        table = sparse.csr_array(y)
        if table.nnz and not np.isin(table.data, (0, 1)).all():
            raise DataError("a label table must contain only 0 and 1", got=np.unique(table.data)[:5].tolist())
    elif y.ndim == 1:
        table, _ = label_table([() if _is_missing(value) else (str(value),) for value in y])
    else:
        raise DataError("labels must be one class per document or a table", got=f"{y.ndim} dimensions")
    if table.shape[0] != rows:
        raise DataError("labels and documents differ in number", allowed=rows, got=table.shape[0])
    table = sparse.csr_array(table, dtype=np.uint8)
    table.eliminate_zeros()
    return table


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return not value
    return str(value) in MISSING or value == -1


def align_labels(left: Any, right: Any) -> tuple[Any, Any]:
    """Convert two sets of labels to CSR tables over the same columns.

    Each may be a table (documents x labels) or one class per document; both must be of the same kind.
    """
    if np.ndim(left) == 1 and np.ndim(right) == 1:
        classes, codes = np.unique(np.concatenate([np.asarray(left), np.asarray(right)]), return_inverse=True)
        rows = np.arange(len(codes))
        table = sparse.csr_array((np.ones(len(codes), np.uint8), (rows, codes)), shape=(len(codes), len(classes)))
        return table[: len(left)], table[len(left) :]
    if np.ndim(left) == 1 or np.ndim(right) == 1:
        raise DataError("labels of queries and database differ in kind", allowed="two tables, or two lists of classes")
    tables = [sparse.csr_array(labels).astype(bool) for labels in (left, right)]
    if tables[0].shape[1] != tables[1].shape[1]:
        raise DataError(
            "labels of queries and database have different columns",
            allowed="two tables over the same labels, or two lists of one class per document",
            got=f"{tables[0].shape[1]} and {tables[1].shape[1]}",
        )
    return tables[0], tables[1]


def check_labels(y: Any, rows: int) -> Any:
    """Convert the target ``y`` of a supervised method to a label table with at least two classes."""
    if y is None:
        raise DataError("requires y to be passed, but the target y is None: this method learns from labels")
    labels = as_label_table(y, rows)
    check_classes(labels)
    return labels


def check_classes(labels: Any) -> None:
    """Raise an error unless the labels have two or more classes; a single document may have any labels."""
    if not labels.nnz:
        raise DataError("no document has a label", allowed="two classes or more")
    if (labels.sum(axis=0) > 0).sum() < 2 and labels.shape[0] > 1:
        raise DataError("all labelled documents have the same class", allowed="two classes or more")


def labelled_sample(y: Any, rows: int, size: int, generator: np.random.RandomState) -> tuple[NDArray[np.int64], Any]:
    """Draw at most ``size`` labelled documents at random; return their rows, ascending, and their labels."""
    check_whole_number("n_labelled", size, 1)
    labels = check_labels(y, rows)
    labelled = np.flatnonzero(np.diff(labels.indptr))
    chosen = np.sort(generator.permutation(labelled)[:size])
    check_classes(labels[chosen])
    return chosen, labels[chosen]


def label_patterns(labels: Any) -> tuple[Any, NDArray[np.int64]]:
    """Group documents with equal labels; return the distinct rows of the table (CSR) and the pattern of each document.

    Patterns are in ascending order of their 0/1 rows.

    >>> patterns, pattern_of = label_patterns(sparse.csr_array([[0, 1], [1, 0], [0, 1], [0, 0]]))
    >>> patterns.toarray().tolist(), pattern_of.tolist()
    ([[0, 0], [0, 1], [1, 0]], [1, 2, 1, 0])
    """
    table = sparse.csr_array(labels).sorted_indices()
    bounds = zip(table.indptr[:-1], table.indptr[1:], strict=True)
    # Of two rows in order, the later one has the first label in which they differ.
    keys = [tuple((-table.indices[start:end]).tolist()) for start, end in bounds]
    number_of = {key: number for number, key in enumerate(sorted(set(keys)))}
    pattern_of = np.array([number_of[key] for key in keys], dtype=np.int64)
    _, first = np.unique(pattern_of, return_index=True)
    return table[first], pattern_of


def pair_signs(left: Any, right: Any = None, *, paired: bool = False) -> NDArray[np.int8]:
    """Compare labels: 1 if two documents share a label, -1 if they do not, 0 if one of them is unlabelled.

    Both are label tables (CSR); ``right`` defaults to ``left``. The result has shape (left, right), or (left,) if
    ``paired``, which compares row by row.

    >>> pair_signs(sparse.csr_array([[0, 1], [1, 1], [0, 0]])).tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 0]]
    """
    right = left if right is None else right
    is_labelled = [np.diff(labels.indptr) > 0 for labels in (left, right)]
    if paired:
        share_label = np.asarray(left.multiply(right).sum(axis=1)).ravel() > 0
        both_labelled = is_labelled[0] & is_labelled[1]
    else:
        share_label = (left.astype(np.int32) @ right.T.astype(np.int32)).toarray() > 0
        both_labelled = np.outer(*is_labelled)
    return np.where(both_labelled, np.where(share_label, 1, -1), 0).astype(np.int8)


def checked_pairs(pairs: ArrayLike, same: ArrayLike, n_rows: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Validate pairs (m, 2) of row numbers and whether each belongs together (m,)."""
    pair_rows, is_similar = np.asarray(pairs), np.asarray(same)
    is_integer = pair_rows.dtype.kind in "iu"
    if pair_rows.ndim != 2 or pair_rows.shape[1] != 2 or not is_integer or is_similar.shape != pair_rows.shape[:1]:
        shapes = f"{pair_rows.shape} of {pair_rows.dtype}, {is_similar.shape}"
        raise DataError(
            "pairs or same has the wrong shape or type", allowed="integers of shape (m, 2), and shape (m,)", got=shapes
        )
    if not len(pair_rows) or pair_rows.min() < 0 or pair_rows.max() >= n_rows:
        raise DataError("pairs must contain row numbers of X", allowed=f"0 to {n_rows - 1}, one pair or more")
    if not np.isin(is_similar, (0, 1)).all():
        wrong = is_similar[~np.isin(is_similar, (0, 1))][0]
        raise DataError("same must say whether each pair is similar", allowed="True or False, 1 or 0", got=wrong)
    return pair_rows.astype(np.int64), is_similar.astype(bool)

"""The ``.mat`` files of the VDSH authors: tf-idf tables that are split already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import io, sparse
from scipy.io.matlab import MatReadError

from fewbits.corpus.splits import Part
from fewbits.corpus.terms import TermTable
from fewbits.errors import DataError, MissingFileError

PART_NAMES: dict[Part, str] = {"train": "train", "validation": "cv", "test": "test"}


def read_matlab(path: Path) -> TermTable:
    """Read ``train``, ``cv`` and ``test`` with their ``gnd_`` label tables (or one class a document)."""
    if not Path(path).is_file():
        raise MissingFileError(f"{path} is not there")
    try:
        content = io.loadmat(path)
    except (MatReadError, ValueError, TypeError, NotImplementedError, OSError) as error:
        raise DataError(f"{path} is no .mat file that can be read", got=error) from error
    needed = [*PART_NAMES.values(), *(f"gnd_{name}" for name in PART_NAMES.values())]
    missing = [name for name in needed if name not in content]
    if missing:
        found = ", ".join(name for name in content if not name.startswith("__"))
        raise DataError(f"{path} lacks {', '.join(missing)}", allowed=", ".join(needed), got=found)
    terms = [sparse.csr_array(content[name]) for name in PART_NAMES.values()]
    label_sets = [labels for name in PART_NAMES.values() for labels in _label_sets(content[f"gnd_{name}"])]
    parts: list[Part] = [part for part, table in zip(PART_NAMES, terms, strict=True) for _ in range(table.shape[0])]
    table = sparse.csr_array(sparse.vstack(terms))
    if len(label_sets) != table.shape[0]:
        raise DataError(f"{path} has another number of labels than documents", got=(len(label_sets), table.shape[0]))
    return TermTable(
        ids=[str(number) for number in range(table.shape[0])],
        label_sets=label_sets,
        terms=table,
        vocabulary=[f"word-{number}" for number in range(table.shape[1])],  # the files carry no words
        weighted=True,
        parts=parts,
    )


def _label_sets(ground: Any) -> list[tuple[str, ...]]:
    table = ground.toarray() if sparse.issparse(ground) else np.asarray(ground)
    if 1 in table.shape:  # one class a document
        return [(str(int(value)),) for value in table.ravel()]
    return [tuple(str(column) for column in np.flatnonzero(row)) for row in table]

"""Data sets published as term vectors: TMC (SIAM 2007, air traffic reports, 22 labels), RCV1, and ``.mat`` files."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.io import loadmat
from scipy.io.matlab import MatReadError
from sklearn.datasets import fetch_rcv1

from fewbits.data.datasets.base import Part, TermTable
from fewbits.errors import DataError, MissingFileError

TMC_FILES = ("tmc2007-500-train.arff", "tmc2007-500-test.arff", "tmc2007-500.xml")
ATTRIBUTE = re.compile(r"@attribute\s+(\S+)", re.IGNORECASE)


def read_tmc(archive: Path) -> TermTable:
    """Read the training file, then the test file; ids ``train-0``, ``train-1``, …, ``test-0``, …"""
    with zipfile.ZipFile(archive) as files:
        names = {Path(name).name: name for name in files.namelist()}
        if missing := [name for name in TMC_FILES if name not in names]:
            raise DataError(f"{archive} lacks {', '.join(missing)}", allowed=", ".join(TMC_FILES))
        label_names = _label_names(files.read(names["tmc2007-500.xml"]))
        ids: list[str] = []
        rows: list[list[int]] = []
        for part in ("train", "test"):
            content = files.read(names[f"tmc2007-500-{part}.arff"]).decode("utf-8")
            attributes, part_rows = _sparse_arff(content)
            ids += [f"{part}-{number}" for number in range(len(part_rows))]
            rows += part_rows
    return _term_table(ids, rows, attributes, label_names)


def _label_names(xml: bytes) -> set[str]:
    return {element.attrib["name"] for element in ElementTree.fromstring(xml) if "name" in element.attrib}


def _sparse_arff(content: str) -> tuple[list[str], list[list[int]]]:
    """Return attribute names and, per row, the attributes that are 1."""
    # Not the liac-arff package: it has had no release since 2020, and this subset of ARFF takes ten lines.
    attributes: list[str] = []
    rows: list[list[int]] = []
    for line in content.splitlines():
        if match := ATTRIBUTE.match(line):
            attributes.append(match[1])
        elif line.startswith("{"):
            rows.append(list(_ones(line)))
    return attributes, rows


def _ones(line: str) -> Iterator[int]:
    for entry in line.strip(" \t\r\n{}").split(","):
        if entry:
            position, value = entry.split()
            if value != "1":
                raise DataError("terms of this release must be binary", allowed="1", got=value)
            yield int(position)


def _term_table(ids: list[str], rows: list[list[int]], attributes: list[str], label_names: set[str]) -> TermTable:
    lengths = [len(row) for row in rows]
    indices = np.fromiter((position for row in rows for position in row), dtype=np.int32, count=sum(lengths))
    table = sparse.csr_array(
        (np.ones(len(indices), np.int32), indices, np.cumsum([0, *lengths])),
        shape=(len(rows), len(attributes)),
    )
    words = [position for position, name in enumerate(attributes) if name not in label_names]
    label_sets = [tuple(attributes[p] for p in row if attributes[p] in label_names) for row in rows]
    return TermTable(ids, label_sets, table[:, words], [attributes[position] for position in words])


def read_rcv1(folder: Path) -> TermTable:
    """Read RCV1 with scikit-learn, which downloads it into the folder if necessary."""
    try:
        bunch = fetch_rcv1(data_home=folder)
    except OSError as error:
        raise MissingFileError(
            f"RCV1 is not in {folder} and cannot be downloaded",
            got=error,
            hint="Load it once on a machine with a network, and copy its folder RCV1.",
        ) from error
    names = [str(name) for name in bunch.target_names]
    target = bunch.target.tocsr()
    bounds = zip(target.indptr[:-1], target.indptr[1:], strict=True)
    return TermTable(
        ids=[str(number) for number in np.asarray(bunch.sample_id)],
        label_sets=[tuple(names[column] for column in sorted(target.indices[low:high])) for low, high in bounds],
        terms=bunch.data,
        vocabulary=[f"word-{number}" for number in range(bunch.data.shape[1])],  # published without the words
        weighted=True,
    )


PART_NAMES: dict[Part, str] = {"train": "train", "validation": "cv", "test": "test"}


def read_matlab(path: Path) -> TermTable:
    """Read ``train``, ``cv`` and ``test`` with their ``gnd_`` label tables (or one class per document)."""
    if not Path(path).is_file():
        raise MissingFileError(f"{path} does not exist")
    try:
        content = loadmat(path)
    except (MatReadError, ValueError, TypeError, NotImplementedError, OSError) as error:
        raise DataError(f"{path} is not a readable .mat file", got=error) from error
    needed = [*PART_NAMES.values(), *(f"gnd_{name}" for name in PART_NAMES.values())]
    if missing := [name for name in needed if name not in content]:
        variables = ", ".join(name for name in content if not name.startswith("__"))
        raise DataError(f"{path} lacks {', '.join(missing)}", allowed=", ".join(needed), got=variables)
    terms = [sparse.csr_array(content[name]) for name in PART_NAMES.values()]
    label_sets = [labels for name in PART_NAMES.values() for labels in _matlab_label_sets(content[f"gnd_{name}"])]
    parts: list[Part] = [part for part, table in zip(PART_NAMES, terms, strict=True) for _ in range(table.shape[0])]
    table = sparse.csr_array(sparse.vstack(terms))
    if len(label_sets) != table.shape[0]:
        raise DataError(f"labels and documents of {path} differ in number", got=(len(label_sets), table.shape[0]))
    return TermTable(
        ids=[str(number) for number in range(table.shape[0])],
        label_sets=label_sets,
        terms=table,
        vocabulary=[f"word-{number}" for number in range(table.shape[1])],  # the files do not contain the words
        weighted=True,
        parts=parts,
    )


def _matlab_label_sets(ground: Any) -> list[tuple[str, ...]]:
    table = ground.toarray() if sparse.issparse(ground) else np.asarray(ground)
    if 1 in table.shape:  # one class per document
        return [(str(int(value)),) for value in table.ravel()]
    return [tuple(str(column) for column in np.flatnonzero(row)) for row in table]

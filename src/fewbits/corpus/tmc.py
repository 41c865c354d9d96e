"""SIAM 2007 text mining competition, the 500-word release in sparse ARFF: air traffic reports, 22 labels."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import sparse

from fewbits.corpus.terms import TermTable
from fewbits.errors import DataError

FILES = ("tmc2007-500-train.arff", "tmc2007-500-test.arff", "tmc2007-500.xml")
ATTRIBUTE = re.compile(r"@attribute\s+(\S+)", re.IGNORECASE)


def read_tmc(archive: Path) -> TermTable:
    """Read the training file, then the test file; ids ``train-0``, ``train-1``, …, ``test-0``, …"""
    with zipfile.ZipFile(archive) as files:
        names = {Path(name).name: name for name in files.namelist()}
        if missing := [name for name in FILES if name not in names]:
            raise DataError(f"{archive} lacks {', '.join(missing)}", allowed=", ".join(FILES))
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
    """Read attribute names and, for each row, the attributes that are 1."""
    attributes: list[str] = []
    rows: list[list[int]] = []
    for line in io.StringIO(content):
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
                raise DataError("words of this release are there or not", allowed="1", got=value)
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

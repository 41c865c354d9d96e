"""Pairs of documents that are known to belong together, or not: clicks, marked duplicates, judgements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewbits.corpus.document import DocumentId
from fewbits.corpus.readers import read_records
from fewbits.errors import DataError

FIELDS = ("left", "right", "same")
SAID = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class Pair:
    """Ids of two documents, and whether they belong together."""

    left: DocumentId
    right: DocumentId
    same: bool


def read_pairs(source: str | Path, encoding: str = "utf-8") -> Iterator[Pair]:
    """Read pairs from JSON Lines, CSV, TSV or Parquet: fields ``left`` and ``right`` are ids, ``same`` is yes or no."""
    for where, record in read_records(source, encoding):
        missing = [name for name in FIELDS if record.get(name) in (None, "")]
        if missing:
            raise DataError(f"{where} has no {missing[0]!r}", allowed=", ".join(FIELDS), got=", ".join(record))
        yield Pair(_id(record["left"], where), _id(record["right"], where), _answer(record["same"], where))


def _id(value: Any, where: str) -> DocumentId:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise DataError(f"{where} names no document", allowed="a text or a whole number", got=repr(value))
    return value


def _answer(value: Any, where: str) -> bool:
    said = SAID.get(str(value).strip().lower())
    if said is None:
        raise DataError(f"{where}: same is no answer", allowed=", ".join(SAID), got=repr(value))
    return said

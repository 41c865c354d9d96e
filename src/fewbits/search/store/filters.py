"""Conditions on what documents carry beside their text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fewbits.errors import ParameterError

OPERATORS = (">=", "<=", "!=", "=", ">", "<")
_WRITTEN = re.compile(r"\s*(?P<field>.+?)\s*(?P<operator>>=|<=|!=|=|>|<)\s*(?P<value>.*?)\s*")
# A text that is written as a number, as all of a CSV file's are, counts as the number.
_NUMBER = "(typeof(value) != 'text' OR (value GLOB '*[0-9]*' AND NOT value GLOB '*[^0-9.eE+-]*'))"


@dataclass(frozen=True)
class Condition:
    """A field of the metadata compared with a value; of a field with a list, one item must pass.

    >>> Condition.parse("year>=2020")
    Condition(field='year', operator='>=', value=2020)
    >>> Condition.parse("source = wire")
    Condition(field='source', operator='=', value='wire')
    """

    field: str
    operator: str
    value: str | float

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise ParameterError("this is no comparison", allowed=" ".join(OPERATORS), got=repr(self.operator))
        if not isinstance(self.value, (str, int, float)):
            raise ParameterError("a field is compared with a text or a number", got=repr(self.value)[:60])

    @classmethod
    def parse(cls, written: str) -> Condition:
        """Read a condition as it is typed."""
        found = _WRITTEN.fullmatch(written)
        if not found:
            allowed = f"FIELD, one of {' '.join(OPERATORS)}, and a value, such as 'year>=2020'"
            raise ParameterError("this is no condition", allowed=allowed, got=repr(written))
        return cls(found["field"], found["operator"], _typed(found["value"]))

    def as_sql(self) -> tuple[str, tuple[Any, ...]]:
        """A query for the positions of documents that pass."""
        if self.operator in ("=", "!="):
            number = _typed(str(self.value))
            query = "SELECT position FROM facets WHERE field = ? AND value IN (?, ?)"
            if self.operator == "!=":
                query = f"SELECT position FROM documents WHERE position NOT IN ({query})"
            return query, (self.field, number, str(self.value))
        if isinstance(self.value, str):
            compared = f"typeof(value) = 'text' AND value {self.operator} ?"
        else:
            compared = f"{_NUMBER} AND CAST(value AS REAL) {self.operator} ?"
        return f"SELECT position FROM facets WHERE field = ? AND {compared}", (self.field, self.value)


def filter_sql(labels: Sequence[str], conditions: Sequence[Condition]) -> tuple[str, tuple[Any, ...]]:
    """A query for the positions of documents with one of the labels (if there are any) that pass all conditions."""
    parts = [condition.as_sql() for condition in conditions]
    if labels:
        parts.append(("SELECT position FROM labels WHERE label IN (SELECT value FROM json_each(?))", (_json(labels),)))
    query = " INTERSECT ".join(query for query, _ in parts)
    return query, tuple(value for _, values in parts for value in values)


def facet_values(value: Any) -> list[Any]:
    """What of a field's value can be compared: texts and numbers, by themselves or in a list."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return [item for item in items if isinstance(item, (str, int, float))]


def _typed(written: str) -> str | float:
    try:
        value = json.loads(written)
    except (ValueError, RecursionError):
        return written
    fits = isinstance(value, (int, float)) and (isinstance(value, float) or abs(value) < 2**63)
    return value if fits else written


def _json(labels: Sequence[str]) -> str:
    return json.dumps([str(label) for label in labels])

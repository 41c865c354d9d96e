"""Filters: conditions on the labels and the metadata of documents."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fewbits.errors import ParameterError

Positions = NDArray[np.int64]

CACHED_FILTERS = 16  # per version; one takes a byte per document
SHOWN_NAMES = 8  # existing names that an explanation lists
OPERATORS = (">=", "<=", "!=", "=", ">", "<")
MAX_CONDITIONS = 400  # SQLite takes 500 parts of a query
MAX_CONDITION = 1_000  # characters of a written condition
_OPERATOR = re.compile(r">=|<=|!=|[=<>]")
EQUAL = "SELECT position FROM facets WHERE field = ? AND value IN (?, ?)"
# A string that reads as a number counts as the number: in a CSV file all values are strings.
_NUMBER = "(typeof(value) != 'text' OR (value GLOB '*[0-9]*' AND NOT value GLOB '*[^0-9.eE+-]*'))"


@dataclass(frozen=True)
class Condition:
    """A comparison of a metadata field with a value; if the field is a list, one item must pass.

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
            raise ParameterError("the operator is unknown", allowed=" ".join(OPERATORS), got=repr(self.operator))
        if not isinstance(self.value, (str, int, float)):
            raise ParameterError("the value of a condition must be a string or a number", got=repr(self.value)[:60])

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Parse a condition such as ``year>=2020``."""
        if len(text) > MAX_CONDITION:
            allowed = f"{MAX_CONDITION} characters"
            raise ParameterError("a condition is too long", allowed=allowed, got=f"{len(text)} characters")
        # A search for the operator takes linear time; one expression for all parts would try every division of a run
        # of spaces among them.
        stripped = text.strip()
        match = _OPERATOR.search(stripped, 1)
        if not match:
            allowed = f"FIELD, one of {' '.join(OPERATORS)}, and a value, such as 'year>=2020'"
            raise ParameterError("the condition cannot be parsed", allowed=allowed, got=repr(text))
        field, value = stripped[: match.start()].rstrip(), stripped[match.end() :].lstrip()
        if _OPERATOR.match(value):
            raise ParameterError(
                f"the condition has two operators, {match[0]} and {_OPERATOR.findall(value)[0]}",
                allowed=f"one of {' '.join(OPERATORS)}",
                got=repr(text),
                hint=f"In Python, Condition({field!r}, {match[0]!r}, {value!r}) compares with such a value.",
            )
        return cls(field, match[0], typed(value))

    def as_sql(self) -> tuple[str, tuple[Any, ...]]:
        """Return a query for the positions of documents that pass."""
        if self.operator in ("=", "!="):
            number = typed(str(self.value))
            query = "SELECT position FROM facets WHERE field = ? AND value IN (?, ?)"
            if self.operator == "!=":
                query = f"SELECT position FROM documents WHERE position NOT IN ({query})"
            return query, (self.field, number, str(self.value))
        if isinstance(self.value, str):
            compared = f"typeof(value) = 'text' AND value {self.operator} ?"
        else:
            compared = f"{_NUMBER} AND CAST(value AS REAL) {self.operator} ?"
        return f"SELECT position FROM facets WHERE field = ? AND {compared}", (self.field, self.value)


def parse_conditions(where: Sequence[str | Condition]) -> list[Condition]:
    """Parse the conditions that are strings."""
    if isinstance(where, str):
        raise ParameterError("conditions must be a list", got=repr(where), hint="Pass [condition].")
    if len(where) > MAX_CONDITIONS:
        raise ParameterError("too many conditions", allowed=f"at most {MAX_CONDITIONS}", got=len(where))
    return [one if isinstance(one, Condition) else Condition.parse(one) for one in where]


def check_comparable(conditions: Sequence[Condition], texts_of: Callable[[str], tuple[bool, Iterable[str]]]) -> None:
    """Raise an error where a text is compared in size with a field that has only numbers.

    ``texts_of`` returns whether documents have a field, and its values that are texts; some read as numbers.
    """
    of_texts = [one for one in conditions if isinstance(one.value, str) and one.operator not in ("=", "!=")]
    for condition in {one.field: one for one in of_texts}.values():
        exists, texts = texts_of(condition.field)
        if exists and all(not isinstance(typed(text), str) for text in texts):
            raise ParameterError(
                f"the field {condition.field!r} has only numbers, which are not compared with a text",
                allowed=f"a number, such as '{condition.field}{condition.operator}2020'",
                got=repr(condition.value),
            )


def strictest(conditions: Sequence[Condition]) -> list[Condition]:
    """Leave out the conditions that others imply, so that each field is read at most once per direction.

    A value above the larger of two bounds is above both, and so is an item of a list.
    """
    kept: dict[tuple[Any, ...], Condition] = {}
    for condition in conditions:
        operator, value = condition.operator, condition.value
        if operator in ("=", "!="):
            kept[condition.field, operator, repr(value)] = condition
            continue
        key = (condition.field, operator[0], isinstance(value, str))
        other = kept.get(key)
        if other is None or _is_stricter(operator, value, other):
            kept[key] = condition
    return list(kept.values())


def _is_stricter(operator: str, value: Any, other: Condition) -> bool:
    if value == other.value:
        return len(operator) < len(other.operator)  # > than >=
    return (value > other.value) == (operator[0] == ">")


def filter_sql(labels: Sequence[str], conditions: Sequence[Condition]) -> tuple[str, tuple[Any, ...]]:
    """Return a query for the positions of documents with one of the labels, if any, that pass all conditions."""
    if isinstance(labels, str):
        raise ParameterError("labels must be a list", got=repr(labels), hint="Pass [label].")
    needed = strictest(conditions)
    parts = [condition.as_sql() for condition in needed if condition.operator != "!="]
    unequal = [values for condition in needed if condition.operator == "!=" for values in [condition.as_sql()[1]]]
    if unequal:  # together, because each alone lists almost all documents
        excluded = " UNION ALL ".join([EQUAL] * len(unequal))
        query = f"SELECT position FROM documents WHERE position NOT IN ({excluded})"
        parts.append((query, tuple(value for values in unequal for value in values)))
    if labels:
        parts.append(("SELECT position FROM labels WHERE label IN (SELECT value FROM json_each(?))", (_json(labels),)))
    query = " INTERSECT ".join(query for query, _ in parts)
    return query, tuple(value for _, values in parts for value in values)


@dataclass(frozen=True, eq=False)
class Allowed:
    """The documents that pass all filters of a search."""

    is_allowed: NDArray[np.bool_]  # by position, up to the last one that is allowed

    @classmethod
    def of(cls, positions: Sequence[int] | Positions) -> Allowed:
        """Allow the documents at some positions."""
        chosen = np.asarray(positions, dtype=np.int64)
        is_allowed = np.zeros(chosen.max(initial=-1) + 1, dtype=np.bool_)
        is_allowed[chosen] = True
        return cls(is_allowed)

    def __len__(self) -> int:
        return self.count

    @cached_property
    def count(self) -> int:
        """Count the documents."""
        return int(np.count_nonzero(self.is_allowed))

    @cached_property
    def positions(self) -> Positions:
        """Return the positions in ascending order."""
        return np.flatnonzero(self.is_allowed)

    def contains(self, positions: Positions) -> NDArray[np.bool_]:
        """Return which of some positions are allowed."""
        last = len(self.is_allowed) - 1
        if last < 0:
            return np.zeros(len(positions), dtype=np.bool_)
        return self.is_allowed[np.minimum(positions, last)] & (positions <= last)


def intersection(first: Allowed | None, second: Allowed | None) -> Allowed | None:
    """Return the documents that both allow; None allows all."""
    if first is None or second is None:
        return second if first is None else first
    shared = min(len(first.is_allowed), len(second.is_allowed))
    return Allowed(first.is_allowed[:shared] & second.is_allowed[:shared])


class Matching(Protocol):
    """What finds the documents that pass a filter."""

    def matching(self, labels: Sequence[str], conditions: Sequence[Condition]) -> Positions:
        """Return their positions."""
        ...


class FilterCache:
    """The documents of one version that pass the filters used last."""

    def __init__(self) -> None:
        self._cached: dict[tuple[Any, ...], Allowed] = {}

    def passing(self, reader: Matching, labels: Sequence[str], conditions: Sequence[Condition]) -> Allowed:
        """Return the documents with one of the labels, if any are given, that pass all conditions."""
        key = (isinstance(labels, str), tuple(sorted(map(str, labels))), tuple(sorted(map(repr, conditions))))
        allowed = self._cached.get(key)
        if allowed is None:
            allowed = Allowed.of(reader.matching(labels, conditions))
            while len(self._cached) >= CACHED_FILTERS:
                self._cached.pop(next(iter(self._cached)), None)
            self._cached[key] = allowed
        return allowed


def facet_values(value: Any) -> list[Any]:
    """Return the values of a field that can be compared: strings and numbers, by themselves or in a list."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return [item for item in items if isinstance(item, (str, int, float))]


class Sort(NamedTuple):
    """An order by a metadata field, and the number of documents to return."""

    field: str
    descending: bool
    k: int

    @classmethod
    def parse(cls, sort: str, k: int) -> Sort:
        """Parse a field such as ``year``, or ``-year`` for the largest value first."""
        field = sort.removeprefix("-") if isinstance(sort, str) else ""
        if not field:
            allowed = "a metadata field, with - before it for the largest value first"
            raise ParameterError("sort is not a field", allowed=allowed, got=repr(sort))
        return cls(field, sort.startswith("-"), k)

    def order(self, metadata: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the places of the first k: numbers, then other values, then documents without the field.

        Equal values keep their order. Of a list the first item counts; a text that reads as a number is a number.

        >>> Sort("year", True, 3).order([{}, {"year": 1999}, {"year": "n.d."}, {"year": "2020"}])
        [3, 1, 2]
        """
        values = [_first(one.get(self.field)) for one in metadata]
        numbers = [place for place, value in enumerate(values) if isinstance(value, (int, float))]
        texts = [place for place, value in enumerate(values) if isinstance(value, str)]
        numbers.sort(key=lambda place: values[place], reverse=self.descending)
        texts.sort(key=lambda place: str(values[place]).casefold(), reverse=self.descending)
        missing = [place for place, value in enumerate(values) if value is None]
        return [*numbers, *texts, *missing][: self.k]


def _first(value: Any) -> Any:
    first = next(iter(facet_values(value)), None)
    return typed(first) if isinstance(first, str) else first


def typed(text: str) -> str | float:
    """Return the number that a text stands for, else the text: also of numbers that SQLite cannot store or compare."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    is_number = isinstance(value, (int, float)) and (
        math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63
    )
    return value if is_number else text


def _json(labels: Sequence[str]) -> str:
    return json.dumps([str(label) for label in labels])


def unknown_in_filters(
    labels: Sequence[str],
    conditions: Sequence[Condition],
    existing_labels: Collection[str],
    existing_fields: Collection[str],
) -> list[str]:
    """Return a sentence for each label and metadata field that no document has; it may be misspelt."""
    unknown = [("label", str(label), existing_labels) for label in labels if str(label) not in existing_labels]
    unknown += [
        ("metadata", condition.field, existing_fields)
        for condition in conditions
        if condition.field not in existing_fields
    ]
    return [f"No document has the {kind} {name!r} ({_existing_names(names)})." for kind, name, names in unknown]


def _existing_names(names: Collection[str]) -> str:
    if not names:
        return "none has any"
    more = f" and {len(names) - SHOWN_NAMES:,} more" if len(names) > SHOWN_NAMES else ""
    return f"existing: {', '.join(list(names)[:SHOWN_NAMES])}{more}"

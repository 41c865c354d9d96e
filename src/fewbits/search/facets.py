"""Facets: how many documents that match a query have each label and each value of a metadata field."""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewbits.search.rerank import coded
from fewbits.search.snapshot import Snapshot
from fewbits.search.store.filters import OPERATORS, Allowed, Condition, facet_values, parse_conditions, typed
from fewbits.search.store.reader import Reader
from fewbits.search.words import ParsedQuery, parse, possible_fields

Mask = NDArray[np.bool_]  # by position
Row = tuple[Any, int]  # a value and a position

MAX_FIELDS = 12
MAX_VALUES = 1_000  # different texts of a field; one with more is a description, not a category
MIN_REPETITION = 2.0  # documents per different text
LISTED = 10  # values of a facet
MAX_LISTED_NUMBERS = 12  # different numbers that are listed; more are put into ranges
RANGES = 8  # at most
SKEW = 20.0  # of the largest number to the median, from which ranges grow
LONGEST_VALUE = 200  # characters
ALL = 1 << 62  # documents
REREAD_BELOW = 20_000  # documents up to which all fields are read again after a change, which takes milliseconds
MAX_CHANGED = 1_000  # documents up to which columns of larger corpora are changed


@dataclass(frozen=True)
class FacetValue:
    """A value, or a range of numbers, the conditions that select it, and the number of documents that have it."""

    value: str | float
    count: int
    where: tuple[str, ...] = ()  # empty for a label


@dataclass(frozen=True)
class Facet:
    """The most frequent values of a metadata field, or of the labels."""

    field: str | None  # None: labels
    kind: str  # values or ranges
    values: tuple[FacetValue, ...]
    more: int  # values that are not listed


@dataclass(frozen=True)
class FieldColumn:
    """A category of each document: the value of a field, or the range that it is in. Immutable."""

    field: str | None
    kind: str
    choices: tuple[FacetValue, ...]  # all of them, with the number of documents in the corpus
    positions: NDArray[np.int64]
    places: NDArray[np.int32]  # in choices
    limits: tuple[float, ...] = ()  # of ranges

    def changed(self, removed: NDArray[np.int64], rows: Sequence[Row]) -> FieldColumn | None:
        """Return the column after a change: rows of some documents are replaced; None if it must be read again."""
        stays = ~np.isin(self.positions, removed)
        choices = list(self.choices)
        place_of = {one.value: place for place, one in enumerate(choices)}
        places = []
        for value, _ in rows:
            number = typed(value) if isinstance(value, str) else value
            if self.kind == "ranges":
                if not isinstance(number, (int, float)):
                    return None
                places.append(int(np.searchsorted(self.limits, number, side="right")))
                continue
            if value not in place_of:
                place_of[value] = len(choices)
                choices.append(FacetValue(value, 0, () if self.field is None else (f"{self.field}={value}",)))
            places.append(place_of[value])
        added = np.array([position for _, position in rows], dtype=np.int64)
        return replace(
            self,
            choices=tuple(choices),
            positions=np.concatenate([self.positions[stays], added]),
            places=np.concatenate([self.places[stays], np.array(places, dtype=np.int32)]),
        )

    def count(self, is_match: Mask, scale: float = 1.0, chosen: Sequence[str] = ()) -> Facet:
        """Count the values of the documents that match; ``chosen`` values or conditions are always listed."""
        inside = self.positions < len(is_match)
        places = self.places[inside][is_match[self.positions[inside]]]
        counts = np.rint(np.bincount(places, minlength=len(self.choices)) * scale).astype(int).tolist()
        counted = [
            FacetValue(one.value, count, one.where)
            for one, count in zip(self.choices, counts, strict=True)
            if count or self._is_chosen(one, chosen)
        ]
        if self.kind == "values":
            counted.sort(key=lambda one: (not self._is_chosen(one, chosen), -one.count, str(one.value)))
        listed = counted[:LISTED]
        return Facet(self.field, self.kind, tuple(listed), len(counted) - len(listed))

    def _is_chosen(self, one: FacetValue, chosen: Sequence[str]) -> bool:
        return one.value in chosen if self.field is None else bool(one.where) and set(one.where) <= set(chosen)

    def by_position(self) -> dict[int, int]:
        """Return the first value of each document, as a place in the choices."""
        return dict(zip(self.positions[::-1].tolist(), self.places[::-1].tolist(), strict=True))


class FacetCache:
    """The columns of the latest requested version.

    Those of a large corpus are updated incrementally, but fields that are new stay unknown until all are read again.
    """

    def __init__(self, reread_below: int = REREAD_BELOW) -> None:
        self._reread_below = reread_below
        self._lock = threading.Lock()
        self._cached: tuple[object, int, list[FieldColumn]] | None = None

    def columns(self, snapshot: Snapshot) -> list[FieldColumn]:
        """Return the labels, if there are any, and the fields that have categories or numbers."""
        state, version = snapshot.state, snapshot.version
        with self._lock:
            cached = self._cached
            if cached is None or cached[0] is not state or cached[1] != version:
                changed = None if cached is None or cached[0] is not state else self._follow(snapshot, *cached[1:])
                self._cached = cached = state, version, read_columns(snapshot.reader) if changed is None else changed
            return cached[2]

    def _follow(self, snapshot: Snapshot, version: int, columns: list[FieldColumn]) -> list[FieldColumn] | None:
        """Return columns of an earlier version with the changes since; None if all must be read again."""
        if snapshot.count() < self._reread_below or version > snapshot.version:
            return None
        removed = snapshot.reader.changed_since(version)
        if removed is None or len(removed) > MAX_CHANGED:
            return None
        rows: dict[str | None, list[Row]] = {column.field: [] for column in columns}
        for position, (labels, metadata) in snapshot.reader.facts(removed).items():
            values = {None: json.loads(labels), **json.loads(metadata)}
            for field in rows.keys() & values.keys():
                rows[field] += [(value, position) for value in dict.fromkeys(facet_values(values[field]))]
        changed = [column.changed(removed, rows[column.field]) for column in columns]
        return [column for column in changed if column is not None] if None not in changed else None


@dataclass(frozen=True)
class Matches:
    """The documents that a query matches, before the filters of the request."""

    is_match: Mask
    count: int
    is_exact: bool = True  # whether all of them are known; otherwise counts are estimated from a part

    @property
    def scale(self) -> float:
        """Return the sampling factor: matching documents per sampled document."""
        return 1.0 if self.is_exact else self.count / max(1, int(self.is_match.sum()))


def read_columns(reader: Reader) -> list[FieldColumn]:
    """Read the labels and the fields of all documents."""
    columns = [_label_column(reader)]
    for field in reader.fields():
        if not any(operator in field for operator in OPERATORS) and len(columns) <= MAX_FIELDS:
            columns.append(_field_column(field, reader.values(field)))
    return [column for column in columns if column is not None]


def parsed_for(snapshot: Snapshot, query: str) -> ParsedQuery:
    """Parse a query as a search by words does."""
    parsed = parse(query, filter(snapshot.reader.has_field, possible_fields(query)))
    return parsed if snapshot.words is None else snapshot.words.with_found_phrases(parsed)


def find_matches(snapshot: Snapshot, query: ParsedQuery | None) -> Matches:
    """Return the documents that have a word of a query; without a query, or if none has one, all with a code."""
    if query is not None and snapshot.words is not None:
        count, positions, is_exact = snapshot.words.matching(query, ALL, _allowed(snapshot, query, (), ()))
        if count:
            return Matches(_mask(positions), count, is_exact=is_exact)
    positions = snapshot.index.arrays()[0]
    return Matches(_mask(positions), len(positions))


def count_matches(
    snapshot: Snapshot, query: ParsedQuery | None, labels: Sequence[str], where: Sequence[str]
) -> tuple[int, bool]:
    """Count the documents that :func:`find_matches` finds and that pass the filters; say whether the count is exact."""
    if query is not None and snapshot.words is not None:
        count, _, is_exact = snapshot.words.matching(query, 1, _allowed(snapshot, query, labels, where))
        if count or snapshot.words.can_answer(query):
            return count, is_exact
    allowed = coded(snapshot.index, snapshot.allowed(labels, where, None))
    return len(snapshot.index) if allowed is None else len(allowed), True


def _allowed(snapshot: Snapshot, query: ParsedQuery, labels: Sequence[str], where: Sequence[str]) -> Allowed | None:
    conditions = [*parse_conditions(where), *(Condition(name, "=", value) for name, value in query.filters)]
    return snapshot.allowed(labels, conditions, None)


def count_facets(
    snapshot: Snapshot, columns: Sequence[FieldColumn], matches: Matches, labels: Sequence[str], where: Sequence[str]
) -> list[Facet]:
    """Count the values of each field among the documents that pass the filters by all other fields.

    So each count is the number of hits there would be with that value instead of those selected in its field.
    """
    parts: dict[str | None, Mask] = {None: _filter_mask(snapshot, labels, ())} if labels else {}
    chosen: dict[str | None, list[str]] = {None: list(labels)}
    for condition, text in zip(parse_conditions(where), where, strict=True):
        chosen.setdefault(condition.field, []).append(text)
    parts.update({field: _filter_mask(snapshot, (), texts) for field, texts in chosen.items() if field is not None})
    facets = []
    for column in columns:
        is_match = matches.is_match
        for field, mask in parts.items():
            if field != column.field:
                is_match = _both(is_match, mask)
        facets.append(column.count(is_match, matches.scale, chosen.get(column.field, ())))
    return facets


def _filter_mask(snapshot: Snapshot, labels: Sequence[str], where: Sequence[str]) -> Mask:
    allowed = snapshot.allowed(labels, where, None)
    assert allowed is not None
    return allowed.is_allowed


def _both(first: Mask, second: Mask) -> Mask:
    shared = min(len(first), len(second))
    return np.asarray(first[:shared] & second[:shared])


def _mask(positions: NDArray[np.int64]) -> Mask:
    mask = np.zeros(int(positions.max(initial=-1)) + 1, dtype=np.bool_)
    mask[positions] = True
    return mask


def _label_column(reader: Reader) -> FieldColumn | None:
    rows = reader.values(None)
    counts = Counter(label for label, _ in rows)
    choices = tuple(FacetValue(label, count) for label, count in counts.most_common())
    return _column(None, "values", choices, rows, {one.value: place for place, one in enumerate(choices)})


def _field_column(field: str, rows: list[Row]) -> FieldColumn | None:
    """Return the categories of a field; None if there are too many of them, or only one."""
    counts = Counter(value for value, _ in rows)
    read = (typed(value) if isinstance(value, str) else value for value, _ in rows)
    numbers = [float(number) for number in read if isinstance(number, (int, float))]
    if len(numbers) == len(rows) and len(set(numbers)) > MAX_LISTED_NUMBERS:
        return _ranges(field, numbers, rows)
    if not 1 < len(counts) <= MAX_VALUES or len(rows) < MIN_REPETITION * len(counts):
        return None
    if any(len(str(value)) > LONGEST_VALUE or str(value) != str(value).strip() for value in counts):
        return None
    choices = tuple(FacetValue(value, count, (f"{field}={value}",)) for value, count in counts.most_common())
    return _column(field, "values", choices, rows, {one.value: place for place, one in enumerate(choices)})


def _ranges(field: str, numbers: list[float], rows: list[Row]) -> FieldColumn | None:
    """Put numbers into ranges with round limits."""
    values = np.array(numbers, dtype=np.float64)
    limits = range_limits(values)
    if not limits:
        return None
    places = np.searchsorted(limits, values, side="right").astype(np.int32)
    counts = np.bincount(places, minlength=len(limits) + 1).tolist()
    choices = []
    for place, count in enumerate(counts):
        low = None if place == 0 else limits[place - 1]
        high = None if place == len(limits) else limits[place]
        ends = ((">=", low), ("<", high))
        where = [f"{field}{operator}{_written(end)}" for operator, end in ends if end is not None]
        choices.append(FacetValue(_range_name(low, high, are_whole=bool((values % 1 == 0).all())), count, tuple(where)))
    positions = np.array([position for _, position in rows], dtype=np.int64)
    return FieldColumn(field, "ranges", tuple(choices), positions, places, tuple(limits))


def range_limits(values: NDArray[np.float64]) -> list[float]:
    """Return round numbers that divide others into at most 8 ranges: 1, 2, 5, 10, ... where a few are much larger.

    >>> range_limits(np.arange(1990.0, 2024.0))
    [1995.0, 2000.0, 2005.0, 2010.0, 2015.0, 2020.0]
    """
    low, middle, high = np.quantile(values, [0.02, 0.5, 0.98]).tolist()
    if values.min() >= 0 and values.max() > SKEW * max(middle, 1e-9):
        smallest = max(low, values.max() * 1e-6, 1e-9)
        exponents = range(math.floor(math.log10(smallest)), math.floor(math.log10(max(high, smallest))) + 1)
        limits = [factor * 10.0**exponent for exponent in exponents for factor in (1, 2, 5)]
    else:
        step = next(
            step
            for exponent in range(-12, 19)
            for step in (1 * 10.0**exponent, 2 * 10.0**exponent, 5 * 10.0**exponent)
            if (high - low) / step <= RANGES - 1
        )
        limits = [step * place for place in range(math.ceil(low / step), math.floor(high / step) + 1)]
    inner = [round(limit, 12) for limit in limits if low < limit <= high]
    return inner[:: math.ceil(len(inner) / (RANGES - 1))] if inner else []


def _range_name(low: float | None, high: float | None, *, are_whole: bool) -> str:
    """Name a range, such as "10 to 19"; of whole numbers both ends are inside."""
    if low is None or high is None:
        return f"below {_written(high or 0.0)}" if low is None else f"{_written(low)} and more"
    last = high - 1 if are_whole else high
    return _written(low) if last == low else f"{_written(low)} to {_written(last)}"


def _written(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else repr(number)


def _column(
    field: str | None,
    kind: str,
    choices: tuple[FacetValue, ...],
    rows: list[Row],
    place_of: dict[Any, int],
) -> FieldColumn | None:
    if not choices:
        return None
    positions = np.array([position for _, position in rows], dtype=np.int64)
    places = np.array([place_of[value] for value, _ in rows], dtype=np.int32)
    return FieldColumn(field, kind, choices, positions, places)

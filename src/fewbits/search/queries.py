"""Queries as people type them: words, phrases in quotes, excluded words, prefixes, and filters."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

LONGEST_QUERY = 2_000  # characters
MAX_WORDS = 12  # outside quotes; a longer query is prose, whose quotes and hyphens are not operators
_PART = re.compile(
    r'(?P<minus>(?<!\S)-)?(?:(?P<field>[^\W\d]\w*):(?=\S))?(?:"(?P<phrase>[^"]*)(?P<end>"|$)|(?P<word>[^\s"]+))'
)
_QUOTED = re.compile(r'"[^"]*"')
_FIELD = re.compile(r"(?<!\S)([^\W\d]\w*):(?=\S)")


@dataclass(frozen=True)
class ParsedQuery:
    """The parts of a query; ``text`` is the query without operators and excluded words, as the codes see it."""

    text: str
    words: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    filters: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def has_conditions(self) -> bool:
        """Return whether a document must contain or must not contain something."""
        return bool(self.phrases or self.excluded)


def parse(query: str, fields: Collection[str] = ()) -> ParsedQuery:
    """Parse a query; ``fields`` are the names that ``field:value`` filters by, any other colon is a character.

    A query of many words is text without operators.

    >>> parse('graph "neural network" -survey transf* year:2020', ["year"])
    ParsedQuery(text='graph neural network transf', words=('graph',), phrases=('neural network',),
                prefixes=('transf',), excluded=('survey',), filters=(('year', '2020'),), notes=())
    """
    if len(query) > LONGEST_QUERY or len(_QUOTED.sub(" ", query).split()) > MAX_WORDS:
        return plain(query)
    parts: dict[str, list[str]] = {"words": [], "phrases": [], "prefixes": [], "excluded": []}
    filters: list[tuple[str, str]] = []
    searched: list[str] = []
    for match in _PART.finditer(query):
        is_phrase, name = match["word"] is None, match["field"]
        value = match["phrase"] if is_phrase else match["word"]
        if name and name in fields and not match["minus"]:
            filters.append((name, value))
            continue
        kind, value = _classify(f"{name}:{value}" if name else value, bool(match["minus"]), is_phrase)
        if value.strip():
            parts[kind].append(value)
            searched.extend([] if kind == "excluded" else [value])
    notes = ("A quote is not closed; the phrase ends with the query.",) if query.count('"') % 2 else ()
    values = {kind: tuple(values) for kind, values in parts.items()}
    return ParsedQuery(" ".join(searched), **values, filters=tuple(filters), notes=notes)


def plain(text: str) -> ParsedQuery:
    """Take a text as words without operators."""
    return ParsedQuery(text, tuple(text.split()))


def possible_fields(query: str) -> list[str]:
    """Return the names in a query that a colon and a value follow.

    >>> possible_fields("cats year:2020 http://example.org")
    ['year', 'http']
    """
    return list(dict.fromkeys(_FIELD.findall(query[:LONGEST_QUERY])))


def _classify(value: str, is_excluded: bool, is_phrase: bool) -> tuple[str, str]:
    """Return the kind of a part and the part without its operator."""
    if is_excluded:
        return "excluded", value
    if is_phrase:
        return "phrases", value
    is_prefix = len(value) > 2 and value.endswith("*")
    return ("prefixes", value.rstrip("*")) if is_prefix else ("words", value)

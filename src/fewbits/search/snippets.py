"""Snippets: the part of a document that shows best why a query found it, with the places of the matching words."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from fewbits.search.words import (
    ParsedQuery,
    code_key,
    is_mixed,
    make_analyzer,
    other_forms,
    part_spans,
    split,
    tokens,
)

if TYPE_CHECKING:
    from fewbits.search.snapshot import Snapshot

SNIPPET_LENGTH = 240  # characters
LEAD = 60  # characters in front of the first match
MAX_TITLE_LENGTH = 200
LONGEST_READ = 100_000  # characters of a document in which matches are looked for
MAX_SPACE = 24  # characters by which a snippet may shrink to end between words

Span = tuple[int, int]
_WORD_START = re.compile(r"(?<![^\W_])[^\W_]")
_FOLD = make_analyzer(None)  # removes accents only


class _Match(NamedTuple):
    """A place in a text and the term that it matches."""

    start: int
    end: int
    term: str


@dataclass(frozen=True)
class Snippet:
    """The title of a document and a part of its text, each with the places of matching words in characters.

    A document whose first line is long, or its only one, has no title.
    """

    title: str
    text: str
    title_marks: tuple[Span, ...] = ()
    marks: tuple[Span, ...] = ()


@dataclass(frozen=True)
class Highlighter:
    """Finds the words of one query in texts: by stem, as the lexical index does."""

    analyzer: Any = field(repr=False)  # from words to terms
    terms: frozenset[str] = frozenset()
    codes: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    _known: dict[str, tuple[_Match, ...]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, query: ParsedQuery, analyzer: Any, query_analyzer: Any) -> Highlighter:
        """Look for the words, phrases and prefixes of a query; for function words only if it has no others."""
        text = " ".join((*query.words, *query.phrases))
        words = split(text).words
        terms = query_analyzer.analyze(words) or analyzer.analyze(words)
        keys = other_forms(text)
        prefixes = (_FOLD.analyze(split(prefix).words)[-1:] for prefix in query.prefixes)
        return cls(analyzer, frozenset(terms), frozenset(keys), tuple(one for [one] in filter(None, prefixes)))

    def spans(self, text: str) -> list[Span]:
        """Return the places of matching words in a text; places that touch or overlap are one."""
        merged: list[Span] = []
        for start, end, _ in self._matches(text):
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        return merged

    def snippet(self, text: str, length: int = SNIPPET_LENGTH) -> Snippet:
        """Return the title and the part of a text with the most different words of the query, else its beginning."""
        title, body = split_title(text)
        flat = " ".join(body[:LONGEST_READ].split())
        start = self._best_start(flat, length) if len(flat) > length else 0
        end = _word_end(flat, start, start + length)
        before, after = "… " if start else "", " …" if end < len(flat) or len(body) > LONGEST_READ else ""
        shown = before + flat[start:end] + after
        offset = len(before)
        marks = ((first + offset, last + offset) for first, last in self.spans(flat[start:end]))
        title = " ".join(title.split())
        return Snippet(title, shown, tuple(self.spans(title)), tuple(marks))

    def _matches(self, text: str) -> Iterator[_Match]:
        if not (self.terms or self.codes or self.prefixes):
            return
        known, initials = self._known, self._initials
        for match in tokens(text):
            token = match[0]
            found = known.get(token)
            if found is None:
                # Stemmers keep the first letter of a word in Latin letters, so most words need not be stemmed.
                is_possible = not token.isascii() or not initials.isdisjoint(_WORD_START.findall(token.lower()))
                found = known[token] = tuple(self._in_token(token)) if is_possible else ()
            if found:
                start = match.start()
                yield from (_Match(start + one.start, start + one.end, one.term) for one in found)

    @cached_property
    def _initials(self) -> frozenset[str]:
        """Return the first characters of all terms and codes searched for."""
        return frozenset(one[0] for one in (*self.terms, *self.codes, *self.prefixes) if one)

    def _in_token(self, token: str) -> Iterator[_Match]:
        """Find the query's words in a word: all of it as a code, or its parts."""
        if token.isascii() and token.isalpha() and not self.prefixes:  # most words
            terms = self.analyzer.analyze(token.lower())
            yield from (_Match(0, len(token), term) for term in terms if term in self.terms)
            return
        _, codes, compounds = split(token)
        code = next((code for code in codes + compounds if code in self.codes), None)
        if code is not None:
            yield _Match(0, len(token), code)
            return
        for start, end in part_spans(token):
            part = split(token[start:end]).words
            terms = self.analyzer.analyze(part)
            term = next((term for term in terms if term in self.terms), None)
            if term is None and is_mixed(token[start:end]) and code_key(token[start:end]) in self.codes:
                term = code_key(token[start:end])
            if term is None and self.prefixes:
                forms = _FOLD.analyze(part)
                term = next((one for one in self.prefixes if any(form.startswith(one) for form in forms)), None)
            if term is not None:
                yield _Match(start, end, term)

    def _best_start(self, text: str, length: int) -> int:
        """Return where the part of a text begins that has the most different terms; of equal parts, the first."""
        window: deque[_Match] = deque()
        counts: Counter[str] = Counter()
        best, best_start = 0, 0
        for match in self._matches(text):
            window.append(match)
            counts[match.term] += 1
            while len(window) > 1 and match.end - window[0].start > length - LEAD:
                first = window.popleft()
                counts[first.term] -= 1
                if not counts[first.term]:
                    del counts[first.term]
            if len(counts) > best:
                best, best_start = len(counts), window[0].start
                last_end = match.end
                if best == len(self.terms) + len(self.codes) + len(self.prefixes):
                    break
        if not best or last_end <= length:
            return 0
        start = max(0, min(best_start - LEAD, len(text) - length))
        return _word_start(text, start, best_start)


def highlighter_for(snapshot: Snapshot, query: ParsedQuery | None) -> Highlighter:
    """Return what marks the words of a query; nothing is marked without one, since a whole document has most words."""
    if query is None or snapshot.words is None:
        return Highlighter(_FOLD)
    return Highlighter.of(query, snapshot.words.analyzer, snapshot.words.query_analyzer)


def _word_start(text: str, start: int, limit: int) -> int:
    """Return the beginning of the next word, unless there is none before the limit."""
    if start == 0:
        return 0
    space = text.find(" ", start - 1, limit)
    return space + 1 if space >= 0 else start


def _word_end(text: str, start: int, end: int) -> int:
    """Return the end of the last word that ends before a place; scripts without spaces are cut anywhere."""
    if end >= len(text):
        return len(text)
    space = text.rfind(" ", max(start, end - MAX_SPACE), end + 1)
    return space if space > start else end


def split_title(text: str) -> tuple[str, str]:
    """Split a text into a short first line and the rest; a text without such a line has no title.

    >>> split_title("A title\\n\\nThe text.")
    ('A title', 'The text.')
    """
    stripped = text.strip()
    first, _, rest = stripped.partition("\n")
    return (first.strip(), rest.strip()) if rest and len(first) <= MAX_TITLE_LENGTH else ("", stripped)

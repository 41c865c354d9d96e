"""Spelling: the words of a query that no document has, and the words of documents that may have been meant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from fewbits.search.lexical import LexicalSnapshot, Positions
from fewbits.search.store.reader import Reader
from fewbits.search.words import LONGEST, make_analyzer, possible_fields, split, word_spans, writes_no_spaces

if TYPE_CHECKING:
    from fewbits.search.snapshot import Snapshot

Span = tuple[int, int]

MAX_UNKNOWN = 50  # words that are named
MAX_CORRECTED = 8  # words of a query; in a longer one a misspelt word does little harm
MIN_LENGTH, MIN_LENGTH_OF_KNOWN, MIN_LENGTH_FOR_TWO_EDITS = 3, 4, 6  # characters of a word that is corrected
ROUNDS, SAMPLE = 6, 10  # how often documents with similar words are read, and how many of them
LONGEST_TEXT = 100_000  # characters of a document that are read
CHOICES = 4  # per word
# A choice is judged by the logarithm of its frequency, and of the number of documents that it shares with its neighbor.
EDIT_COST = 2.0  # one edit outweighs a word that is a hundred times as frequent
OTHER_INITIAL_COST = 0.5
ADJACENT = 1.0  # two words that documents have beside each other, however often
KNOWN_COST = 2.0  # of replacing a word that documents have


@dataclass(frozen=True)
class Suggestion:
    """The words of a query that no document has, as written, and a corrected query; None if there is none."""

    unknown: tuple[str, ...] = ()
    corrected: str | None = None


@dataclass(frozen=True)
class _Choice:
    """A candidate replacement of a word: one word or two."""

    text: str
    score: float


def suggest(snapshot: Snapshot, query: str) -> Suggestion:
    """Return which words of a query no document has, and what may have been meant.

    A correction consists of words as documents spell them, in any language: few edits away, frequent, and in the same
    documents as the other words. A known word may be misspelt too if no document has it beside the others. Numbers and
    product codes are not corrected, because another number means another thing.
    """
    lexical = snapshot.words
    if lexical is None:
        return Suggestion()
    spans = word_spans(query, filter(snapshot.reader.has_field, possible_fields(query)))
    written = list(dict.fromkeys(query[start:end] for start, end in spans))
    unknown = {word for word in written if _is_unknown(lexical, word)}
    named = tuple([word for word in written if word in unknown][:MAX_UNKNOWN])
    if len(written) > MAX_CORRECTED or (not unknown and (len(written) < 2 or lexical.count(*written))):
        return Suggestion(named)
    return Suggestion(named, _Speller(lexical, snapshot.reader).correct(query, spans, unknown))


def _is_unknown(lexical: LexicalSnapshot, word: str) -> bool:
    """Return whether no document has a word; of a code with digits, whether none has all of it."""
    if not lexical.has_word(word):
        return True
    words, codes, _ = split(word)
    is_number = bool(codes) and any(map(str.isdigit, word))
    return is_number and not lexical.count(word) and not lexical.count(*words.split(), is_phrase=True)


class _Speller:
    """Corrects the words of one query."""

    def __init__(self, lexical: LexicalSnapshot, reader: Reader) -> None:
        self._lexical = lexical
        self._reader = reader
        self._fold = make_analyzer(None).analyze
        self._affinity = lru_cache(maxsize=None)(self._measure_affinity)

    def correct(self, query: str, spans: Sequence[Span], unknown: set[str]) -> str | None:
        """Return the corrected query; None if the original scores best."""
        spans = list(self._joined(query, [span for span in spans if self._stems(query[slice(*span)])], unknown))
        written = [query[start:end] for start, end in spans]
        chosen = self._best([self._choices(word, is_known=word not in unknown) for word in written])
        corrected = query
        for (start, end), word, choice in reversed(list(zip(spans, written, chosen, strict=True))):
            if choice != word:
                corrected = corrected[:start] + _in_case_of(word, choice) + corrected[end:]
        return corrected if corrected != query else None

    def _joined(self, query: str, spans: Sequence[Span], unknown: set[str]) -> Iterator[Span]:
        """Yield the spans; two words are one span if documents write them together and do not have one of them."""
        position = 0
        while position < len(spans):
            start, end = spans[position]
            position += 1
            if position < len(spans):
                next_start, next_end = spans[position]
                first, second = query[start:end], query[next_start:next_end]
                is_split = query[end:next_start].isspace() and not unknown.isdisjoint((first, second))
                if is_split and _is_plain(first + second) and self._lexical.count(first + second):
                    end = next_end
                    position += 1
            yield start, end

    def _choices(self, word: str, *, is_known: bool) -> list[_Choice]:
        """Return the candidates for a word; an unknown word itself only if there is no similar one."""
        together = "".join(word.split())
        if together != word:
            return [_Choice(together, 0.0)]
        frequency = self._frequency(word)
        itself = _Choice(word, math.log10(1 + frequency))
        if not _is_plain(word) or len(word) < (MIN_LENGTH_OF_KNOWN if is_known else MIN_LENGTH):
            return [itself]
        if is_known:
            similar = [_Choice(one.text, one.score - KNOWN_COST) for one in self._similar(word, 1)]
            return [itself, *(one for one in similar if one.text != word.lower())]
        found = self._similar(word, 1) + list(self._parts(word))
        if not found and len(word) >= MIN_LENGTH_FOR_TWO_EDITS:
            found = self._similar(word, 2)
        return found or [itself]

    def _similar(self, word: str, distance: int) -> list[_Choice]:
        """Return the best words of documents within an edit distance of a word, or whose stem is within it."""
        forms = self._fold(split(word).words)
        if len(forms) != 1:  # a character may be written as several words
            return []
        written = forms[0]
        stem = " ".join(self._lexical.analyzer.analyze(written))
        by_stem: dict[str, _Choice] = {}
        for _ in range(ROUNDS):
            positions = self._lexical.with_similar_word(written, distance, SAMPLE, without=by_stem)
            count = len(by_stem)
            for surface, folded in self._surfaces(positions, len(written), distance):
                [found] = self._lexical.analyzer.analyze(folded) or [""]
                edits = edit_distance(written, folded)
                if min(edits, edit_distance(stem, found)) > distance:
                    continue
                costs = EDIT_COST * edits + OTHER_INITIAL_COST * (written[:1] != folded[:1])
                choice = _Choice(surface, math.log10(1 + self._frequency(surface)) - costs)
                if found not in by_stem or choice.score > by_stem[found].score:
                    by_stem[found] = choice
            if len(by_stem) == count:
                break
        return sorted(by_stem.values(), key=lambda one: (-one.score, one.text))[:CHOICES]

    def _surfaces(self, positions: Positions, length: int, distance: int) -> Iterator[tuple[str, str]]:
        """Yield the words of documents of about a length, most frequent first, and their forms without accents."""
        lengths = range(length - distance - 1, length + distance + 2)
        counts: Counter[str] = Counter()
        for _, text in self._reader.numbered_texts(positions):
            counts.update(word for word in split(text[:LONGEST_TEXT]).words.split() if len(word) in lengths)
        words = [word for word, _ in counts.most_common() if len(word.encode()) < LONGEST]
        return zip(words, self._fold(" ".join(words)), strict=True)

    def _parts(self, word: str) -> Iterator[_Choice]:
        """Yield the most frequent pair of words that a word may consist of."""
        pairs = [(word[:cut], word[cut:]) for cut in range(2, len(word) - 1)]
        known = [pair for pair in pairs if all(self._frequency(part) for part in pair)]
        counted = [(self._lexical.count(*pair, is_phrase=True), " ".join(pair).lower()) for pair in known]
        count, text = max(counted, default=(0, ""))
        if count:
            yield _Choice(text, math.log10(1 + count) - EDIT_COST)

    def _best(self, choices: Sequence[Sequence[_Choice]]) -> list[str]:
        """Return the sequence of choices with the highest score, each by itself and beside the one before (Viterbi)."""
        paths: list[tuple[float, list[str]]] = [(0.0, [])]
        for options in choices:
            paths = [
                max(
                    (
                        score + option.score + (self._affinity(path[-1], option.text) if path else 0.0),
                        [*path, option.text],
                    )
                    for score, path in paths
                )
                for option in options
            ]
        return max(paths)[1]

    def _measure_affinity(self, first: str, second: str) -> float:
        """Return the logarithms of how many documents have two words, and have one after the other."""
        pair = first.split()[-1], second.split()[0]
        together = self._lexical.count(*pair)
        adjacent = self._lexical.count(*pair, is_phrase=True) if together else 0
        return math.log10(1 + together) + math.log10(1 + adjacent) + ADJACENT * (adjacent > 0)

    def _frequency(self, word: str) -> int:
        return self._lexical.count(word)

    def _stems(self, word: str) -> list[str]:
        """Return the terms of a word; none if it is a function word."""
        return list(self._lexical.query_analyzer.analyze(split(word).words))


def edit_distance(first: str, second: str) -> int:
    """Count the insertions, deletions, replacements and swaps of neighbors between two words.

    >>> edit_distance("atack", "attack"), edit_distance("haert", "heart")
    (1, 1)
    """
    before: list[int] = []
    last = list(range(len(second) + 1))
    for row, letter in enumerate(first, 1):
        current = [row]
        for column, other in enumerate(second, 1):
            cost = min(last[column] + 1, current[-1] + 1, last[column - 1] + (letter != other))
            if row > 1 and column > 1 and letter == second[column - 2] and other == first[row - 2]:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        before, last = last, current
    return last[-1]


def _is_plain(word: str) -> bool:
    """Return whether a word consists of letters of a script with spaces."""
    return not any(map(str.isdigit, word)) and not split(word).codes and not writes_no_spaces(word)


def _in_case_of(word: str, other: str) -> str:
    """Write a word in capitals, or with a capital, if another one is."""
    if word.isupper() and len(word) > 1:
        return other.upper()
    return other[:1].upper() + other[1:] if word[:1].isupper() else other

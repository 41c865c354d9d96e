"""How two texts differ: in numbers and product codes, and in which words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from fewbits.search.words import split, writes_no_spaces

SHOWN_CHANGES = 20
LONGEST_KEPT = 32  # characters of a chunk whose numbers are kept in memory
MAX_COMPARED = 2_000  # words of a text that are aligned
_HAS_DIGIT = re.compile(r"\d")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_TOKEN = re.compile(r"\w+(?:[-./_&+#@:,]\w+)*")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_LETTERS = re.compile(r"[^\W\d_]+")
_SEPARATOR = re.compile(r"[-/_:&+#@]")
_SPACE = re.compile(r"\s")
_WRITTEN_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Numbers:
    """The numbers in a text, and its codes: tokens of letters and digits such as RTX-4090."""

    values: tuple[str, ...]  # sorted, each as often as it occurs
    codes: frozenset[str]


def read_numbers(text: str) -> Numbers:
    """Find the numbers and codes of a text.

    >>> read_numbers("RTX-4090 for $1,599.00, since 2022/10/12")
    Numbers(values=('1599.00', '2022-10-12', '4090'), codes=frozenset({'rtx-4090'}))
    """
    values: list[str] = []
    codes: list[str] = []
    for chunk in _chunks_with_digits(text):
        of_chunk = _numbers_of(chunk) if len(chunk) <= LONGEST_KEPT else _numbers_of.__wrapped__(chunk)
        values += of_chunk[0]
        codes += of_chunk[1]
    return Numbers(tuple(sorted(values)), frozenset(codes))


@lru_cache(maxsize=1 << 16)
def _numbers_of(chunk: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the numbers and codes of a part of a text without white space."""
    values: list[str] = []
    codes = []
    chunk = _plain(chunk)
    is_negative = chunk[0] == "-" and chunk[1:2].isdigit()
    for place, token in enumerate(_TOKEN.findall(_THOUSANDS.sub("", chunk.lower()))):
        if not _HAS_DIGIT.search(token):
            continue
        if _LETTERS.search(token):
            values += _NUMBER.findall(token)
            if not writes_no_spaces(token):
                codes.append(token)
        else:
            values.append(("-" if is_negative and not place else "") + _SEPARATOR.sub("-", token))
    return tuple(values), tuple(codes)


def _chunks_with_digits(text: str) -> Iterator[str]:
    """Yield the parts of a text between white space that have a digit, in linear time."""
    end = 0
    for place in _digit_places(text):
        if place < end:
            continue
        start = max(text.rfind(" ", end, place), text.rfind("\n", end, place)) + 1
        space = _SPACE.search(text, place)
        start, end = max(start, end), len(text) if space is None else space.start()
        yield from (chunk for chunk in text[start:end].split() if _HAS_DIGIT.search(chunk))


def _digit_places(text: str) -> list[int]:
    if not text.isascii():
        return [match.start() for match in _HAS_DIGIT.finditer(text)]
    characters = np.frombuffer(text.encode("ascii"), dtype=np.uint8)  # several times faster than the expression
    places: list[int] = np.flatnonzero(characters - np.uint8(ord("0")) < 10).tolist()
    return places


def number_signature(text: str) -> int:
    """Hash the numbers of a text to 64 bits; 0 without any."""
    values = read_numbers(text).values
    if not values:
        return 0
    return int.from_bytes(blake2b(" ".join(values).encode(), digest_size=8).digest(), "little") | 1


def same_numbers(left: str, right: str) -> bool:
    """Return whether two texts have the same numbers and codes; how a code is joined does not matter.

    >>> same_numbers("an RTX-4090", "an rtx 4090"), same_numbers("an RTX-4090", "an RTX-3080")
    (True, False)
    """
    numbers = read_numbers(left), read_numbers(right)
    if numbers[0].values != numbers[1].values:
        return False
    if numbers[0].codes == numbers[1].codes:
        return True
    letters = set(_LETTERS.findall(_plain(left).lower())), set(_LETTERS.findall(_plain(right).lower()))
    return all(
        set(_LETTERS.findall(code)) <= letters[1 - side]
        for side in (0, 1)
        for code in numbers[side].codes - numbers[1 - side].codes
    )


@dataclass(frozen=True)
class Change:
    """A passage that one text has in the place of another; either may be empty."""

    removed: str
    added: str


def describe_change(left: str, right: str) -> tuple[str, tuple[Change, ...]]:
    """Return how a text became another, in a few words, and the passages that differ.

    >>> describe_change("The lazy dog sleeps", "the lazy cat sleeps")
    ('words differ', (Change(removed='dog', added='cat'),))
    >>> describe_change("A  b.", "a b")
    ('only case, spaces or punctuation differ', ())
    """
    if left == right:
        return "identical", ()
    texts = [_WRITTEN_WORD.findall(text) for text in (left, right)]
    words = [[_key(word) for word in text] for text in texts]
    parts = [" ".join(text).split() for text in words]
    if parts[0] == parts[1]:
        return "only case, spaces or punctuation differ", ()
    if Counter(parts[0]) == Counter(parts[1]):
        return "only the order of the words differs", _changes(texts, words)
    numbers = [Counter(part for part in text if _HAS_DIGIT.search(part)) for text in parts]
    if numbers[0] == numbers[1]:
        return "words differ", _changes(texts, words)
    without = [[part for part in text if not _HAS_DIGIT.search(part)] for text in parts]
    return ("numbers differ" if without[0] == without[1] else "words and numbers differ"), _changes(texts, words)


def _changes(texts: list[list[str]], words: list[list[str]]) -> tuple[Change, ...]:
    matcher = SequenceMatcher(None, words[0][:MAX_COMPARED], words[1][:MAX_COMPARED], autojunk=False)
    changes = [
        Change(" ".join(texts[0][left:left_end]), " ".join(texts[1][right:right_end]))
        for kind, left, left_end, right, right_end in matcher.get_opcodes()
        if kind != "equal"
    ]
    return tuple(changes[:SHOWN_CHANGES])


def _key(word: str) -> str:
    return " ".join(split(word).words.split())


def _plain(text: str) -> str:
    """Return a text whose digits and letters have one form."""
    if text.isascii():
        return text
    normal = unicodedata.normalize("NFKC", text)
    return "".join(str(unicodedata.digit(one)) if one.isdigit() and not one.isascii() else one for one in normal)

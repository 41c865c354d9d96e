"""Texts to the words and codes of the lexical index, in any script.

The features of the hashers have a tokenizer of their own, see :mod:`fewbits.features.vectorizer`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

# Vowel signs and accents belong to words; \\w leaves them out.
_MARKS = "".join(chr(point) for point in range(0x300, 0x1E00) if unicodedata.category(chr(point)) in ("Mn", "Mc"))
_UNSPACED = (  # scripts that write no spaces, and Hangul, whose particles stick to the words
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_JOINERS = "-./_&+#@:"
_WORD = re.compile(rf"\w+(?:[{_JOINERS}]\w+)*(?:\+\+|#)?")
_MARKED_WORD = re.compile(rf"[\w{_MARKS}]+(?:[{_JOINERS}][\w{_MARKS}]+)*(?:\+\+|#)?")
_MARK = re.compile(f"[{_MARKS}]")
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_PARTS = str.maketrans(dict.fromkeys(_JOINERS, " "))
_PLAIN = str.maketrans("", "", "-./_:")  # RTX-4090, RTX_4090 and RTX4090 are one code
_FOLDED: dict[int, str | None] = {  # the Russian yo is often written as ye; Hebrew and Arabic vowels are left out
    ord("\u0451"): "\u0435",
    ord("\u0401"): "\u0415",
    **dict.fromkeys([*range(0x591, 0x5C8), *range(0x64B, 0x653)]),
}
LONGEST = 64  # characters of a word; what is longer is data, not language


class Words(NamedTuple):
    """Words of a text in order, separated by spaces, and its codes."""

    words: str
    codes: list[str]


def split(text: str) -> Words:
    """Split a text into words, with the scripts that write no spaces as pairs of characters, and codes.

    A code is a word with inner punctuation that has a digit, or that is not joined by hyphens alone; it is kept
    without its separators, and its parts are words.

    >>> split("The RTX-4090 in C++")
    Words(words='the rtx 4090 in c  ', codes=['rtx4090', 'c++'])
    >>> split("Grève à 北京大学").words.split()
    ['grève', 'à', '北京', '京大', '大学']
    """
    if text.isascii():
        tokens = _WORD.findall(text.lower())
    else:
        folded = unicodedata.normalize("NFKC", text).translate(_FOLDED).lower()
        tokens = (_MARKED_WORD if _MARK.search(folded) else _WORD).findall(folded)
    joined = " ".join(tokens)
    codes = [code_key(token) for token in tokens if not token.isalnum() and _is_code(token)]
    words = joined.translate(_PARTS)
    return Words(words if joined.isascii() else _UNSPACED_RUN.sub(_pairs, words), codes)


def code_key(token: str) -> str:
    """Return the form under which a code is kept: lower case without separators."""
    return token.lower().translate(_PLAIN)[:LONGEST]


def is_mixed(word: str) -> bool:
    """Return whether a word has letters and digits, and so may be a code written without its separators."""
    return not word.isalpha() and not word.isdigit()


def _is_code(token: str) -> bool:
    rest = token.replace("-", "")
    return any(map(str.isdigit, token)) or any(joiner in rest for joiner in "./_&+#@:")


def _pairs(match: re.Match[str]) -> str:
    run = match[0]
    pairs = " ".join(run[start : start + 2] for start in range(len(run) - 1)) or run
    return f" {pairs} "


# Function words of English: Snowball's list, with what is left of its contractions (don't: don, t).
_ENGLISH = (
    "a about above after again against ain all am an and any are aren as at be because been before being below "
    "between both but by can couldn d did didn do does doesn doing don down during each few for from further had hadn "
    "has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself just "
    "ll m ma me mightn more most mustn my myself needn no nor not now o of off on once only or other our ours "
    "ourselves out over own re s same shan she should shouldn so some such t than that the their theirs them "
    "themselves then there these they this those through to too under until up ve very was wasn we were weren what "
    "when where which while who whom why will with won wouldn y you your yours yourself yourselves "
)
ENGLISH = _ENGLISH.split()

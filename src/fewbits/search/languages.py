"""Languages of texts: which one it is, and which words codes see in it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

from fewbits.search.words import UNSPACED, WITH_FUNCTION_WORDS, split

LANGUAGES = (
    "arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian",
    "italian", "norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish",
)  # fmt: skip
MIN_FUNCTION_WORDS = 0.2  # share of function words in texts of a language
_SCRIPTS = (  # scripts of one language, and Arabic by its article: languages without a list of function words
    ("greek", re.compile(r"(?<!\S)[\u0370-\u03ff\u1f00-\u1fff]+(?!\S)"), 0.5),
    ("tamil", re.compile(r"(?<!\S)[\u0b80-\u0bff]+(?!\S)"), 0.5),
    ("arabic", re.compile(r"(?<!\S)\u0627\u0644\w+"), 0.1),
)
MIN_LEAD = 1.2  # of the language over the next one

# Words for the codes of texts with other letters than a-z, as a pattern of TextVectorizer: two characters or more of a
# script with spaces, else pairs of characters. It captures what begins at each character.
_MARK_BLOCKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
)
_SPACED = rf"[^\W{UNSPACED}]|[{_MARK_BLOCKS}]"
UNICODE_PATTERN = (
    rf"(?=([{UNSPACED}]{{2}}|(?<![^\W{UNSPACED}])(?<![{_MARK_BLOCKS}])(?:{_SPACED}){{2,}}))[\w{_MARK_BLOCKS}]"
)
MAX_OTHER_LETTERS = 0.02  # share of letters in words that the pattern of the benchmark cannot see
_LETTERS = re.compile(r"[^\W\d_]{2,}")


def guess_language(texts: Iterable[str]) -> str | None:
    """Return the language whose function words are most frequent in texts; None if it is not clear.

    >>> guess_language(["It was the best of times, it was the worst of times"])
    'english'
    """
    words = split(" ".join(texts)).words
    for language, pattern, share in _SCRIPTS:
        if len(pattern.findall(words)) >= share * max(1, len(words.split())):
            return language
    total = len(words.split())
    shares = []
    for language in WITH_FUNCTION_WORDS:
        analyzer = TextAnalyzerBuilder(Tokenizer.whitespace()).filter(Filter.stopword(language)).build()
        shares.append((1 - len(analyzer.analyze(words)) / max(1, total), language))
    (first, language), (second, _) = sorted(shares, reverse=True)[:2]
    return language if first >= MIN_FUNCTION_WORDS and first >= MIN_LEAD * second else None


def named_pattern(pattern: str | None) -> str | None:
    """Return the pattern that a name stands for, or the pattern itself."""
    return UNICODE_PATTERN if pattern == "unicode" else pattern


def choose_token_pattern(texts: Iterable[str]) -> str | None:
    """Return the pattern of the words that codes are made of: None for letters a-z, unless texts have many others.

    >>> choose_token_pattern(["plain words, 北"]) is None, choose_token_pattern(["北京大学 campus"]) == UNICODE_PATTERN
    (True, True)
    """
    words = [word for text in texts for word in _LETTERS.findall(text.lower())]
    n_other = sum(len(word) for word in words if not word.isascii())
    return UNICODE_PATTERN if n_other > MAX_OTHER_LETTERS * sum(map(len, words)) else None

"""Words of the lexical search: those of texts in any script and their stems, and those of queries with operators.

The features of the hashers have a tokenizer of their own, see :mod:`fewbits.features.vectorizer`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tantivy import Filter, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

# Vowel signs and accents belong to words; \\w leaves them out.
_MARKS = "".join(chr(point) for point in range(0x300, 0x1E00) if unicodedata.category(chr(point)) in ("Mn", "Mc"))
_UNSPACED = (  # scripts that write no spaces, and Hangul, whose particles stick to the words
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_JOINERS = "-./_&+#@:"  # the hyphen first, as these are part of patterns
_WORD = re.compile(rf"\w+(?:[{_JOINERS}]\w+)*(?:\+\+|#)?")
_MARKED_WORD = re.compile(rf"[\w{_MARKS}]+(?:[{_JOINERS}][\w{_MARKS}]+)*(?:\+\+|#)?")
_MARK = re.compile(f"[{_MARKS}]")
_PART_OF_WORD = re.compile(f"[^{_JOINERS}]+")
# Texts are normalized in pieces, because sorting a run of accents by their class takes quadratic time. A piece ends at
# white space, else not before a character that the one in front of it may be composed with.
_PIECE = re.compile(rf".{{1,400}}\s|.{{1,200}}[{_MARKS}\u1160-\u11ff\u3099\u309a]{{0,30}}", re.DOTALL)
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_PARTS = str.maketrans(dict.fromkeys(_JOINERS, " "))
_PLAIN = str.maketrans("", "", "-./_:")  # RTX-4090, RTX_4090 and RTX4090 are one code
_FOLDED: dict[int, str | None] = {  # the Russian yo is often written as ye; Hebrew and Arabic vowels are left out
    ord("\u0451"): "\u0435",
    ord("\u0401"): "\u0415",
    **dict.fromkeys([*range(0x591, 0x5C8), *range(0x64B, 0x653)]),
}
_FOLDABLE = re.compile(f"[{''.join(map(chr, _FOLDED))}]")
# Words for the codes of texts with other letters than a-z, as a pattern of TextVectorizer: two characters or more of a
# script with spaces, else pairs of characters. It captures what begins at each character.
_MARK_BLOCKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
)
_SPACED = rf"[^\W{_UNSPACED}]|[{_MARK_BLOCKS}]"
UNICODE_PATTERN = (
    rf"(?=([{_UNSPACED}]{{2}}|(?<![^\W{_UNSPACED}])(?<![{_MARK_BLOCKS}])(?:{_SPACED}){{2,}}))[\w{_MARK_BLOCKS}]"
)
MAX_OTHER_LETTERS = 0.02  # share of letters in words that the pattern of the benchmark cannot see
_LETTERS = re.compile(r"[^\W\d_]{2,}")
LONGEST = 64  # characters of a word; what is longer is data, not language

LANGUAGES = (
    "arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian",
    "italian", "norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish",
)  # fmt: skip
MIN_FUNCTION_WORDS = 0.2  # share of function words in texts of a language
MIN_LEAD = 1.2  # of the language over the next one

LONGEST_QUERY = 2_000  # characters
MAX_WORDS = 12  # outside quotes; a longer query is prose, whose quotes and hyphens are not operators
_PART = re.compile(
    r'(?P<minus>(?<!\S)-)?(?:(?P<field>[^\W\d]\w*):(?=\S))?(?:"(?P<phrase>[^"]*)(?P<end>"|$)|(?P<word>[^\s"]+))'
)
_OPERATOR = re.compile(r'["*:]|(?<!\S)-')
_QUOTED = re.compile(r'"[^"]*"')
_FIELD = re.compile(r"(?<!\S)([^\W\d]\w*):(?=\S)")

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
        folded = _normalize(text)
        folded = (folded.translate(_FOLDED) if _FOLDABLE.search(folded) else folded).lower()
        tokens = (_MARKED_WORD if _MARK.search(folded) else _WORD).findall(folded)
    joined = " ".join(tokens)
    codes = [code_key(token) for token in tokens if not token.isalnum() and _is_code(token)]
    if joined.isascii():
        return Words(joined.translate(_PARTS), codes)
    for joiner in _JOINERS:  # several times faster than translate, which is made for ASCII
        joined = joined.replace(joiner, " ")
    return Words(_UNSPACED_RUN.sub(_pairs, joined), codes)


def code_key(token: str) -> str:
    """Return the form under which a code is kept: lower case without separators."""
    return token.lower().translate(_PLAIN)[:LONGEST]


def is_mixed(word: str) -> bool:
    """Return whether a word has letters and digits, and so may be a code written without its separators."""
    return not word.isalpha() and not word.isdigit()


def _normalize(text: str) -> str:
    """Return the NFKC form of a text in linear time."""
    return "".join(unicodedata.normalize("NFKC", piece) for piece in _PIECE.findall(text))


def _is_code(token: str) -> bool:
    rest = token.replace("-", "")
    return any(map(str.isdigit, token)) or any(joiner in rest for joiner in "./_&+#@:")


def _pairs(match: re.Match[str]) -> str:
    run = match[0]
    pairs = " ".join(run[start : start + 2] for start in range(len(run) - 1)) or run
    return f" {pairs} "


def make_analyzer(language: str | None, *, without_function_words: bool = False) -> TextAnalyzer:
    """Return the function from words, as :func:`split` returns them, to terms.

    Accents are removed before stemming, so that a word typed without them has the same stem.
    """
    builder = TextAnalyzerBuilder(Tokenizer.whitespace()).filter(Filter.remove_long(LONGEST))
    if without_function_words and language is not None:
        is_english = language == "english"  # tantivy's own list has only 33 words
        builder = builder.filter(Filter.custom_stopword(ENGLISH) if is_english else Filter.stopword(language))
    builder = builder.filter(Filter.ascii_fold())
    return (builder if language is None else builder.filter(Filter.stemmer(language))).build()


def guess_language(texts: Iterable[str]) -> str | None:
    """Return the language whose function words are most frequent in texts; None if it is not clear.

    >>> guess_language(["It was the best of times, it was the worst of times"])
    'english'
    """
    words = split(" ".join(texts)).words
    total = len(words.split())
    shares = []
    for language in LANGUAGES:
        try:
            analyzer = TextAnalyzerBuilder(Tokenizer.whitespace()).filter(Filter.stopword(language)).build()
        except ValueError:  # there is no list for this language
            continue
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


def parse(query: str, fields: Iterable[str] = ()) -> ParsedQuery:
    """Parse a query; ``fields`` are the names that ``field:value`` filters by, any other colon is a character.

    A query of many words is text without operators.

    >>> parse('graph "neural network" -survey transf* year:2020', ["year"])
    ParsedQuery(text='graph neural network transf', words=('graph',), phrases=('neural network',),
                prefixes=('transf',), excluded=('survey',), filters=(('year', '2020'),), notes=())
    """
    if _is_prose(query) or not _OPERATOR.search(query):
        return plain(query)
    parts: dict[str, list[str]] = {"words": [], "phrases": [], "prefixes": [], "excluded": []}
    filterable = frozenset(fields)
    filters: list[tuple[str, str]] = []
    searched: list[str] = []
    for match in _PART.finditer(query):
        is_phrase, name = match["word"] is None, match["field"]
        value = match["phrase"] if is_phrase else match["word"]
        if name and name in filterable and not match["minus"]:
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


def word_spans(query: str, fields: Iterable[str] = ()) -> list[tuple[int, int]]:
    """Return where the words stand that a query searches for: not those that it excludes, filters by or expands.

    Joined words are several, unless they have a digit.

    >>> query = "well-known cats -dogs transf* RTX-4090 year:2020"
    >>> [query[start:end] for start, end in word_spans(query, ["year"])]
    ['well', 'known', 'cats', 'RTX-4090']
    """
    filterable = frozenset(fields)
    parts = [(0, len(query))]
    if not _is_prose(query):
        parts = [
            match.span("phrase" if match["word"] is None else "word")
            for match in _PART.finditer(query)
            if not match["minus"]
            and not (match["field"] and match["field"] in filterable)
            and not (match["word"] and _classify(match["word"], is_excluded=False, is_phrase=False)[0] == "prefixes")
        ]
    tokens = (match for start, end in parts for match in _MARKED_WORD.finditer(query, start, end))
    return [span for token in tokens for span in _parts_of(token)]


def token_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the words of a text stand; joined words are one.

    >>> text = "An RTX-4090, well-known"
    >>> [text[start:end] for start, end in token_spans(text)]
    ['An', 'RTX-4090', 'well-known']
    """
    return (match.span() for match in _MARKED_WORD.finditer(text))


def part_spans(token: str) -> Iterator[tuple[int, int]]:
    """Yield where the parts of a word stand: between joiners, and each pair of characters of scripts without spaces.

    >>> [*part_spans("well-known")], [*part_spans("北京大")]
    ([(0, 4), (5, 10)], [(0, 2), (1, 3)])
    """
    for part in _PART_OF_WORD.finditer(token):
        start = part.start()
        for run in _UNSPACED_RUN.finditer(part[0]):
            yield from ((part.start() + at, part.start() + at + 2) for at in range(run.start(), run.end() - 1))
            if run.end() - run.start() > 1:
                if start < part.start() + run.start():
                    yield start, part.start() + run.start()
                start = part.start() + run.end()
        if start < part.end():
            yield start, part.end()


def writes_no_spaces(text: str) -> bool:
    """Return whether a text has characters of a script without spaces between words, which are kept as pairs."""
    return _UNSPACED_RUN.search(text) is not None


def _parts_of(token: re.Match[str]) -> list[tuple[int, int]]:
    if any(map(str.isdigit, token[0])):
        return [token.span()]
    return [(token.start() + part.start(), token.start() + part.end()) for part in _PART_OF_WORD.finditer(token[0])]


def _is_prose(query: str) -> bool:
    return len(query) > LONGEST_QUERY or len(_QUOTED.sub(" ", query).split()) > MAX_WORDS


def _classify(value: str, is_excluded: bool, is_phrase: bool) -> tuple[str, str]:
    """Return the kind of a part and the part without its operator."""
    if is_excluded:
        return "excluded", value
    if is_phrase:
        return "phrases", value
    is_prefix = len(value) > 2 and value.endswith("*")
    return ("prefixes", value.rstrip("*")) if is_prefix else ("words", value)

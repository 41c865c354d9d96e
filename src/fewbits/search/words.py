"""Words of the lexical search: those of texts in any script and their stems, and those of queries with operators.

The features of the hashers have a tokenizer of their own, see :mod:`fewbits.features.vectorizer`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tantivy import Filter, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

# Vowel signs and accents belong to words; \\w leaves them out.
_MARKS = "".join(chr(point) for point in range(0x300, 0x1E00) if unicodedata.category(chr(point)) in ("Mn", "Mc"))
UNSPACED = (  # scripts that write no spaces, and Hangul, whose particles stick to the words
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_JOINERS = "-./_&+#@:"  # the hyphen first, as these are part of patterns
_EMOJI = "\u2600-\u27bf\U0001f300-\U0001faff"  # each is a word
_WORD = re.compile(rf"\w+(?:[{_JOINERS}]\w+)*(?:\+\+|#)?|[{_EMOJI}]")
_MARKED_WORD = re.compile(rf"[\w{_MARKS}]+(?:[{_JOINERS}][\w{_MARKS}]+)*(?:\+\+|#)?|[{_EMOJI}]")
_ASCII_WORD = re.compile(rf"\w+(?:[{_JOINERS}]\w+)*(?:\+\+|#)?", re.ASCII)
_IN_CODE = re.compile(r"[\d./_&+#@:]")
_ELIDED = re.compile("(?<!\\w)\\w+(?:['\u2019](?!s\\b)\\w+)+")  # without a genitive
_MARK = re.compile(f"[{_MARKS}]")
_PART_OF_WORD = re.compile(f"[^{_JOINERS}]+")
# Texts are normalized in pieces, because sorting a run of accents by their class takes quadratic time. A piece ends at
# white space, else not before a character that the one in front of it may be composed with.
_PIECE = re.compile(rf".{{1,400}}\s|.{{1,200}}[{_MARKS}\u1160-\u11ff\u3099\u309a]{{0,30}}", re.DOTALL)
_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
_PARTS = str.maketrans(dict.fromkeys(_JOINERS, " "))
_PLAIN = str.maketrans("", "", "-./_:'\u2019")  # RTX-4090, RTX_4090 and RTX4090 are one code
_FOLDED: dict[int, str | None] = {  # the Russian yo is often written as ye; Hebrew and Arabic vowels are left out
    ord("\u0451"): "\u0435",
    ord("\u0401"): "\u0415",
    ord("\u0130"): "i",  # the Turkish capital, whose lower case has a combining dot
    **dict.fromkeys([*range(0x591, 0x5C8), *range(0x64B, 0x653)]),
    **dict.fromkeys([*range(0x300, 0x370), 0xAD, 0x200D, 0x200E, 0x200F, 0x2060, 0xFEFF]),  # accents apart; invisible
    **{point: unicodedata.normalize("NFD", chr(point))[0] for point in [*range(0x386, 0x3CF), *range(0x1F00, 0x2000)]},
}
_FOLDABLE = re.compile(f"[{''.join(map(chr, _FOLDED))}]")
_UMLAUTS = (("\u00e4", "a"), ("\u00f6", "o"), ("\u00fc", "u"))
_UMLAUT, _DIGIT = re.compile("[\u00e4\u00f6\u00fc]|[aou]e"), re.compile(r"\d")
LONGEST = 64  # characters of a word; longer ones are data, not language

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
WITH_FUNCTION_WORDS = (  # languages for which tantivy has a list
    "danish", "dutch", "english", "finnish", "french", "german", "hungarian", "italian", "norwegian", "portuguese",
    "russian", "spanish", "swedish",
)  # fmt: skip


class Words(NamedTuple):
    """Words of a text in order, separated by spaces, its codes, and its words joined by hyphens or apostrophes."""

    words: str
    codes: list[str]
    compounds: list[str]


def split(text: str) -> Words:
    """Split a text into words, with the scripts that write no spaces as pairs of characters, and codes.

    A code is a word with inner punctuation that has a digit, or that is not joined by hyphens alone; it is kept
    without its separators, and its parts are words.

    >>> split("The RTX-4090 in C++, well-known")
    Words(words='the rtx 4090 in c   well known', codes=['rtx4090', 'c++'], compounds=['wellknown'])
    >>> split("Grève à 北京大学").words.split()
    ['grève', 'à', '北京', '京大', '大学']
    """
    folded, tokens = tokenize(text)
    joined = " ".join(tokens)
    codes, compounds = [], []
    for token in [token for token in tokens if not token.isalnum()]:
        if _IN_CODE.search(token):
            codes.append(code_key(token))
        elif "-" in token:
            compounds.append(code_key(token))
    compounds += _elided(folded)
    if joined.isascii():
        return Words(joined.translate(_PARTS), codes, compounds)
    for joiner in _JOINERS:  # several times faster than translate, which is made for ASCII
        joined = joined.replace(joiner, " ")
    return Words(_UNSPACED_RUN.sub(_pairs, joined), codes, compounds)


def tokenize(text: str) -> tuple[str, list[str]]:
    """Return a text in lower case without accents that stand apart, and its words with their inner punctuation."""
    if text.isascii():
        folded = text.lower()
        return folded, _ASCII_WORD.findall(folded)
    folded = _normalize(text)
    folded = (folded.translate(_FOLDED) if _FOLDABLE.search(folded) else folded).lower()
    return folded, (_MARKED_WORD if _MARK.search(folded) else _WORD).findall(folded)


def code_key(token: str) -> str:
    """Return the form under which a code is kept: lower case without separators."""
    return token.lower().translate(_PLAIN)[:LONGEST]


def other_forms(text: str) -> list[str]:
    """Return other ways to write the words of a text, without separators; documents may have some of them.

    >>> other_forms("RTX 4090, e-mail")
    ['rtx', '4090', 'email', 'rtx4090', '4090email']
    >>> other_forms("Müller Koeln don't")
    ['müller', 'koeln', 'don', 't', 'mueller', 'koln', 'dont']
    """
    folded, tokens = tokenize(text)
    forms = keys = [code_key(token) for token in tokens]
    if _UMLAUT.search(folded):
        forms = forms + [other for key in keys if (other := _other_umlauts(key)) != key]
    if _DIGIT.search(folded):
        pairs = (first + second for first, second in pairwise(keys))
        forms = forms + [pair for pair in pairs if not pair.isalpha() and not pair.isdigit()]
    return list(dict.fromkeys([*forms, *_elided(folded)]))


def _elided(text: str) -> list[str]:
    """Return the words with an apostrophe inside, without it."""
    if "'" not in text and "\u2019" not in text:
        return []
    words = [word for word in text.split() if "'" in word or "\u2019" in word]
    return [code_key(found) for word in words for found in _ELIDED.findall(word)]


def _other_umlauts(word: str) -> str:
    """Replace umlauts by vowel and e, as typed without an umlaut key, or vice versa."""
    for umlaut, vowel in _UMLAUTS:
        word = word.replace(umlaut, vowel + "e") if umlaut in word else word.replace(vowel + "e", vowel)
    return word


def is_mixed(word: str) -> bool:
    """Return whether a word has letters and digits, and so may be a code written without its separators."""
    return not word.isalpha() and not word.isdigit()


def _normalize(text: str) -> str:
    """Return the NFKC form of a text in linear time."""
    return "".join(unicodedata.normalize("NFKC", piece) for piece in _PIECE.findall(text))


def _pairs(match: re.Match[str]) -> str:
    run = match[0]
    pairs = " ".join(run[start : start + 2] for start in range(len(run) - 1)) or run
    return f" {pairs} "


def make_analyzer(language: str | None, *, without_function_words: bool = False) -> TextAnalyzer:
    """Return the function from words, as :func:`split` returns them, to terms.

    Accents are removed before stemming, so that a word typed without them has the same stem.
    """
    builder = TextAnalyzerBuilder(Tokenizer.whitespace()).filter(Filter.remove_long(LONGEST))
    if without_function_words and language in WITH_FUNCTION_WORDS:
        is_english = language == "english"  # tantivy's own list has only 33 words
        builder = builder.filter(Filter.custom_stopword(ENGLISH) if is_english else Filter.stopword(language))
    builder = builder.filter(Filter.ascii_fold())
    return (builder if language is None else builder.filter(Filter.stemmer(language))).build()


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
    """Return the spans of the words that a query searches for, without those that it excludes, filters by or expands.

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
    found = (match for start, end in parts for match in _MARKED_WORD.finditer(query, start, end))
    return [span for token in found for span in _parts_of(token)]


def tokens(text: str) -> Iterator[re.Match[str]]:
    """Iterate over the words of a text; joined words are one.

    >>> [match[0] for match in tokens("An RTX-4090, well-known")]
    ['An', 'RTX-4090', 'well-known']
    """
    return _MARKED_WORD.finditer(text)


def part_spans(token: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the parts of a word: between joiners, and each pair of characters of scripts without spaces.

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

"""From a text to its words.

The protocol's words are ``\\b[a-z][a-z]+\\b`` in lower case: runs of word characters that are letters a to z
throughout, two or more. They are found by splitting bytes instead of by a regular expression, which gives the
same words in a fraction of the time (see :func:`split_words`).
"""

from __future__ import annotations

import codecs
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from sklearn.preprocessing import normalize
from sklearn.utils.validation import check_is_fitted

from fewbits.errors import DataError, ParameterError
from fewbits.storage import read_arrays, read_json, write_arrays, write_json
from fewbits.validation import check_whole_number

# A character that is no part of a word (re's \w) becomes a space; every latin-1 character has its byte.
_SPACED = bytes(byte if re.match(r"\w", chr(byte)) else ord(" ") for byte in range(256))
_FOREIGN = "ª"  # a latin-1 word character outside a-z: stands for every word character beyond latin-1

Tokenizer = Callable[[str], list[bytes]]


def split_words(text: str) -> list[bytes]:
    """Split into all runs of word characters, in lower case; those that are words are seen by :func:`is_word`.

    >>> split_words("Don't stop: x_1, naïve")
    [b'don', b't', b'stop', b'x_1', b'na\\xefve']
    """
    return text.lower().encode("latin-1", "fewbits-foreign").translate(_SPACED).split()


def is_word(token: bytes) -> bool:
    """Tell whether a run of word characters is a word: letters a to z throughout, two or more.

    >>> [is_word(token) for token in (b"stop", b"t", b"x_1", b"na\\xefve")]
    [True, False, False, False]
    """
    return len(token) > 1 and token.isalpha()  # bytes.isalpha knows a-z and A-Z only


def pattern_tokenizer(pattern: str) -> Tokenizer:
    """Find words by a regular expression of the user's, in lower case."""
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ParameterError("token_pattern is no regular expression", got=repr(pattern), hint=f"{error}.") from error
    if compiled.groups > 1:
        raise ParameterError("token_pattern has several groups", allowed="one or none", got=repr(pattern))
    find = compiled.findall
    return lambda text: [token.encode() for token in find(text.lower())]


def _replace_foreign(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)  # the handler is only used for encoding
    foreign = error.object[error.start : error.end]
    return "".join(_FOREIGN if re.match(r"\w", character) else " " for character in foreign), error.end


codecs.register_error("fewbits-foreign", _replace_foreign)


def inverse_document_frequency(counts: Any) -> NDArray[np.float64]:
    """Smoothed idf of every word: ``ln((1 + documents) / (1 + documents with the word)) + 1``."""
    documents_with_word = np.bincount(counts.indices, minlength=counts.shape[1])
    return np.log((1 + counts.shape[0]) / (1 + documents_with_word)) + 1


def weigh(counts: Any, idf: NDArray[np.float64]) -> Any:
    """Turn a CSR table of counts into tf-idf rows of length 1 (float32); a row without words stays zero."""
    weights = (1 + np.log(counts.data)) * idf[counts.indices]
    table = sparse.csr_array((weights, counts.indices, counts.indptr), shape=counts.shape)
    return normalize(table, norm="l2", copy=False).astype(np.float32)


STOP_WORDS = frozenset(word.encode() for word in ENGLISH_STOP_WORDS)
BLOCK = 4096  # documents whose tokens are Python objects at one time


class TextVectorizer(TransformerMixin, BaseEstimator):
    """Turn texts into tf-idf rows (CSR, float32), reading them as a stream.

    Gives what scikit-learn's ``TfidfVectorizer`` gives with lower case, ``token_pattern``, its English stop
    words, ``max_features``, sublinear tf, smoothed idf and L2 norm, in about half the time. Only where words at the
    limit of ``max_features`` are equally frequent, which of them scikit-learn keeps depends on the processor; here they
    are kept in the order of the alphabet.

    Parameters
    ----------
    max_features : int, default=20000
        How many of the most frequent words are kept.
    stop_words : {"english"} or None, default="english"
        Which words are left out.
    token_pattern : str or None, default=None
        A regular expression for words; None is ``\\b[a-z][a-z]+\\b``, for which there is a fast way. For texts
        in other scripts ``\\w\\w+`` is a start.
    kept_first : sequence of str or None, default=None
        Words that come before others that are as frequent.

    Attributes
    ----------
    vocabulary_ : list of str
        The words in order of their columns, sorted.
    idf_ : array of shape (words,)
        Their inverse document frequencies.

    Examples
    --------
    >>> vectorizer = TextVectorizer().fit(["red apples and green apples", "green pears"])
    >>> vectorizer.vocabulary_
    ['apples', 'green', 'pears', 'red']
    >>> vectorizer.transform(["Green! Green pears?"]).shape
    (1, 4)
    """

    def __init__(
        self,
        *,
        max_features: int = 20_000,
        stop_words: str | None = "english",
        token_pattern: str | None = None,
        kept_first: Sequence[str] | None = None,
    ) -> None:
        self.max_features = max_features
        self.stop_words = stop_words
        self.token_pattern = token_pattern
        self.kept_first = kept_first

    def fit(self, X: Iterable[str], y: None = None) -> TextVectorizer:
        """Learn vocabulary and idf."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Iterable[str], y: None = None) -> Any:  # one pass: X may be a stream
        """Learn vocabulary and idf, and return the rows of the same texts."""
        self._check_parameters()
        columns: defaultdict[bytes, int] = defaultdict()
        columns.default_factory = columns.__len__  # a new token gets the next column
        blocks = [self._count(texts, columns.__getitem__, None) for texts in _text_blocks(_checked(X))]
        if not blocks:
            raise DataError("there is no document to learn from", allowed="one or more", got=0)
        tokens = list(columns)
        for block in blocks:  # a block knows the columns that were there when it was counted
            block.resize(block.shape[0], len(tokens))
        counts = sparse.vstack(blocks, format="csr")
        counts = counts[:, self._choose_words(counts, tokens)]
        self.idf_ = inverse_document_frequency(counts)
        self._index_words()
        return weigh(counts, self.idf_)

    def transform(self, X: Iterable[str]) -> Any:
        """Return the tf-idf rows of texts; a text without a known word is a zero row."""
        check_is_fitted(self, "idf_")
        blocks = [
            weigh(self._count(texts, self._columns.get, len(self.vocabulary_)), self.idf_)
            for texts in _text_blocks(_checked(X))
        ]
        if len(blocks) == 1:
            return blocks[0]
        return sparse.vstack(blocks, format="csr") if blocks else self._no_rows()

    def unknown_share(self, X: Iterable[str]) -> float:
        """Share of the words of texts, stop words left out, that are not in the vocabulary; 0 where there are none."""
        check_is_fitted(self, "idf_")
        tokenize = split_words if self.token_pattern is None else pattern_tokenizer(self.token_pattern)
        counts = Counter(token for text in _checked(X) for token in tokenize(text))
        words = {token: count for token, count in counts.items() if self._is_word(token)}
        unknown = sum(count for token, count in words.items() if token not in self._columns)
        return unknown / max(1, sum(words.values()))

    @property
    def n_features(self) -> int:
        """Words in the vocabulary."""
        return len(self.vocabulary_)

    def write(self, folder: Path) -> None:
        """Write settings and vocabulary as JSON, idf as an array."""
        check_is_fitted(self, "idf_")
        write_json(folder / "vectorizer.json", {"settings": self.get_params(), "vocabulary": self.vocabulary_})
        write_arrays(folder / "idf.safetensors", {"idf": self.idf_})

    @classmethod
    def read(cls, folder: Path) -> TextVectorizer:
        """Read what :meth:`write` wrote."""
        content = read_json(folder / "vectorizer.json")
        vectorizer = cls(**content["settings"])
        vectorizer.vocabulary_ = content["vocabulary"]
        vectorizer.idf_ = read_arrays(folder / "idf.safetensors")["idf"]
        vectorizer._index_words()
        return vectorizer

    def _check_parameters(self) -> None:
        check_whole_number("max_features", self.max_features, 1)
        if self.token_pattern is not None:
            pattern_tokenizer(self.token_pattern)
        if self.stop_words not in ("english", None):
            raise ParameterError("stop_words is unknown", allowed="'english' or None", got=repr(self.stop_words))

    def _count(self, texts: list[str], column_of: Any, n_columns: int | None) -> Any:
        """Count the words of a block of texts: CSR, documents x columns; tokens without a column are left out."""
        tokenize = split_words if self.token_pattern is None else pattern_tokenizer(self.token_pattern)
        found = array("i")
        ends = [0]
        known_only = n_columns is not None
        for text in texts:
            tokens = tokenize(text)
            found.extend(map(column_of, tokens, repeat(-1)) if known_only else map(column_of, tokens))
            ends.append(len(found))
        columns = np.frombuffer(found, dtype=np.int32) if found else np.zeros(0, np.int32)
        known = columns >= 0
        indptr = np.concatenate([[0], np.cumsum(known)])[ends]
        width = int(columns.max(initial=-1)) + 1 if n_columns is None else n_columns
        counts = sparse.csr_array(
            (np.ones(indptr[-1], np.int32), columns[known], indptr.astype(np.int32)),
            shape=(len(texts), width),
        )
        counts.sum_duplicates()
        return counts

    def _choose_words(self, counts: Any, tokens: list[bytes]) -> Any:
        """Set the vocabulary, and return the columns of the counts it is made of."""
        words = sorted(
            (token.decode("latin-1" if self.token_pattern is None else "utf-8"), column)
            for column, token in enumerate(tokens)
            if self._is_word(token)
        )
        if not words:
            raise DataError(
                "no document has a word",
                allowed="words of two or more letters a-z that are no stop words",
                hint=r"For texts in other scripts give a token_pattern, such as '\w\w+'.",
            )
        first = frozenset(self.kept_first or ())
        columns = np.array([column for _, column in words])
        frequency = np.asarray(counts.sum(axis=0)).ravel()[columns]
        comes_later = [word not in first for word, _ in words]
        # lexsort leaves equals in the order they are in; what argsort does with them depends on the processor
        chosen = np.sort(np.lexsort((comes_later, -frequency))[: self.max_features])
        self.vocabulary_ = [words[position][0] for position in chosen]
        return columns[chosen]

    def _is_word(self, token: bytes) -> bool:
        """Tell whether a token may be part of the vocabulary; an empty match is no word."""
        is_one = is_word(token) if self.token_pattern is None else bool(token)
        return is_one and not (self.stop_words and token in STOP_WORDS)

    def _index_words(self) -> None:
        self._columns = {word.encode(): column for column, word in enumerate(self.vocabulary_)}

    def _no_rows(self) -> Any:
        return sparse.csr_array((0, len(self.vocabulary_)), dtype=np.float32)


def _text_blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    stream = iter(texts)
    while block := list(islice(stream, BLOCK)):
        yield block


def _checked(texts: Iterable[str]) -> Iterable[str]:
    if isinstance(texts, str):
        raise DataError("one text is no corpus", allowed="a list or stream of texts", hint="Put it into a list: [text]")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"document {number} is no text", allowed="str", got=type(text).__name__)
        yield text

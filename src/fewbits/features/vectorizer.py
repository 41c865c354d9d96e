r"""Texts to tf-idf rows: tokens, vocabulary, weights.

The default words match ``\b[a-z][a-z]+\b`` in lower case: runs of word characters that consist of two or more of the
letters a to z. They are found by splitting bytes instead of by a regular expression, which gives the same words in a
fraction of the time (see :func:`split_words`).
"""

from __future__ import annotations

import codecs
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from sklearn.utils.sparsefuncs_fast import inplace_csr_row_normalize_l2
from sklearn.utils.validation import check_is_fitted

from fewbits.errors import DataError, ParameterError
from fewbits.storage import read_arrays, read_json, write_arrays, write_json
from fewbits.validation import batched, check_whole_number, warn_of_empty

Tokenizer = Callable[[str], list[bytes]]

# Every latin-1 character is one byte; those that are not word characters (re's \w) become spaces.
_WORD_BYTES = bytes(byte if re.match(r"\w", chr(byte)) else ord(" ") for byte in range(256))
_FOREIGN = "ª"  # a latin-1 word character outside a-z that replaces every word character beyond latin-1

STOP_WORDS = frozenset(word.encode() for word in ENGLISH_STOP_WORDS)
BATCH = 4096  # documents tokenized per batch, since tokens as Python objects take much memory
WRITTEN_WORD = re.compile(r"\w+(?:['\u2019]\w+)*")  # as people see a word: "don't" is one
WORD_PART = re.compile(r"[^\W_]+")


def split_words(text: str) -> list[bytes]:
    """Split a text into all runs of word characters, in lower case; :func:`is_word` selects the words among them.

    >>> split_words("Don't stop: x_1, naïve")
    [b'don', b't', b'stop', b'x_1', b'na\\xefve']
    """
    return text.lower().encode("latin-1", "fewbits-foreign").translate(_WORD_BYTES).split()


def is_word(token: bytes) -> bool:
    """Return whether a run of word characters consists of two or more of the letters a to z.

    >>> [is_word(token) for token in (b"stop", b"t", b"x_1", b"na\\xefve")]
    [True, False, False, False]
    """
    return len(token) > 1 and token.isalpha()  # bytes.isalpha() accepts a-z and A-Z only


def pattern_tokenizer(pattern: str) -> Tokenizer:
    """Return a tokenizer that finds all matches of a regular expression in the text in lower case."""
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ParameterError("token_pattern is not a valid regular expression", got=f"{pattern!r}: {error}") from error
    if compiled.groups > 1:
        raise ParameterError("token_pattern has several groups", allowed="at most one group", got=repr(pattern))
    find = compiled.findall
    return lambda text: [token.encode() for token in find(text.lower())]


def _replace_foreign(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)  # the handler is only used for encoding
    foreign = error.object[error.start : error.end]
    return "".join(_FOREIGN if re.match(r"\w", character) else " " for character in foreign), error.end


codecs.register_error("fewbits-foreign", _replace_foreign)


def inverse_document_frequency(counts: Any) -> NDArray[np.float64]:
    """Compute the smoothed idf of every word: ``ln((1 + documents) / (1 + documents with the word)) + 1``."""
    return np.log((1 + counts.shape[0]) / (1 + np.bincount(counts.indices, minlength=counts.shape[1]))) + 1


def tf_idf(counts: Any, idf: NDArray[np.float64]) -> Any:
    """Turn a CSR table of counts into tf-idf rows of unit length (float32); a row without words stays zero."""
    weights = (1 + np.log(counts.data)) * idf[counts.indices]
    table = sparse.csr_array((weights, counts.indices, counts.indptr), shape=counts.shape)
    inplace_csr_row_normalize_l2(table)
    return table.astype(np.float32)


class TextVectorizer(TransformerMixin, BaseEstimator):
    r"""Convert texts to tf-idf rows (CSR, float32), reading them as a stream.

    Returns what scikit-learn's ``TfidfVectorizer`` returns with lower case, ``token_pattern``, its English stop
    words, ``max_features``, sublinear tf, smoothed idf and L2 norm, in about half the time. The only difference is
    which of several equally frequent words fit into ``max_features``: scikit-learn's choice depends on the
    processor, here the words come in alphabetical order.

    Parameters
    ----------
    max_features : int, default=20000
        Size of the vocabulary: the most frequent words.
    stop_words : {"english"} or None, default="english"
        Words to leave out.
    token_pattern : str or None, default=None
        Regular expression that matches a word; None means ``\b[a-z][a-z]+\b``, for which there is a fast
        implementation. For texts in other scripts, ``\w\w+`` is a good start.
    tie_breakers : sequence of str or None, default=None
        Words preferred over others of the same frequency when the vocabulary is full.
    kept_first : sequence of str or None, default=None
        Former name of ``tie_breakers``.

    Attributes
    ----------
    vocabulary_ : list of str
        Words in the order of their columns, sorted.
    idf_ : array of shape (words,)
        Inverse document frequency of each word.

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
        tie_breakers: Sequence[str] | None = None,
        kept_first: Sequence[str] | None = None,
    ) -> None:
        self.max_features = max_features
        self.stop_words = stop_words
        self.token_pattern = token_pattern
        self.tie_breakers = tie_breakers
        self.kept_first = kept_first

    def fit(self, X: Iterable[str], y: None = None) -> TextVectorizer:
        """Learn vocabulary and idf."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Iterable[str], y: None = None) -> Any:
        """Learn vocabulary and idf, and return the tf-idf rows; the texts are read once, so they may be a stream."""
        self._check_parameters()
        column_of: defaultdict[bytes, int] = defaultdict()
        column_of.default_factory = column_of.__len__  # a new token gets the next column
        parts = [self._count_all(texts, column_of) for texts in batched(_check_texts(X), BATCH)]
        if not parts:
            raise DataError("there are no documents to learn from", allowed="one or more", got=0)
        for part in parts:  # each part has only the columns that existed when it was counted
            part.resize(part.shape[0], len(column_of))
        counts = sparse.vstack(parts, format="csr")
        self.vocabulary_, columns = self._most_frequent(counts, list(column_of))
        counts = counts[:, columns]
        self.idf_ = inverse_document_frequency(counts)
        self._column_of = _column_index(self.vocabulary_)
        return warn_of_empty(tf_idf(counts, self.idf_), "have no word of the vocabulary", stacklevel=2)

    def transform(self, X: Iterable[str]) -> Any:
        """Return the tf-idf rows of texts; a text without a word of the vocabulary becomes a zero row."""
        check_is_fitted(self, "idf_")
        parts = [tf_idf(self._count_vocabulary(texts), self.idf_) for texts in batched(_check_texts(X), BATCH)]
        if not parts:
            return sparse.csr_array((0, self.n_features), dtype=np.float32)
        return parts[0] if len(parts) == 1 else sparse.vstack(parts, format="csr")

    def row(self, text: str) -> Any:
        """Return the tf-idf row of one text: what :meth:`transform` returns for it, in a fraction of the time."""
        counts: dict[int, int] = {}
        for token in self._tokenize(text):
            column = self._column_of.get(token)
            if column is not None:
                counts[column] = counts.get(column, 0) + 1
        columns = sorted(counts)
        indices = np.array(columns, dtype=np.int32)
        weights = (1 + np.log(np.array([counts[column] for column in columns], dtype=np.int32))) * self.idf_[indices]
        table = sparse.csr_array((weights, indices, np.array([0, len(columns)], dtype=np.int32)), (1, self.n_features))
        inplace_csr_row_normalize_l2(table)
        table.data = table.data.astype(np.float32)
        return table

    def known_words(self, text: str) -> list[str]:
        """Return the words of the vocabulary that occur in a text, each once, in order of appearance.

        >>> TextVectorizer().fit(["boats on a lake"]).known_words("The lake's house_boats, lake boats")
        ['lake', 'boats']
        """
        check_is_fitted(self, "idf_")
        columns = dict.fromkeys(map(self._column_of.get, self._tokenize(text)))
        return [self.vocabulary_[column] for column in columns if column is not None]

    def unknown_words(self, text: str, limit: int | None = None) -> list[str]:
        """Return the words of a text that have no part in the vocabulary, as written, in lower case.

        Each word is returned once, in order of appearance. Stop words and single letters are left out, as is a
        word that the tokenizer splits into parts of which one is known. At most ``limit`` words are returned.

        >>> TextVectorizer().fit(["boats on a lake"]).unknown_words("The lake's house_boats, don't they? A lake")
        ['house_boats', "don't"]
        """
        check_is_fitted(self, "idf_")
        words = dict.fromkeys(WRITTEN_WORD.findall(text.lower()))
        unknown = (word for word in words if not self._is_ignored(word) and not self._has_known_token(word))
        return list(islice(unknown, limit))

    def unknown_share(self, X: Iterable[str]) -> float:
        """Return the fraction of the words in texts, without stop words, that are not in the vocabulary."""
        check_is_fitted(self, "idf_")
        tokenize = self._tokenize
        counts = Counter(token for text in _check_texts(X) for token in tokenize(text))
        words = {token: count for token, count in counts.items() if self._is_candidate(token)}
        return sum(words[token] for token in words if token not in self._column_of) / max(1, sum(words.values()))

    def unseen_share(self, X: Iterable[str]) -> float:
        """Return the fraction of the words in texts, as written and without stop words, with no part in the vocabulary.

        >>> TextVectorizer().fit(["boats on a lake"]).unseen_share(["The lake, 2024, белые лодки"])
        0.75
        """
        counts = Counter(word for text in _check_texts(X) for word in WRITTEN_WORD.findall(text.lower()))
        words = {word: count for word, count in counts.items() if not self._is_ignored(word)}
        return sum(words[word] for word in words if not self._has_known_token(word)) / max(1, sum(words.values()))

    @property
    def n_features(self) -> int:
        """Return the number of words in the vocabulary."""
        return len(self.vocabulary_)

    def write(self, folder: Path) -> None:
        """Write settings and vocabulary as JSON, idf as an array."""
        check_is_fitted(self, "idf_")
        settings = self.get_params()
        # Saved under the former name, so that earlier releases can read the folder.
        settings["kept_first"] = self._preferred_words(settings.pop("tie_breakers"))
        write_json(folder / "vectorizer.json", {"settings": settings, "vocabulary": self.vocabulary_})
        write_arrays(folder / "idf.safetensors", {"idf": self.idf_})

    @classmethod
    def read(cls, folder: Path) -> TextVectorizer:
        """Read a vectorizer saved by :meth:`write`."""
        content = read_json(folder / "vectorizer.json")
        settings = content["settings"]
        if "kept_first" in settings:
            settings["tie_breakers"] = settings.pop("kept_first")
        vectorizer = cls(**settings)
        vectorizer.vocabulary_ = content["vocabulary"]
        vectorizer.idf_ = read_arrays(folder / "idf.safetensors")["idf"]
        vectorizer._column_of = _column_index(vectorizer.vocabulary_)
        return vectorizer

    def _check_parameters(self) -> None:
        check_whole_number("max_features", self.max_features, 1)
        if self.token_pattern is not None:
            pattern_tokenizer(self.token_pattern)
        if self.stop_words not in ("english", None):
            raise ParameterError("stop_words is unknown", allowed="'english' or None", got=repr(self.stop_words))

    @property
    def _tokenize(self) -> Tokenizer:
        """Return the function that splits a text into tokens."""
        return split_words if self.token_pattern is None else pattern_tokenizer(self.token_pattern)

    def _count_all(self, texts: Sequence[str], column_of: defaultdict[bytes, int]) -> Any:
        """Count all tokens of texts, giving new ones a column: CSR (documents, columns so far)."""
        tokenize = self._tokenize
        columns, ends = array("i"), [0]
        for text in texts:
            columns.extend(map(column_of.__getitem__, tokenize(text)))
            ends.append(len(columns))
        return _count_table(np.array(columns, dtype=np.int32), np.array(ends), len(column_of))

    def _count_vocabulary(self, texts: Sequence[str]) -> Any:
        """Count the words of the vocabulary in texts: CSR (documents, words)."""
        tokenize, column_of = self._tokenize, self._column_of
        columns, ends = array("i"), [0]
        for text in texts:
            columns.extend(map(column_of.get, tokenize(text), repeat(-1)))
            ends.append(len(columns))
        all_columns = np.array(columns, dtype=np.int32)
        in_vocabulary = all_columns >= 0
        ends_in_vocabulary = np.concatenate([[0], np.cumsum(in_vocabulary)])[ends]
        return _count_table(all_columns[in_vocabulary], ends_in_vocabulary, self.n_features)

    def _most_frequent(self, counts: Any, tokens: list[bytes]) -> tuple[list[str], NDArray[np.int64]]:
        """Choose the vocabulary: its words, sorted, and their columns in the counts."""
        encoding = "latin-1" if self.token_pattern is None else "utf-8"
        candidates = sorted(
            (token.decode(encoding), column) for column, token in enumerate(tokens) if self._is_candidate(token)
        )
        if not candidates:
            raise DataError(
                "the documents contain no words",
                allowed="words of two or more letters a-z that are not stop words",
                hint=r"For texts in other scripts set token_pattern, for example to '\w\w+'.",
            )
        preferred = frozenset(self._preferred_words(self.tie_breakers) or ())
        columns = np.array([column for _, column in candidates])
        frequency = np.asarray(counts.sum(axis=0)).ravel()[columns]
        is_other = [word not in preferred for word, _ in candidates]
        # lexsort is stable, so ties are in alphabetical order; the result of argsort depends on the processor
        chosen = np.sort(np.lexsort((is_other, -frequency))[: self.max_features])
        return [candidates[position][0] for position in chosen], columns[chosen]

    def _preferred_words(self, tie_breakers: Sequence[str] | None) -> Sequence[str] | None:
        return self.kept_first if tie_breakers is None else tie_breakers

    def _is_candidate(self, token: bytes) -> bool:
        """Return whether a token may be in the vocabulary; a pattern may match the empty string, which may not."""
        is_valid = is_word(token) if self.token_pattern is None else bool(token)
        return is_valid and not (self.stop_words and token in STOP_WORDS)

    def _is_ignored(self, word: str) -> bool:
        """Return whether a word consists of nothing but stop words and single letters, such as "what's"."""
        parts = WORD_PART.findall(word)
        return all(len(part) == 1 or (self.stop_words and part in ENGLISH_STOP_WORDS) for part in parts)

    def _has_known_token(self, word: str) -> bool:
        return any(token in self._column_of for token in self._tokenize(word))


def _column_index(vocabulary: Sequence[str]) -> dict[bytes, int]:
    return {word.encode(): column for column, word in enumerate(vocabulary)}


def _count_table(columns: NDArray[np.int32], ends: NDArray[Any], width: int) -> Any:
    """Count columns per row as CSR; row ``i`` has ``columns[ends[i] : ends[i + 1]]``."""
    ones = np.ones(len(columns), np.int32)
    counts = sparse.csr_array((ones, columns, ends.astype(np.int32)), shape=(len(ends) - 1, width))
    counts.sum_duplicates()
    return counts


def _check_texts(texts: Iterable[str]) -> Iterable[str]:
    if isinstance(texts, str):
        raise DataError("expected texts, not a single text", allowed="a list or stream of texts", hint="Pass [text].")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"document {number} is not a text", allowed="str", got=type(text).__name__)
        yield text

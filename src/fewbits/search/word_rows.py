"""Texts as rows of hashed words with their counts, in a temporary file: a million texts take little memory.

The words are those of :func:`fewbits.search.words.split`. They are hashed to 25 bits, so that no vocabulary is kept.
"""

from __future__ import annotations

import tempfile
import unicodedata
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fewbits.errors import NotSavedError
from fewbits.search.text_differences import number_signature
from fewbits.search.words import split
from fewbits.validation import batched

WORD_BITS = 25
BLOCK = 1024  # texts whose words are counted at a time
PIECE = 1 << 16  # bytes of text that are hashed at a time, so that all arrays stay in the cache of the processor
MAX_COUNT = 65_535
ENTRY = np.dtype([("word", "<u4"), ("count", "<u2")])

SAME, WORD, IGNORE = "same", "word", "ignore"
NUMBERS = (SAME, WORD, IGNORE)  # how numbers are compared

_generator = np.random.default_rng(20)
_OF_BYTE = _generator.integers(1, 2**64, 256, dtype=np.uint64)
_OF_PLACE = _generator.integers(0, 2**63, 256, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
# Letters and digits in lower case, and all bytes of other scripts; 0 separates words.
_WORD_BYTES = bytes(
    byte if byte >= 128 or chr(byte).isdigit() else ord(chr(byte).lower()) if chr(byte).isalpha() else 0
    for byte in range(256)
)
_IS_DIGIT = np.array([chr(byte).isdigit() and byte < 128 for byte in range(256)])


class WordRows:
    """Rows of hashed words, in the order in which texts are appended.

    Attributes
    ----------
    frequency : array
        Number of texts with each word.
    fingerprints : array of uint64
        Equal for texts with the same words and counts, and the same numbers if they are compared.
    signatures : array of uint64
        Hash of the numbers in a text if they are compared, else 0.
    """

    def __init__(self, numbers: str = SAME) -> None:
        self._numbers = numbers
        self._entries = tempfile.TemporaryFile()  # noqa: SIM115
        self._starts = array("q", [0])
        self._fingerprints, self._signatures = array("Q"), array("Q")
        self.frequency = np.zeros(1 << WORD_BITS, dtype=np.int32)
        self.n_empty = 0  # texts that are never compared

    def __len__(self) -> int:
        return len(self._starts) - 1

    @property
    def fingerprints(self) -> NDArray[np.uint64]:
        """Return a hash per row."""
        return np.array(self._fingerprints, dtype=np.uint64)

    @property
    def signatures(self) -> NDArray[np.uint64]:
        """Return a hash per row of the numbers in it."""
        return np.array(self._signatures, dtype=np.uint64)

    def extend(self, texts: Iterable[str]) -> None:
        """Append texts."""
        for block in batched(texts, BLOCK):
            try:
                self._append(block)
            except OSError as error:
                hint = "Free space on its disk, or set TMPDIR to a folder with more; it holds six bytes per word."
                raise NotSavedError("a temporary file cannot be written", got=error, hint=hint) from error

    def _append(self, texts: Sequence[str]) -> None:
        rows, words, counts = count_words(texts, without_numbers=self._numbers == IGNORE)
        entries = np.empty(len(words), dtype=ENTRY)
        entries["word"], entries["count"] = words, counts
        self._entries.write(entries.tobytes())
        known, texts_of_word = np.unique(words, return_counts=True)
        self.frequency[known] += texts_of_word.astype(np.int32)
        lengths = np.bincount(rows, minlength=len(texts))
        signatures = [number_signature(text) if self._numbers == SAME else 0 for text in texts]
        sums = np.zeros(len(words) + 1, dtype=np.uint64)
        np.cumsum(mix((words.astype(np.uint64) << np.uint64(16)) | counts.astype(np.uint64)), out=sums[1:])
        ends = np.cumsum(lengths)
        hashes = sums[ends] - sums[ends - lengths]
        hashes = mix(hashes ^ mix(np.array(signatures, dtype=np.uint64)))
        for text, length, fingerprint in zip(texts, lengths.tolist(), hashes.tolist(), strict=True):
            self._starts.append(self._starts[-1] + length)
            self._fingerprints.append(fingerprint if length else self._of_wordless(text))
        self._signatures.extend(signatures)

    def _of_wordless(self, text: str) -> int:
        """Return the fingerprint of a text without words: punctuation is compared as it is, nothing with nothing."""
        content = text.strip().encode("utf-8", "surrogatepass")
        if not content:
            self.n_empty += 1
            return 2 * len(self._starts)  # unlike any other
        return zlib.crc32(content) << 32 | 1

    def blocks(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.void]]]:
        """Yield all rows in blocks: the start of each row in the block, and its entries."""
        starts = np.frombuffer(self._starts, dtype=np.int64)
        self._entries.flush()
        for first in range(0, len(self), BLOCK):
            of_block = starts[first : first + BLOCK + 1]
            self._entries.seek(int(of_block[0]) * ENTRY.itemsize)
            content = self._entries.read(int(of_block[-1] - of_block[0]) * ENTRY.itemsize)
            yield of_block - of_block[0], np.frombuffer(content, dtype=ENTRY)

    def tfidf(self, numbers: NDArray[np.int64]) -> Any:
        """Return tf-idf rows of unit length by number, as scikit-learn's TfidfVectorizer weights words."""
        self._entries.flush()
        starts = np.array(self._starts, dtype=np.int64)
        lengths = starts[numbers + 1] - starts[numbers]
        ends = np.concatenate([[0], lengths.cumsum()])
        parts = []
        for start, length in zip(
            starts[numbers].tolist(), lengths.tolist(), strict=True
        ):  # a map would fill the memory
            self._entries.seek(start * ENTRY.itemsize)
            parts.append(self._entries.read(length * ENTRY.itemsize))
        entries = np.frombuffer(b"".join(parts), dtype=ENTRY)
        weights = entries["count"] * self.idf(entries["word"])
        norms = np.sqrt(np.bincount(np.repeat(np.arange(len(numbers)), lengths), weights**2, minlength=len(numbers)))
        data = (weights / np.repeat(norms, lengths)).astype(np.float32)
        return sparse.csr_array((data, entries["word"].astype(np.int32), ends), shape=(len(numbers), 1 << WORD_BITS))

    def idf(self, words: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Return the inverse document frequency of words, smoothed as by scikit-learn."""
        return np.log((1 + len(self)) / (1 + self.frequency[words])) + 1


def count_words(
    texts: Sequence[str], *, without_numbers: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint16]]:
    """Return the distinct words of texts: row, hash and count, ordered by row and hash."""
    keys = [_keys(piece, rows, without_numbers) for piece, rows in _pieces(texts)]
    sorted_keys = np.sort(np.concatenate([np.zeros(0, np.uint64), *keys]))
    is_first = np.ones(len(sorted_keys), dtype=np.bool_)
    is_first[1:] = sorted_keys[1:] != sorted_keys[:-1]
    first = np.flatnonzero(is_first)
    distinct = sorted_keys[first]
    counts = np.minimum(np.diff(first, append=len(sorted_keys)), MAX_COUNT).astype(np.uint16)
    return (distinct >> np.uint64(32)).astype(np.int64), distinct.astype(np.uint32), counts


def normalized_words(text: str) -> str:
    """Return a text whose words, as :func:`split` finds them, are runs of ASCII letters and digits or of other bytes.

    >>> normalized_words("Grève à 北京大学")
    'grève à 北京 京大 大学'
    """
    if text.isascii():
        return text
    return " ".join([chunk if chunk.isascii() else _split_chunk(chunk) for chunk in text.split()])


@lru_cache(maxsize=1 << 14)
def _split_chunk(chunk: str) -> str:
    words = " ".join(split(chunk).words.split())
    return "".join(str(unicodedata.digit(one)) if one.isdigit() and not one.isascii() else one for one in words)


def _pieces(texts: Sequence[str]) -> Iterator[tuple[bytes, list[tuple[int, int]]]]:
    """Join texts to pieces of limited size, each with the row and the end of each text in it; cut long texts."""
    parts: list[bytes] = []
    rows: list[tuple[int, int]] = []
    size = 0
    for row, text in enumerate(texts):
        rest = normalized_words(text).encode("utf-8", "replace")
        while rest:
            cut = len(rest) if len(rest) <= PIECE else rest.rfind(b" ", 0, PIECE) + 1 or PIECE
            part, rest = rest[:cut], rest[cut:]
            parts += [part, b" "]
            size += len(part) + 1
            rows.append((row, size))
            if size >= PIECE:
                yield b"".join(parts), rows
                parts, rows, size = [], [], 0
    if parts:
        yield b"".join(parts), rows


def _keys(piece: bytes, rows: list[tuple[int, int]], without_numbers: bool) -> NDArray[np.uint64]:
    """Return for each word the row in the upper half and the hash in the lower."""
    letters = np.frombuffer(piece.translate(_WORD_BYTES), dtype=np.uint8)
    inside = letters != 0
    edges = np.flatnonzero(np.diff(inside, prepend=False, append=False))
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    if not len(starts):
        return np.zeros(0, np.uint64)
    letters = letters[inside]
    offsets = np.cumsum(lengths) - lengths
    places = np.arange(len(letters)) - np.repeat(offsets, lengths)
    hashes = mix(np.add.reduceat(_OF_BYTE[letters] * _OF_PLACE[places & 255], offsets))
    numbers, ends = zip(*rows, strict=True)
    row = np.array(numbers, dtype=np.uint64)[np.searchsorted(np.array(ends), starts, side="right")]
    keys = (row << np.uint64(32)) | (hashes >> np.uint64(64 - WORD_BITS))
    return keys[~np.logical_or.reduceat(_IS_DIGIT[letters], offsets)] if without_numbers else keys


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash 64-bit values so that each bit depends on all (the finalizer of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
